/* SPDX-License-Identifier: MIT
 *
 * A static program has no stacks, and the manager is in it: what a message says of a guarded block names no function of the
 * manager as the one that allocated or freed it. */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int write_past(const char *how)
{
  enum { SIZE = 20 };
  char *volatile block = malloc(SIZE);
  if (!strcmp(how, "twice"))
    free(block);
  else
    block[SIZE] = 1;
  free(block);
  return 0;
}

static void expect_no_manager(const char *options, const char *how, const char *words)
{
  int ends[2];
  char said[1024];
  size_t length = 0;
  assert(pipe(ends) == 0);
  pid_t child = fork();
  if (!child) {
    dup2(ends[1], STDERR_FILENO);
    setenv("TIDEPOOL_OPTIONS", options, 1);
    execl("/proc/self/exe", "guarded_static", how, (char *)NULL);
    _exit(2);
  }
  close(ends[1]);
  for (ssize_t n; (n = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
    length += (size_t)n;
  said[length] = '\0';
  close(ends[0]);
  waitpid(child, NULL, 0);
  const char *first = strstr(said, "allocated by "), *second = strstr(said, "freed by ");
  bool names_program =
    (!first || !strncmp(first, "allocated by write_past+", 24)) && (!second || !strncmp(second, "freed by write_past+", 20));
  if (strstr(said, words) && names_program)
    return;
  fprintf(stderr, "%s, %s: %s", options, how, said);
  exit(1);
}

int main(int count, char **arguments)
{
  if (count > 1)
    return write_past(arguments[1]);
  static const char *const options[] = {"guarded=1", "guard_sample=1", "checked=1"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    expect_no_manager(options[i], "past", "written past its end");
    expect_no_manager(options[i], "twice", "freed twice");
  }
  return 0;
}
