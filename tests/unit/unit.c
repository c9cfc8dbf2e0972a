/* SPDX-License-Identifier: MIT */
#include "unit.h"
#include "../dice.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STUCK_SECONDS = 600 }; /* how long a child takes is up to the machine */

/* Its handlers would go on with the next test in the child. */
static const int of_cmocka[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS};

bool is_long(void) { return getenv("ALL_CASES") != NULL; }

void must_failed(const char *file, int line, const char *condition)
{
  fprintf(stderr, "%s:%d: must(%s)\n", file, line, condition);
  _exit(1);
}

static pid_t start(void (*run)(void *), void *argument, int standard_error)
{
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(STUCK_SECONDS);
    for (size_t i = 0; i < sizeof of_cmocka / sizeof *of_cmocka; i++)
      signal(of_cmocka[i], SIG_DFL);
    if (standard_error >= 0)
      dup2(standard_error, STDERR_FILENO);
    run(argument);
    _exit(0);
  }
  return child;
}

static int wait_for(pid_t child)
{
  int status = -1;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

int end_of_child(void (*run)(void *), void *argument) { return wait_for(start(run, argument, -1)); }

void in_child(void (*run)(void *), void *argument) { in_child_named("", run, argument); }

void in_child_named(const char *name, void (*run)(void *), void *argument)
{
  int status = end_of_child(run, argument);
  if (status)
    print_error("%s: the child ended with signal %d, code %d\n", name, WTERMSIG(status), WEXITSTATUS(status));
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void aborts_with(void (*run)(void *), void *argument, const char *words)
{
  int ends[2];
  char said[4096];
  assert_int_equal(pipe(ends), 0);
  pid_t child = start(run, argument, ends[1]);
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; length < sizeof said - 1 && (n = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
    length += (size_t)n;
  close(ends[0]);
  said[length] = 0;
  int status = wait_for(child);
  if (!WIFSIGNALED(status) || !strstr(said, words))
    print_error("status %x, said: %s, expected: %s\n", (unsigned)status, said, words);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  assert_non_null(strstr(said, words));
}

void in_thread(void *(*work)(void *), void *argument)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, work, argument) == 0);
  must(pthread_join(thread, NULL) == 0);
}

/* ---- patterns ---- */

enum { DENSE = 4096, PAGE_LEAST = 4096 };

/* Odd in pages, so that no page is passed over for ever. */
static size_t stride_of(size_t size)
{
  return size <= MIB ? PAGE_LEAST : size <= 64 * MIB ? 65536 + PAGE_LEAST : MIB + PAGE_LEAST;
}

static size_t step_at(size_t i, size_t size)
{
  return i < DENSE || i + DENSE >= size ? 1 : min_size(stride_of(size), size - DENSE - i);
}

void pattern_write(void *block, size_t size, uint64_t key)
{
  for (size_t i = 0; i < size; i += step_at(i, size))
    ((unsigned char *)block)[i] = byte_of(key, i);
}

bool pattern_kept(const void *block, size_t size, size_t written, uint64_t key)
{
  for (size_t i = 0; i < size; i += step_at(i, written))
    if (((const unsigned char *)block)[i] != byte_of(key, i))
      return false;
  return true;
}

bool pattern_holds(const void *block, size_t size, uint64_t key) { return pattern_kept(block, size, size, key); }

bool all_zero(const void *block, size_t size)
{
  const unsigned char *bytes = block;
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

uint64_t dice_roll(dice_t *dice) { return roll(&dice->state); }
