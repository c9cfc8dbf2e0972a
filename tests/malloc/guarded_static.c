/* SPDX-License-Identifier: MIT
 *
 * A static program may have no index of its tables, and then stacks have one address. The manager is in the program, so that
 * address is the manager's: a message about a guarded block must not name it as the place that allocated or freed the block. A
 * message that has the whole stack names the program's function among others. */
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

/* Says whether the places that a message tells, if any, have the program's function. */
static bool names_it(const char *places) { return !places || strstr(places, "write_past+"); }

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
  char *allocated = strstr(said, ", allocated by "), *freed = strstr(said, ", freed by ");
  bool names_program = names_it(freed);
  if (freed)
    *freed = '\0';
  names_program &= names_it(allocated);
  if (freed)
    *freed = ',';
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
