/* SPDX-License-Identifier: MIT
 * os/windows_process.c before a Windows that refuses on demand. Each call keeps errno and the last error, and a refused call
 * has changed nothing. */
#define KERNEL_ITSELF
#include "kernel.h"
#include "os/lock.h"
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>

/* ---- time, chance, processors ---- */

static void numbers(void **state)
{
  (void)state;
  all_new();
  assert_true(os_entropy() != os_entropy() && os_random(0) != os_random(1));
  unsigned count = os_processors();
  assert_true(count >= 1 && count <= 64 && os_processor() < count && os_node() == 0);
  uint64_t before = os_now_ms();
  Sleep(100);
  uint64_t passed = os_now_ms() - before;
  assert_true(passed >= 60 && os_process() == GetCurrentProcessId() && errors_are_kept());
}

/* ---- waiting ---- */

static uint32_t word;

static void *wait_for_it(void *argument)
{
  while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE))
    os_wait(&word, 0, 0);
  *(bool *)argument = true;
  return NULL;
}

static void waits(void **state)
{
  (void)state;
  pthread_t thread;
  bool woken = false;
  uint32_t other = 1;
  all_new();
  os_wait(&other, 2, 0); /* the word has changed: returns at once */
  uint64_t before = os_now_ms();
  os_wait(&other, 1, 50000);
  uint64_t waited = os_now_ms() - before;
  assert_true(waited >= 30);
  os_nap();
  assert_true(errors_are_kept());
  assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &woken), 0);
  Sleep(30);
  __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
  os_wake(&word);
  pthread_join(thread, NULL);
  assert_true(woken);
}

/* A lock that several threads take: each count is one of them, and some have slept. */
enum { COUNTERS = 4, COUNTS = 20000 };
static lock_t counter_lock;
static size_t counted;

static void *count_under_the_lock(void *unused)
{
  for (size_t i = 0; i < COUNTS; i++) {
    lock_acquire(&counter_lock);
    counted++;
    if (i % 1000 == 0)
      SwitchToThread();
    lock_release(&counter_lock);
  }
  return unused;
}

static void locks(void **state)
{
  (void)state;
  pthread_t threads[COUNTERS];
  for (size_t i = 0; i < COUNTERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, count_under_the_lock, NULL), 0);
  for (size_t i = 0; i < COUNTERS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(counted, (size_t)COUNTERS * COUNTS);
  assert_int_equal(counter_lock.word, 0);
}

/* ---- threads ---- */

static unsigned ended;
static void *ended_with;

static void note(void *argument)
{
  ended++;
  ended_with = argument;
}

static void *end_with(void *argument)
{
  must(os_thread_on_exit(argument));
  return NULL;
}

static DWORD WINAPI end_with_it(void *argument) { return end_with(argument) != NULL; }

static void ends_of_threads(void **state)
{
  int first, second;
  (void)state;
  all_new();
  assert_false(os_thread_on_exit(&first));
  kernel.slot = ERROR_NO_SYSTEM_RESOURCES;
  assert_false(os_on_thread_exit(note));
  kernel.slot = 0;
  assert_true(os_on_thread_exit(note));
  kernel.set_slot = ERROR_NOT_ENOUGH_MEMORY;
  assert_false(os_thread_on_exit(&first));
  kernel.set_slot = 0;
  assert_true(errors_are_kept() && ended == 0);
  in_thread(end_with, &first);
  assert_true(ended == 1 && ended_with == &first);
  HANDLE thread = CreateThread(NULL, 0, end_with_it, &second, 0, NULL);
  assert_true(thread && WaitForSingleObject(thread, 10000) == WAIT_OBJECT_0 && CloseHandle(thread));
  assert_true(ended == 2 && ended_with == &second);
  in_thread(wait_for_it, &(bool){false}); /* one that has asked for nothing */
  assert_int_equal(ended, 2);
}

static uint32_t helps, may_end;

static void help(void)
{
  __atomic_store_n(&helps, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
    os_wait(&may_end, 0, 1000);
}

static void helpers(void **state)
{
  (void)state;
  all_new();
  kernel.thread = ERROR_NOT_ENOUGH_MEMORY;
  assert_int_equal(os_start_thread(OS_BACKGROUND, help), EAGAIN);
  kernel.thread = 0;
  assert_int_equal(os_start_thread(OS_BACKGROUND, help), 0);
  assert_true(!os_join_thread(OS_BACKGROUND, 20));
  __atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
  os_wake(&may_end);
  assert_true(os_join_thread(OS_BACKGROUND, 10000) && helps == 1 && errors_are_kept());
}

static void forks_never(void) { must(!"fork"); }

/* ---- output ---- */

static void appended(void **state)
{
  char path[] = "appended.XXXXXX", text[64] = "";
  (void)state;
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  all_new();
  kernel.write_most = 3;
  assert_true(os_append(path, "eine Zeile\n", 11) && kernel.writes == 4);
  assert_true(os_append(path, "two\n", 4));
  kernel.write = ERROR_DISK_FULL;
  assert_false(os_append(path, "x", 1));
  assert_false(os_append("no/such/folder/file", "x", 1));
  assert_true(errors_are_kept());
  file = _open(path, _O_RDWR | _O_BINARY);
  assert_int_equal(_read(file, text, sizeof text - 1), 15);
  assert_string_equal(text, "eine Zeile\ntwo\n");
  all_new();
  kernel.write = ERROR_DISK_FULL;
  assert_int_equal(os_write(file, "x", 1), ENOSPC);
  kernel.write = ERROR_INVALID_HANDLE;
  assert_int_equal(os_write(file, "x", 1), EBADF);
  kernel.write = ERROR_IO_DEVICE;
  assert_int_equal(os_write(file, "x", 1), EIO);
  kernel.write = 0;
  assert_true(os_write(file, "more\n", 5) == 0 && os_write(99, "x", 1) == EBADF && errors_are_kept());
  close(file);
  unlink(path);
}

static void surroundings(void **state)
{
  (void)state;
  all_new();
  assert_true(os_keep_error() && os_environment("no such variable") == NULL && !os_is_privileged());
  assert_true(_putenv("TIDEPOOL_TRIED=7") == 0 && !strcmp(os_environment("TIDEPOOL_TRIED"), "7"));
  assert_true(os_on_fork(forks_never, forks_never, forks_never) && os_hold_off_forks() && !os_grants_huge_pages());
  os_let_fork();
  assert_true(os_threads() == 0 && os_started_threads() == 0 && os_thread_may_be_over() && errors_are_kept());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers), cmocka_unit_test(waits),    cmocka_unit_test(locks),        cmocka_unit_test(ends_of_threads),
    cmocka_unit_test(helpers), cmocka_unit_test(appended), cmocka_unit_test(surroundings),
  };
  return cmocka_run_group_tests_name("Windows, process", tests, NULL, NULL);
}
