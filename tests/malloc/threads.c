/* SPDX-License-Identifier: MIT
 *
 * Blocks outlive threads and threads come and go: nobody's memory may be lost, and nothing may pile up. */
#include "ours.h"
#include "testing.h"

/* The blocks of a thread that is gone, for somebody else to free. */
enum { LEFT_BEHIND = 3000 };
static void *left_behind[LEFT_BEHIND];

static size_t left_size(size_t i) { return 1 + i * 37 % 5000; }

static void *leave_blocks(void *unused)
{
  (void)unused;
  for (size_t i = 0; i < LEFT_BEHIND; i++) {
    left_behind[i] = malloc(left_size(i));
    if (!left_behind[i])
      return "malloc failed";
    memset(left_behind[i], (int)i, left_size(i));
  }
  return NULL;
}

static void *free_left_blocks(void *unused)
{
  (void)unused;
  for (size_t i = 0; i < LEFT_BEHIND; i++) {
    if (!is_filled(left_behind[i], (int)i, left_size(i)))
      return "a block changed after its thread was gone";
    free(left_behind[i]);
  }
  return NULL;
}

static void test_blocks_outlive_the_thread_that_allocated_them(void **state)
{
  (void)state;
  for (size_t round = 0; round < 50; round++) {
    run_threads(1, leave_blocks);
    if (round % 2)
      run_threads(1, free_left_blocks);
    else
      assert_null(free_left_blocks(NULL));
  }
  HOLDS_AT_MOST(100 * MIB);
}

/* When a thread ends that nobody waits for, the C library may free what it has for threads that ended before it: after the end
 * of all that can be arranged. */
static void *no_call_of_its_own(void *go)
{
  pthread_barrier_wait(go);
  return NULL;
}

static void test_threads_that_never_allocate_leave_nothing(void **state)
{
  (void)state;
  enum { ROUNDS = 40, LIVE = 20 }; /* more stacks than it keeps */
  for (size_t round = 0; round < ROUNDS; round++) {
    pthread_barrier_t go;
    pthread_barrier_init(&go, NULL, LIVE + 1);
    for (size_t i = 0; i < LIVE; i++) {
      pthread_t thread;
      assert_int_equal(pthread_create(&thread, NULL, no_call_of_its_own, &go), 0);
      pthread_detach(thread);
    }
    pthread_barrier_wait(&go);
    usleep(2000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      free(malloc(opaque(100)));
      _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pthread_barrier_destroy(&go);
  }
  HOLDS_AT_MOST(100 * MIB);
}

static void *one_short_life(void *unused)
{
  (void)unused;
  void *block = malloc(opaque(100));
  free(block);
  return block ? NULL : "malloc failed";
}

enum { AT_ONCE = 8 };
static pthread_barrier_t all_live;

static void *live_beside_the_others(void *unused)
{
  pthread_barrier_wait(&all_live);
  void *failure = one_short_life(unused);
  pthread_barrier_wait(&all_live);
  return failure;
}

/* As many at once as there will ever be: how many short lives overlap without that is chance, and each more takes a stack
 * of the C library and a record of ours. */
static void live_together(void)
{
  pthread_barrier_init(&all_live, NULL, AT_ONCE);
  for (size_t i = 0; i < 100; i++)
    run_threads(AT_ONCE, live_beside_the_others);
  pthread_barrier_destroy(&all_live);
}

static void live_and_die(size_t count)
{
  for (size_t i = 0; i < count; i += AT_ONCE)
    run_threads(AT_ONCE, one_short_life);
}

static void test_a_hundred_thousand_threads_leave_nothing(void **state)
{
  (void)state;
  live_together();
  live_and_die(2000);
  size_t in_use = mallinfo2().uordblks, held = held_after_trim();
  live_and_die(100000);
  assert_true(mallinfo2().uordblks < in_use + 100000);
  malloc_trim(0);
  HOLDS_AT_MOST(held + 100000);
}

/* All of very many begin and end at once, and sleep at the locks of it by the thousand. */
static pthread_barrier_t all_begin;
static void *begin_and_end(void *unused)
{
  (void)unused;
  void *blocks[100];
  pthread_barrier_wait(&all_begin);
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    if (!(blocks[i] = malloc(16 + i * 50)))
      return "malloc failed";
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    free(blocks[i]);
  return NULL;
}

static void test_thousands_of_threads_at_once(void **state)
{
  (void)state;
  enum { MANY = 4000 };
  static pthread_t threads[MANY];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 << 10);
  pthread_barrier_init(&all_begin, NULL, MANY + 1);
  size_t count = 0;
  while (count < MANY && pthread_create(&threads[count], &small, begin_and_end, NULL) == 0)
    count++;
  if (count < MANY) { /* the system has a limit below that: the process ends with those that wait */
    print_message("only %zu threads: not tried\n", count);
    skip();
  }
  pthread_barrier_wait(&all_begin);
  for (size_t i = 0; i < MANY; i++)
    assert_null(join_thread(threads[i]));
  pthread_barrier_destroy(&all_begin);
}

