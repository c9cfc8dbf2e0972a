/* SPDX-License-Identifier: MIT
 * Threads that let one pool grow at once, also while one of them is in the heap's on_exhausted. */
#include "slots.h"
#include <pthread.h>
#include <stdatomic.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { FEW = 10 };

/* The first thread that comes into the callback stays there until it is let go; what the others have there is said each time.
 */
typedef struct exhausted {
  pthread_mutex_t lock; /* the program's own */
  atomic_bool first_is_in, let_first_go;
  pthread_t first;
  pool_heap_t *heap;
  object_pool_t *pool;
  bool others_raise;
  slot_t *got;
} exhausted_t;

enum { TIGHT = 24 << 10, ROOMY = 1 << 20 };

static bool hold_the_first(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  exhausted_t *e = context;
  (void)needed;
  if (!pthread_equal(pthread_self(), e->first))
    return e->others_raise && attempt == 0 && pool_heap_set_budget(heap, ROOMY);
  atomic_store(&e->first_is_in, true);
  while (!atomic_load(&e->let_first_go))
    usleep(1000);
  pthread_mutex_lock(&e->lock);
  pthread_mutex_unlock(&e->lock);
  return e->others_raise && attempt == 0;
}

static void *get_first(void *argument)
{
  exhausted_t *e = argument;
  e->first = pthread_self();
  e->got = object_pool_get(e->pool);
  return NULL;
}

static void set_up(exhausted_t *e)
{
  pthread_mutex_init(&e->lock, NULL);
  e->heap = pool_heap_create(&(pool_heap_options_t){.budget = TIGHT, .on_exhausted = hold_the_first, .context = e});
  e->pool = object_pool_create(&(object_pool_options_t){
    .object_size = 1000, .capacity = FEW, .max_capacity = 10 * FEW, .when_full = OBJECT_POOL_GROW, .heap = e->heap});
  must(e->pool);
  e->first = pthread_self();
  atomic_store(&e->let_first_go, true);
  while (object_pool_get(e->pool)) /* as far as the budget goes */
    ;
  atomic_store(&e->let_first_go, false);
  atomic_store(&e->first_is_in, false);
}

static void start_first(exhausted_t *e, pthread_t *thread)
{
  alarm(600);
  must(pthread_create(thread, NULL, get_first, e) == 0);
  while (!atomic_load(&e->first_is_in))
    usleep(1000);
}

/* The second thread has what the first waits for, and comes back from get all the same. */
static void nobody_waits_in_child(void *unused)
{
  (void)unused;
  pthread_t thread;
  exhausted_t e = {.others_raise = false};
  set_up(&e);
  start_first(&e, &thread);
  must(pthread_mutex_lock(&e.lock) == 0);
  atomic_store(&e.let_first_go, true);
  must(!object_pool_get(e.pool));
  must(pthread_mutex_unlock(&e.lock) == 0);
  must(pthread_join(thread, NULL) == 0);
  must(!e.got && check_object_pool(e.pool));
}

/* Each makes its own array. One is enough, the other goes back. */
static void the_second_array_goes_back_in_child(void *unused)
{
  (void)unused;
  pthread_t thread;
  exhausted_t e = {.others_raise = true};
  set_up(&e);
  size_t capacity = object_pool_capacity(e.pool);
  start_first(&e, &thread);
  must(object_pool_get(e.pool));
  size_t larger = object_pool_capacity(e.pool);
  pool_stats_t before, after;
  must(larger > capacity && pool_heap_stats(e.heap, &before));
  atomic_store(&e.let_first_go, true);
  must(pthread_join(thread, NULL) == 0);
  must(e.got && object_pool_capacity(e.pool) == larger && check_object_pool(e.pool));
  must(pool_heap_stats(e.heap, &after) && after.live_bytes == before.live_bytes);
  object_pool_destroy(e.pool);
  must(pool_heap_stats(e.heap, &after) && after.live_blocks == 0);
  pool_heap_destroy(e.heap);
}

static void nobody_waits_for_a_grower(void **state)
{
  (void)state;
  in_child(nobody_waits_in_child, NULL);
  in_child(the_second_array_goes_back_in_child, NULL);
}

/* The last objects of max_capacity are made by several at once: never more than that, and whoever comes too late is refused. */
static void *get_many(void *argument)
{
  object_pool_t *pool = argument;
  size_t got = 0;
  while (object_pool_get(pool))
    got++;
  return (void *)got;
}

static bool never(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  return (void)heap, (void)needed, (void)attempt, (void)context, false;
}

static void growers_at_once(void **state)
{
  (void)state;
  for (int round = 0; round < 200; round++) {
    pthread_t threads[THREADS];
    size_t got = 0;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.on_exhausted = round % 2 ? never : NULL});
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 64,
                                                                      .max_capacity = 1001,
                                                                      .when_full = OBJECT_POOL_GROW,
                                                                      .heap = heap,
                                                                      .flags = round % 4 / 2 ? OBJECT_POOL_CHECKED : 0});
    for (int t = 0; t < THREADS; t++)
      must(pthread_create(&threads[t], NULL, get_many, pool) == 0);
    for (int t = 0; t < THREADS; t++) {
      void *count;
      must(pthread_join(threads[t], &count) == 0);
      got += (size_t)count;
    }
    assert_int_equal(got, 1001);
    assert_int_equal(object_pool_capacity(pool), 1001);
    assert_true(check_object_pool(pool));
    object_pool_destroy(pool);
    pool_stats_t stats;
    pool_heap_stats(heap, &stats);
    assert_int_equal(stats.live_blocks, 0);
    pool_heap_destroy(heap);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nobody_waits_for_a_grower),
    cmocka_unit_test(growers_at_once),
  };
  return cmocka_run_group_tests_name("object_pool growers", tests, NULL, NULL);
}
