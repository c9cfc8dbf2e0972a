/* SPDX-License-Identifier: MIT
 * Threads begin, end, end without telling, go on after their end; what they held is somebody else's then. */
#include "os_fake.h"
#include "space/metadata.h"
#include "threads.h"
#include <tidepool/heap.h>
#include <tidepool/stats.h>
#include <unistd.h>

static size_t live_blocks(void)
{
  pool_stats_t stats;
  must(pool_heap_stats(pool_heap_default(), &stats));
  return stats.live_blocks;
}

static void *hold_one(void *argument)
{
  void **block = argument;
  use(NULL);
  *block = pool_alloc(100);
  return NULL;
}

/* ---- records ---- */

static void one_for_each_thread(void *argument)
{
  (void)argument;
  os_fake_heal();
  must(records() == 0 && bin_threads == 1);
  use(NULL);
  must(records() == 1 && bin_threads == 1);
  for (size_t i = 0; i < 50; i++) {
    void *block;
    in_thread(hold_one, &block);
    must(records() == 1 && bin_threads == 1);
    must(live_blocks() == 1 && pool_in_use(block));
    pool_free(block);
    must(live_blocks() == 0 && check_everything());
  }
}

static void *use_and_wait(void *argument)
{
  use(argument);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  return NULL;
}

static void counted(void *argument)
{
  pthread_t threads[9];
  (void)argument;
  os_fake_heal();
  use(NULL);
  pthread_barrier_init(&all_there, NULL, 10);
  pthread_barrier_init(&all_seen, NULL, 10);
  for (size_t i = 0; i < 9; i++)
    must(pthread_create(&threads[i], NULL, use_and_wait, NULL) == 0);
  pthread_barrier_wait(&all_there);
  must(records() == 10 && bin_threads == 10 && live_blocks() == 0 && check_everything());
  pthread_barrier_wait(&all_seen);
  for (size_t i = 0; i < 9; i++)
    pthread_join(threads[i], NULL);
  must(records() == 1 && bin_threads == 1 && check_everything());
}

/* Records are used again: many threads one after the other leave nothing behind. */
static void no_trace(void *argument)
{
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < 5; i++)
    in_thread(use, NULL);
  size_t mapped = os_fake.mapped_bytes;
  for (size_t i = 0; i < 2000; i++)
    in_thread(use, NULL);
  must(os_fake.mapped_bytes == mapped && live_blocks() == 0 && check_everything());
}

/* ---- ends ---- */

/* The first thread of a process may end before the others. What it does here is too little to come by any bin twice. */
static void *outlive(void *first)
{
  pthread_join(*(const pthread_t *)first, NULL);
  must(records() == 0 && live_blocks() == 0 && check_everything());
  use(NULL);
  must(records() == 1 && check_everything());
  _exit(0);
}

static void first_thread_ends(void *argument)
{
  static pthread_t first;
  pthread_t other;
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(100));
  must(records() == 1);
  first = pthread_self();
  must(pthread_create(&other, NULL, outlive, &first) == 0);
  pthread_exit(NULL);
}

static pthread_key_t late_key;

static void use_after_the_end(void *argument)
{
  (void)argument;
  void *blocks[200];
  must(pool_alloc_batch(100, blocks, 200) == 200);
  pool_free_batch(blocks, 200);
}

/* Called again and again, after the manager's own end of the thread. */
static void late(void *argument)
{
  static _Thread_local unsigned turn;
  void **kept = argument;
  use_after_the_end(NULL);
  /* Atomic for the thread sanitizer, to which a thread has ended before its destructors run. */
  pool_free(__atomic_load_n(kept, __ATOMIC_ACQUIRE));
  __atomic_store_n(kept, pool_alloc(5000), __ATOMIC_RELEASE);
  if (turn++ < 3)
    pthread_setspecific(late_key, kept);
}

static void *with_late_destructor(void *argument)
{
  void **kept = argument;
  *kept = pool_alloc(77);
  pthread_setspecific(late_key, kept);
  return NULL;
}

static void after_the_end(void *argument)
{
  void *kept;
  (void)argument;
  os_fake_heal();
  use(NULL);
  must(pthread_key_create(&late_key, late) == 0);
  for (size_t i = 0; i < 20; i++) {
    in_thread(with_late_destructor, &kept);
    must(records() == 1 && live_blocks() == 1 && check_everything());
    pool_free(__atomic_load_n(&kept, __ATOMIC_ACQUIRE));
    must(live_blocks() == 0);
  }
}

/* A thread that only frees may be one whose destructors have all run, in which the C library frees what it had for others. */
enum { FREED_AT_AN_END = 5000, FREED_BY_A_CONSUMER = 20000 };
static void *given[FREED_BY_A_CONSUMER];

static void *free_given(void *argument)
{
  size_t count = *(const size_t *)argument;
  for (size_t i = 0; i < count; i++)
    pool_free(given[i]);
  must((thread_self->default_magazines.cache != NULL) == (!os_fake.may_be_over || count == FREED_BY_A_CONSUMER));
  return NULL;
}