/* Every life fills the thread's cache with blocks of many sizes, and those that live at once do so with full caches. */
enum { CACHING = 4 };
static pthread_barrier_t all_full;

static void *cache_much(void *unused)
{
  (void)unused;
  enum { BLOCKS = 200 };
  void *blocks[BLOCKS];
  for (size_t size = 16; size <= 32 * KIB; size *= 2) {
    for (size_t i = 0; i < BLOCKS; i++) {
      blocks[i] = malloc(size);
      if (!blocks[i])
        return "malloc failed";
      memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
      free(blocks[i]);
  }
  pthread_barrier_wait(&all_full);
  return NULL;
}

static void test_cached_blocks_of_dead_threads_are_used_again(void **state)
{
  (void)state;
  pthread_barrier_init(&all_full, NULL, CACHING);
  run_threads(CACHING, cache_much);
  size_t held = held_after_trim();
  for (size_t i = 0; i < 20; i++) /* each has some 50 MiB live */
    run_threads(CACHING, cache_much);
  HOLDS_AT_MOST(held + 64 * MIB);
}

/* A destructor that allocates in every round the C library gives it, so also after the library's own has run. */
enum { ENDING = 8 };
static pthread_key_t key;
static pthread_barrier_t all_end;
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;
static void *late_blocks[8];
static size_t late_count;

struct thread_data {
  unsigned rounds;
  char *text;
};

/* All end at once, every time: what each takes until it is gone would be more where more of them happen to overlap. */
static void finish_thread_data(void *argument)
{
  struct thread_data *data = argument;
  pthread_barrier_wait(&all_end);
  for (size_t size = 8; size < 100000; size *= 3)
    free(malloc(opaque(size)));
  data->text = realloc(data->text, 100 + data->rounds * 1000);
  if (++data->rounds < 4) {
    pthread_setspecific(key, data);
    return;
  }
  memset(data->text, 'l', 3100);
  pthread_mutex_lock(&late_lock);
  if (late_count < COUNT_OF(late_blocks))
    late_blocks[late_count++] = data->text;
  else
    free(data->text);
  pthread_mutex_unlock(&late_lock);
  free(data);
}

static void *with_destructor(void *unused)
{
  (void)unused;
  struct thread_data *data = calloc(1, sizeof *data);
  if (!data)
    return "calloc failed";
  pthread_setspecific(key, data);
  return NULL;
}

static void test_destructors_of_thread_data_may_allocate(void **state)
{
  (void)state;
  pthread_barrier_init(&all_end, NULL, ENDING);
  assert_int_equal(pthread_key_create(&key, finish_thread_data), 0);
  for (size_t i = 0; i < 50; i++)
    run_threads(ENDING, with_destructor);
  size_t in_use = mallinfo2().uordblks, held = held_after_trim();
  for (size_t i = 0; i < 500; i++)
    run_threads(ENDING, with_destructor);
  assert_true(mallinfo2().uordblks < in_use + 100000);
  malloc_trim(0);
  HOLDS_AT_MOST(held + MIB);
  assert_int_equal(late_count, COUNT_OF(late_blocks));
  for (size_t i = 0; i < late_count; i++) {
    assert_true(is_filled(late_blocks[i], 'l', 3100));
    free(late_blocks[i]);
  }
  pthread_key_delete(key);
}

/* One thread allocates, another frees, for long: what is freed must come back to the one that allocates. */
enum { RING = 512, HANDED_OVER = 400000 };
static void *_Atomic ring[RING];

static size_t handed_size(size_t i) { return 16 + i % 7 * 150; }

static void *produce_or_consume(void *which)
{
  bool produce = which == NULL;
  for (size_t i = 0; i < HANDED_OVER; i++) {
    void *_Atomic *slot = &ring[i % RING];
    void *block;
    if (produce) {
      block = malloc(handed_size(i));
      if (!block)
        return "malloc failed";
      memset(block, (int)i, handed_size(i));
      while (*slot)
        sched_yield();
      *slot = block;
    } else {
      while (!(block = *slot))
        sched_yield();
      *slot = NULL;
      if (!is_filled(block, (int)i, handed_size(i)))
        return "a block changed on its way";
      free(block);
    }
  }
  return NULL;
}

static void test_handing_over_needs_no_more_memory_than_is_live(void **state)
{
  (void)state;
  size_t held = held_after_trim();
  run_threads(2, produce_or_consume);
  HOLDS_AT_MOST(held + 16 * MIB);
}

/* Blocks change hands at random between threads; each carries its owner's mark, which must still be there. */
enum { SHARED_SLOTS = 2000 };
static struct shared {
  pthread_mutex_t lock;
  unsigned char *block;
  size_t size;
  unsigned char mark;
} shared[SHARED_SLOTS];

static const char *exchange(struct shared *slot, uint32_t random)
{
  if (slot->block && !is_filled(slot->block, slot->mark, slot->size))
    return "a block was overwritten";
  size_t size = random % 50 == 0 ? random % 200000 : random % 1000;
  size_t kept = slot->size < size ? slot->size : size;
  if (random & 1) {
    free(slot->block);
    slot->block = malloc(size + 1);
  } else {
    slot->block = realloc(slot->block, size + 1);
    if (slot->block && !is_filled(slot->block, slot->mark, kept))
      return "realloc lost bytes";
  }
  if (!slot->block)
    return "no memory";
  slot->mark = (unsigned char)(random >> 9);
  slot->size = size + 1;
  memset(slot->block, slot->mark, slot->size);
  return NULL;
}

static void *exchange_at_random(void *seed)
{
  uint32_t random = 77 + (uint32_t)(uintptr_t)seed;
  for (size_t i = 0; i < 30000; i++) {
    struct shared *slot = &shared[next_random(&random) % SHARED_SLOTS];
    pthread_mutex_lock(&slot->lock);
    const char *failure = exchange(slot, next_random(&random));
    pthread_mutex_unlock(&slot->lock);
    if (failure)
      return (void *)failure;
  }
  return NULL;
}

static void test_blocks_change_hands_at_random(void **state)
{
  (void)state;
  for (size_t i = 0; i < SHARED_SLOTS; i++)
    pthread_mutex_init(&shared[i].lock, NULL);
  run_threads(8, exchange_at_random);
  for (size_t i = 0; i < SHARED_SLOTS; i++)
    free(shared[i].block);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_blocks_outlive_the_thread_that_allocated_them),
    cmocka_unit_test(test_cached_blocks_of_dead_threads_are_used_again),
    cmocka_unit_test(test_threads_that_never_allocate_leave_nothing),
    cmocka_unit_test(test_destructors_of_thread_data_may_allocate),
    cmocka_unit_test(test_handing_over_needs_no_more_memory_than_is_live),
    cmocka_unit_test(test_blocks_change_hands_at_random),
  };
  const struct CMUnitTest slow_tests[] = {
    cmocka_unit_test(test_a_hundred_thousand_threads_leave_nothing),
    cmocka_unit_test(test_thousands_of_threads_at_once), /* last: where there may not be so many those that wait stay */
  };
  if (argc > 1 && strcmp(argv[1], "slow") == 0)
    return cmocka_run_group_tests(slow_tests, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
