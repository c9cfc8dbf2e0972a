/* SPDX-License-Identifier: MIT */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS, FAILS, IS_SKIPPED };

static jmp_buf end_of_test;
static void *state;

void (*cmocka_before_first)(void);

static _Noreturn void leave(int how) { longjmp(end_of_test, how); }

static _Noreturn void fail_at(const char *file, int line, const char *what)
{
  fprintf(stderr, "%s:%d: error: %s\n", file, line, what);
  leave(FAILS);
}

void cmocka_skip(void) { leave(IS_SKIPPED); }

void cmocka_check(bool holds, const char *file, int line, const char *what)
{
  if (!holds)
    fail_at(file, line, what);
}

void cmocka_check_range(uintmax_t value, uintmax_t least, uintmax_t most, const char *file, int line, const char *what)
{
  if (value >= least && value <= most)
    return;
  fprintf(stderr, "%ju is not in %ju to %ju\n", value, least, most);
  fail_at(file, line, what);
}

void cmocka_compare(uintmax_t a, uintmax_t b, bool equal, const char *file, int line, const char *what)
{
  if ((a == b) == equal)
    return;
  fprintf(stderr, "%#jx and %#jx\n", a, b);
  fail_at(file, line, what);
}

void cmocka_compare_text(const char *a, const char *b, bool equal, const char *file, int line, const char *what)
{
  if ((strcmp(a, b) == 0) == equal)
    return;
  fprintf(stderr, "\"%s\" and \"%s\"\n", a, b);
  fail_at(file, line, what);
}

void cmocka_compare_bytes(const void *a, const void *b, size_t size, const char *file, int line, const char *what)
{
  if (memcmp(a, b, size) != 0)
    fail_at(file, line, what);
}

void print_message(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
}

void print_error(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
}

static void run_fixture(cmocka_fixture_t *fixture)
{
  if (fixture && fixture(&state) != 0)
    abort();
}

/* CMOCKA_LEFT_OUT has tests that are skipped, as GROUP/NAME with semicolons between them. */
static bool is_left_out(const char *group, const char *name)
{
  const char *those = getenv("CMOCKA_LEFT_OUT");
  char one[200];
  size_t length = (size_t)snprintf(one, sizeof one, "%s/%s", group, name);
  for (const char *at = those; at && (at = strstr(at, one)) != NULL; at += length)
    if ((at == those || at[-1] == ';') && (at[length] == ';' || !at[length]))
      return true;
  return false;
}

/* Returns how the test ended. What is said comes out before a test that may fork, or end the program. */
static int run(const char *group, const struct CMUnitTest *test)
{
  printf("[ RUN      ] %s\n", test->name);
  fflush(NULL);
  int how = is_left_out(group, test->name) ? IS_SKIPPED : setjmp(end_of_test);
  void *own = test->state;
  if (how == RUNS)
    test->run(own ? &own : &state);
  static const char *const verdicts[] = {"       OK ", "  FAILED  ", "  SKIPPED "};
  printf("[%s] %s\n", verdicts[how], test->name);
  return how;
}

int cmocka_run(const char *group, const struct CMUnitTest *tests, size_t count, cmocka_fixture_t *setup,
               cmocka_fixture_t *teardown)
{
  int ended[IS_SKIPPED + 1] = {0};
  printf("[==========] %s: Running %zu test(s).\n", group, count);
  run_fixture(setup);
  if (cmocka_before_first)
    cmocka_before_first();
  for (size_t i = 0; i < count; i++)
    ended[run(group, &tests[i])]++;
  run_fixture(teardown);
  printf("[==========] %zu test(s) run.\n[  PASSED  ] %d test(s).\n", count, ended[RUNS]);
  if (ended[IS_SKIPPED])
    printf("[  SKIPPED ] %d test(s)\n", ended[IS_SKIPPED]);
  if (ended[FAILS])
    printf("[  FAILED  ] %d test(s)\n", ended[FAILS]);
  return ended[FAILS];
}
