/* SPDX-License-Identifier: MIT
 *
 * A program in C that loads C++ when it runs: operator new is there from the start, the runtime that throws for it is not,
 * and may never be visible to anybody but the plug-in.
 *
 * usage: late_runtime PLUG-IN.so [limited]
 * limited: with little address space, from the beginning of the program on. */
#include "../../src/api/new_names.h"
#include "ours.h"
#include "testing.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const char *plug_in_file;

/* NULL, or what went wrong. */
typedef const char *run_t(void);

static run_t *load(int flags, void **handle)
{
  *handle = dlopen(plug_in_file, flags);
  if (!*handle)
    fail_msg("%s", dlerror());
  run_t *run = (run_t *)dlsym(*handle, "late_runtime_run");
  assert_non_null(run);
  return run;
}

static void is_well(const char *failure)
{
  if (failure)
    fail_msg("%s", failure);
}

static void test_no_runtime_at_load(void **state)
{
  (void)state;
  assert_null(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv"));
  assert_null(dlsym(RTLD_DEFAULT, "__cxa_throw"));
  assert_non_null(dlsym(RTLD_DEFAULT, NAME_TEXT(_Znwm)));
}

/* Then there is nobody who could throw, or catch. */
static void test_new_without_a_runtime(void **state)
{
  (void)state;
  void *(*new)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, NAME_TEXT(_Znwm));
  void *(*new_nothrow)(size_t, const void *) =
    (void *(*)(size_t, const void *))dlsym(RTLD_DEFAULT, NAME_TEXT(_ZnwmRKSt9nothrow_t));
  size_t impossible = opaque(SIZE_MAX / 2);
  assert_null(new_nothrow(impossible, ""));

  int ends[2];
  char said[100];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    new (impossible);
    _exit(0);
  }
  close(ends[1]);
  ssize_t length = read(ends[0], said, sizeof said - 1);
  close(ends[0]);
  said[length < 0 ? 0 : length] = '\0';
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  assert_string_equal(said, "tidepool: operator new: memory exhausted\n");
}

static void *run_in_thread(void *run) { return (void *)((run_t *)run)(); }

static void run_all(int flags)
{
  void *handle;
  for (int round = 0; round < 3; round++) {
    run_t *run = load(flags, &handle);
    is_well(run());
    /* A thread's stack needs addresses, and where they are limited the plug-in has had them all. */
    malloc_trim(0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, (void *)run), 0);
    void *failure;
    assert_int_equal(pthread_join(thread, &failure), 0);
    is_well(failure);
    assert_int_equal(dlclose(handle), 0);
  }
}

/* Only the plug-in sees its runtime. */
static void test_local(void **state)
{
  (void)state;
  run_all(RTLD_NOW | RTLD_LOCAL);
}

/* All see it, but none did when the program began. */
static void test_global(void **state)
{
  (void)state;
  run_all(RTLD_LAZY | RTLD_GLOBAL);
}

static void start_limited(char **argv)
{
  struct rlimit now;
  assert_int_equal(getrlimit(RLIMIT_AS, &now), 0);
  if (now.rlim_cur == 256 * MIB)
    return;
  now = (struct rlimit){256 * MIB, 256 * MIB};
  assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
  execv("/proc/self/exe", argv);
  fail_msg("execv: %s", strerror(errno));
}

int main(int argc, char **argv)
{
  assert_true(argc > 1);
  plug_in_file = argv[1];
  if (argc > 2)
    start_limited(argv);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_no_runtime_at_load),
    cmocka_unit_test(test_new_without_a_runtime),
    cmocka_unit_test(test_local),
    cmocka_unit_test(test_global),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
