/* SPDX-License-Identifier: MIT
 * Threads that do what they may at the same time: end while others destroy heaps, use a single-thread heap while others'
 * idle memory is looked for, walk and ask while others work elsewhere. Made for the sanitizers. They go on for a while, and
 * until each has gone round a few times, where there is one core for all of them. */
#include "heaps.h"
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUN_MS = 500, WORKERS = 3, ROUNDS_LEAST = 10 };

static atomic_bool stop;
static atomic_uint rounds[WORKERS + 1];

static void run_all(size_t count, thread_body_fn *body)
{
  atomic_store(&stop, false);
  for (size_t i = 0; i < COUNT_OF(rounds); i++)
    atomic_store(&rounds[i], 0);
  run_threads(count, body, &count);
}

static bool goes_on(size_t index)
{
  atomic_fetch_add(&rounds[index], 1);
  return !atomic_load(&stop);
}

static bool all_went_round(size_t count)
{
  for (size_t i = 1; i < count; i++)
    if (atomic_load(&rounds[i]) < ROUNDS_LEAST)
      return false;
  return true;
}

/* What the first of `count` threads does. */
static void until_the_end(const size_t *count)
{
  uint64_t end = now_ns() + RUN_MS * 1000000ull;
  while (now_ns() < end || !all_went_round(*count))
    pool_free(pool_alloc(1 + (size_t)(now_ns() % 5000)));
  atomic_store(&stop, true);
}

static void churn(pool_heap_t *heap, dice_t *dice, size_t steps)
{
  void *slots[64] = {0};
  uint64_t keys[64];
  size_t sizes[64];
  for (size_t i = 0; i < steps; i++) {
    size_t at = dice_below(dice, COUNT_OF(slots));
    if (slots[at]) {
      must(pattern_holds(slots[at], sizes[at], keys[at]));
      pool_heap_free(heap, slots[at]);
    }
    sizes[at] = 1 + dice_below(dice, 3000);
    keys[at] = dice_roll(dice);
    must(slots[at] = pool_heap_alloc(heap, sizes[at]));
    pattern_write(slots[at], sizes[at], keys[at]);
  }
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    pool_heap_free(heap, slots[i]);
}

/* ---- threads that end while heaps do ---- */

static pool_heap_t *shared;

static void touch_shared(size_t index, void *unused)
{
  (void)unused;
  dice_t dice = {index};
  churn(shared, &dice, 200);
}

/* A heap of its own, made and destroyed, with a thread's cache of it in between. */
static void make_and_destroy(dice_t *dice)
{
  pool_heap_t *heaps[8];
  for (size_t i = 0; i < COUNT_OF(heaps); i++) {
    must(heaps[i] = pool_heap_create(NULL));
    churn(heaps[i], dice, 50);
  }
  for (size_t i = 0; i < COUNT_OF(heaps); i++)
    pool_heap_destroy(heaps[i]);
}

typedef struct handed {
  pool_heap_t *heap;
  pthread_barrier_t used;
} handed_t;

/* Its last act in the heap is before the barrier; its end is at the same time as the heap's. */
static void *use_and_end(void *argument)
{
  handed_t *handed = argument;
  dice_t dice = {7};
  churn(handed->heap, &dice, 100);
  pthread_barrier_wait(&handed->used);
  return NULL;
}

static void hand_over_and_destroy(void)
{
  pthread_t threads[WORKERS];
  handed_t handed = {.heap = pool_heap_create(NULL)};
  must(handed.heap);
  pthread_barrier_init(&handed.used, NULL, WORKERS + 1);
  for (size_t i = 0; i < WORKERS; i++)
    must(pthread_create(&threads[i], NULL, use_and_end, &handed) == 0);
  pthread_barrier_wait(&handed.used);
  pool_heap_destroy(handed.heap);
  for (size_t i = 0; i < WORKERS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&handed.used);
}

static void end_and_destroy(size_t index, void *count)
{
  dice_t dice = {index};
  if (index == 0)
    until_the_end(count);
  while (goes_on(index)) {
    if (index == 1)
      hand_over_and_destroy();
    else if (index == 2)
      make_and_destroy(&dice);
    else
      run_threads(2, touch_shared, NULL);
  }
}

static void threads_and_heaps_end(void **state)
{
  (void)state;
  shared = heap_with((pool_heap_options_t){0});
  run_all(WORKERS + 1, end_and_destroy);
  assert_int_equal(stats_of(shared).live_blocks, 0);
  assert_true(check_everything());
  pool_heap_destroy(shared);
}

/* ---- a heap without locks, and threads that look for idle memory everywhere or fork ---- */

