/* SPDX-License-Identifier: MIT
 * The plain library has no diagnostics: each flag, option and call that needs them is refused, and says why. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/wait.h>
#include <tidepool.h>
#include <unistd.h>

static void expect_refused(const char *what)
{
  char expected[128];
  snprintf(expected, sizeof expected, "only the debug library has %s", what);
  assert_int_equal(errno, EINVAL);
  assert_string_equal(pool_error(), expected);
  errno = 0;
}

static void flags(void **state)
{
  static const struct {
    unsigned flag;
    const char *name;
  } of[] = {
    {POOL_HEAP_CHECKED, "POOL_HEAP_CHECKED"}, {POOL_HEAP_GUARDED, "POOL_HEAP_GUARDED"}, {POOL_HEAP_SITES, "POOL_HEAP_SITES"}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    assert_null(pool_heap_create(&(pool_heap_options_t){.flags = of[i].flag}));
    expect_refused(of[i].name);
    assert_null(pool_heap_create(&(pool_heap_options_t){.flags = of[i].flag | POOL_HEAP_ZERO_ON_FREE, .budget = 1 << 20}));
    expect_refused(of[i].name);
  }
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  assert_non_null(heap);
  pool_heap_destroy(heap);
}

static void calls(void **state)
{
  (void)state;
  assert_false(pool_heap_report(pool_heap_default(), STDOUT_FILENO));
  expect_refused("pool_heap_report()");
  assert_false(pool_profile_start(0));
  expect_refused("pool_profile_start()");
  assert_false(pool_profile_write(NULL, STDOUT_FILENO));
  expect_refused("pool_profile_write()");
  pool_profile_stop();
}

static const char *const keys[][2] = {{"checked", "1"},      {"guarded", "all"},       {"sites", "4"},
                                      {"leaks", "all"},      {"guard_sample", "1"},    {"profile", "/tmp/x"},
                                      {"sample_bytes", "1"}, {"profile_signal", "12"}, {"export", "1"}};
enum { KEYS = sizeof keys / sizeof *keys };

static void options(void **state)
{
  (void)state;
  for (size_t i = 0; i < KEYS; i++) {
    assert_false(pool_option_set(keys[i][0], keys[i][1]));
    expect_refused(keys[i][0]);
  }
  assert_true(pool_option_set("checked", "0") && pool_option_set("leaks", "none"));
}

/* What this program does when it is started with an option: nothing may be left of it. */
static int work(void)
{
  pool_heap_t *heap = pool_heap_create(NULL);
  void *block = pool_alloc(100), *own = pool_heap_alloc(heap, 100);
  if (!block || !own || pool_usable_size(block) < 100)
    return 1;
  pool_free(block);
  pool_heap_destroy(heap);
  return 0;
}

static size_t run_with(const char *options, char *said, size_t size)
{
  int ends[2];
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (!child) {
    dup2(ends[1], STDERR_FILENO);
    setenv("TIDEPOOL_OPTIONS", options, 1);
    execl("/proc/self/exe", "plain", "work", (char *)NULL);
    _exit(2);
  }
  close(ends[1]);
  for (ssize_t n; (n = read(ends[0], said + length, size - 1 - length)) > 0;)
    length += (size_t)n;
  said[length] = '\0';
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return length;
}

static void environment(void **state)
{
  (void)state;
  for (size_t i = 0; i < KEYS; i++) {
    char set[64], said[512], expected[160];
    snprintf(set, sizeof set, "%s=%s", keys[i][0], keys[i][1]);
    snprintf(expected, sizeof expected, "tidepool: %s: only the debug library has this option; ignored\n", keys[i][0]);
    run_with(set, said, sizeof said);
    assert_string_equal(said, expected);
  }
  char said[512];
  run_with("checked=1,purge_delay_ms=5,leaks=all", said, sizeof said);
  assert_string_equal(said, "tidepool: checked: only the debug library has this option; ignored\n"
                            "tidepool: leaks: only the debug library has this option; ignored\n");
  assert_int_equal(
    run_with("checked=0,guarded=0,sites=0,leaks=none,guard_sample=0,export=0,purge_delay_ms=5", said, sizeof said), 0);
}

int main(int argc, char **argv)
{
  if (argc > 1 && !strcmp(argv[1], "work"))
    return work();
  /* Options come first: they are open until the first use. */
  const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(calls), cmocka_unit_test(flags),
                                     cmocka_unit_test(environment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