static void only_frees(void *argument)
{
  size_t counts[] = {1, 100, FREED_AT_AN_END, FREED_BY_A_CONSUMER};
  (void)argument;
  os_fake_heal();
  use(NULL);
  for (size_t n = 0; n < 8; n++)
    for (size_t size = 10; size < 400000; size *= 20) {
      os_fake.may_be_over = n < 4;
      for (size_t i = 0; i < counts[n % 4]; i++)
        must((given[i] = pool_alloc(size)) != NULL);
      in_thread(free_given, &counts[n % 4]);
      must(records() == 1 && live_blocks() == 0 && check_everything());
    }
}

/* Where the system cannot call back at the end of a thread, the thread does without magazines. */
static void *use_without_a_record(void *argument)
{
  use_after_the_end(argument);
  must(!thread_current());
  use_after_the_end(argument);
  return NULL;
}

static void no_call_at_the_end(void *argument)
{
  (void)argument;
  os_fake_heal();
  use(NULL);
  os_fake.fail_kinds = 1 << OS_THREAD_ON_EXIT;
  for (size_t i = 0; i < 10; i++) {
    in_thread(use_without_a_record, NULL);
    must(live_blocks() == 0 && check_everything());
  }
  for (size_t i = 0; i < 1000; i++) /* the first thread is told of the others while it works */
    use_after_the_end(NULL);
  must(live_blocks() == 0 && check_everything());
}

/* Where there is no way to be called at all: the thread that was there alone keeps its record, nobody else gets one. */
static void no_key(void *argument)
{
  os_fake_heal();
  os_fake.fail_kinds = 1 << OS_THREAD_ON_EXIT;
  size_t alone = os_single_threaded(); /* a sanitizer has a thread of its own */
  uint64_t tries = os_fake.count[OS_THREAD_ON_EXIT];
  (alone ? use : use_without_a_record)(NULL);
  must(records() == alone && os_fake.count[OS_THREAD_ON_EXIT] == tries + 1);
  os_fake_heal();
  for (size_t i = 0; i < 10; i++) {
    in_thread(use_without_a_record, NULL);
    must(records() == alone && live_blocks() == 0 && check_everything());
  }
  for (size_t i = 0; i < 1000; i++)
    use_after_the_end(argument);
  must(records() == alone && live_blocks() == 0 && check_everything());
}

/* No memory for a record: the bins serve the thread, which gets one as soon as there is some. */
static void *use_without_memory(void *argument)
{
  (void)argument;
  os_fake.refuse = true;
  must(!thread_current());
  void *block = pool_alloc(100);
  must(block && !thread_is_usable(thread_self));
  os_fake_heal();
  pool_free(block);
  use(NULL);
  return NULL;
}

static void no_memory_for_a_record(void *argument)
{
  os_fake_heal();
  use(argument);
  os_fake.refuse = true; /* metadata is used up to its last bytes, or a record would be had there */
  while (metadata_take(METADATA_ALIGNMENT, METADATA_ALIGNMENT)) {}
  os_fake_heal();
  in_thread(use_without_memory, NULL);
  must(records() == 1 && live_blocks() == 0 && check_everything());
}

/* ---- fork ---- */

static void in_the_child(void *argument)
{
  (void)argument;
  must(records() <= 1);
  use(NULL);
  must(records() == 1 && check_everything());
}

static void fork_alone(void *argument)
{
  (void)argument;
  os_fake_heal();
  in_child(in_the_child, NULL);
  use(NULL);
  in_child(in_the_child, NULL);
  in_thread(use, NULL);
  in_child(in_the_child, NULL);
}

static void fork_among_threads(void *argument)
{
  pthread_t threads[4];
  (void)argument;
  os_fake_heal();
  use(NULL);
  pthread_barrier_init(&all_there, NULL, 5);
  pthread_barrier_init(&all_seen, NULL, 5);
  for (size_t i = 0; i < 4; i++)
    must(pthread_create(&threads[i], NULL, use_and_wait, NULL) == 0);
  pthread_barrier_wait(&all_there);
  in_child(in_the_child, NULL);
  pthread_barrier_wait(&all_seen);
  for (size_t i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}

IN_CHILD(one_for_each_thread)
IN_CHILD(counted)
IN_CHILD(no_trace)
IN_CHILD(after_the_end)
IN_CHILD(only_frees)
IN_CHILD(no_call_at_the_end)
IN_CHILD(no_key)
IN_CHILD(no_memory_for_a_record)

IN_CHILD(fork_alone)
IN_CHILD(fork_among_threads)

/* The thread sanitizer cannot join the first thread. Neither can musl in the child of a fork, with or without the library: a
 * lock of its own stays closed when that thread ends. */
#ifdef __GLIBC__
enum { FIRST_CAN_BE_JOINED = !SANITIZED };
#else
enum { FIRST_CAN_BE_JOINED = false };
#endif

static void first_thread_ends_test(void **state)
{
  (void)state;
  if (!FIRST_CAN_BE_JOINED)
    skip();
  in_child(first_thread_ends, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_for_each_thread_test),
    cmocka_unit_test(counted_test),
    cmocka_unit_test(no_trace_test),
    cmocka_unit_test(first_thread_ends_test),
    cmocka_unit_test(after_the_end_test),
    cmocka_unit_test(only_frees_test),
    cmocka_unit_test(no_call_at_the_end_test),
    cmocka_unit_test(no_key_test),
    cmocka_unit_test(no_memory_for_a_record_test),
    cmocka_unit_test(fork_alone_test),
    cmocka_unit_test(fork_among_threads_test),
  };
  return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