/* The child has the forking thread only: what that one may use works there. */
static void fork_and_allocate(void)
{
  pid_t child = fork();
  must(child >= 0);
  if (!child) {
    void *block = pool_alloc(100);
    pool_free(block);
    _exit(block ? 0 : 1);
  }
  int status;
  must(waitpid(child, &status, 0) == child && status == 0);
}

static void alone_or_not(size_t index, void *count)
{
  dice_t dice = {index};
  if (index == 0)
    until_the_end(count);
  if (index == 1) {
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
    must(heap);
    while (goes_on(index)) {
      churn(heap, &dice, 500);
      pool_heap_reset(heap);
    }
    must(stats_of(heap).live_blocks == 0);
    pool_heap_destroy(heap);
  }
  while (goes_on(index)) {
    churn(pool_heap_default(), &dice, 2000);
    if (index == 2)
      fork_and_allocate();
  }
}

static void single_thread_heap_beside_others(void **state)
{
  (void)state;
  run_all(WORKERS, alone_or_not);
  assert_true(check_everything());
}

/* ---- walks and figures while others work elsewhere ---- */

static bool count_block(const pool_block_t *block, void *context)
{
  (void)block;
  ++*(size_t *)context;
  return true;
}

static void walk_or_work(size_t index, void *count)
{
  dice_t dice = {index};
  if (index == 0)
    until_the_end(count);
  pool_heap_t *heap = pool_heap_create(NULL);
  must(heap);
  list_t list = {0};
  list_take_many(&list, heap, 100, 300);
  while (goes_on(index)) {
    if (index == 1) {
      size_t walked = 0;
      must(pool_heap_walk(heap, count_block, &walked) && walked == list.count);
      must(pool_stats_json(NULL, 0) > 0);
    } else {
      make_and_destroy(&dice);
    }
  }
  pool_heap_destroy(heap);
}

static void walk_beside_others(void **state)
{
  (void)state;
  run_all(WORKERS + 1, walk_or_work);
  assert_true(check_everything());
}

/* ---- questions while a heap without locks ends ---- */

static _Atomic(void *) asked;

/* So many blocks go back that the depots of their class are used. */
static void end_one_with_depots(void)
{
  list_t list = {0};
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
  must(heap);
  list_take_many(&list, heap, 32 << 10, 30);
  void *kept = pool_heap_alloc(heap, 32 << 10);
  must(kept);
  atomic_store(&asked, kept);
  list_take_many(&list, heap, 32 << 10, 30);
  list_free(&list, heap);
  pool_heap_destroy(heap);
}

static void ask_or_end(size_t index, void *count)
{
  if (index == 0)
    until_the_end(count);
  while (goes_on(index)) {
    if (index == 1)
      end_one_with_depots();
    else if (index == 2)
      must(pool_stats_json(NULL, 0) > 0);
    else
      (void)pool_in_use(atomic_load(&asked));
  }
}

static void questions_beside_ends(void **state)
{
  (void)state;
  run_all(WORKERS + 1, ask_or_end);
  assert_true(check_everything());
}

/* ---- heaps for real time ---- */

static pool_heap_t *many[64];
static pthread_barrier_t used;

/* Whoever creates such a heap reads a slot of its own record, which another thread empties with the heap that was in it. */
static void prefault_or_destroy(size_t index, void *unused)
{
  const pool_heap_options_t real_time = {.reserve = 1 << 16, .flags = POOL_HEAP_PREFAULT};
  (void)unused;
  for (size_t round = 0; round < 10; round++) {
    for (size_t i = 0; i < COUNT_OF(many) && index == 0; i++)
      must(many[i] = pool_heap_create(NULL));
    pthread_barrier_wait(&used);
    for (size_t i = 0; i < COUNT_OF(many) && index; i++)
      pool_heap_free(many[i], pool_heap_alloc(many[i], 32));
    pthread_barrier_wait(&used);
    for (size_t i = 0; i < COUNT_OF(many); i++) {
      pool_heap_t *heap = index ? pool_heap_create(&real_time) : many[i];
      must(heap);
      pool_heap_destroy(heap);
    }
    pthread_barrier_wait(&used);
  }
}

static void prefaulted_beside_ends(void **state)
{
  (void)state;
  pthread_barrier_init(&used, NULL, 3);
  run_threads(3, prefault_or_destroy, NULL);
  pthread_barrier_destroy(&used);
  assert_true(check_everything());
}

int main(void)
{
  must(pool_option_set("purge_delay_ms", "1"));
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(threads_and_heaps_end),  cmocka_unit_test(single_thread_heap_beside_others),
    cmocka_unit_test(walk_beside_others),     cmocka_unit_test(questions_beside_ends),
    cmocka_unit_test(prefaulted_beside_ends),
  };
  return cmocka_run_group_tests_name("races", tests, NULL, NULL);
}
