/* SPDX-License-Identifier: MIT
 * Children of unit.h, by fork(). tests/windows/children.c has them without. */
#include "unit.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STUCK_SECONDS = 600 }; /* how long a child takes is up to the machine */

/* Its handlers would go on with the next test in the child. */
static const int of_cmocka[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS};

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
