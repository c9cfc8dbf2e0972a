/* SPDX-License-Identifier: MIT
 *
 * How a program for instructions.py runs its patterns. A single one it runs itself, in memory that nothing else has touched.
 * Each of several runs in a child, so that valgrind, whose start takes longer than most patterns, starts once. A line of output
 * names the process of each child, as valgrind's counts do. */
#ifndef MICRO_H
#define MICRO_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the pattern of this name; false if there is none. Valgrind counts from its beginning, so it is never inlined. */
__attribute__((noinline)) static bool run_pattern(const char *name, long count);

static bool run_in_child(const char *name, long count)
{
  pid_t child = fork();
  if (child == 0)
    exit(run_pattern(name, count) ? EXIT_SUCCESS : EXIT_FAILURE);
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    return false;
  printf("%ld %s %ld\n", (long)child, name, count);
  return true;
}

static int run_patterns(int argc, char **argv)
{
  bool done = argc > 2 && argc % 2 == 1;
  setvbuf(stdout, NULL, _IONBF, 0); /* a buffer would be the first block, and the next child would write what is in it, too */
  if (argc == 3)
    done = run_pattern(argv[1], atol(argv[2]));
  for (int i = 1; done && argc > 3 && i < argc; i += 2)
    done = run_in_child(argv[i], atol(argv[i + 1]));
  if (!done)
    fprintf(stderr, "usage: %s PATTERN COUNT [PATTERN COUNT]...\n", argv[0]);
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
