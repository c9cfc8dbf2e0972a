/* SPDX-License-Identifier: MIT
 * Caches of threads have one budget: what many sleeping threads hold is bounded, and what they were allowed comes back. */
#include "heap/tick.h"
#include "option.h"
#include "os_fake.h"
#include "thread/thread.h"
#include "unit.h"
#include <pthread.h>
#include <tidepool/heap.h>

enum { THREADS = 200, ROUNDS = 30, BLOCKS = 8 };

static pthread_barrier_t asleep, awake;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pool_heap_t *other;

static size_t used(const thread_t *thread)
{
  return (size_t)((ptrdiff_t)thread->allowance.allowed - allowance_left(&thread->allowance));
}

/* Blocks of all classes and spares, of the default heap and of another. */
static void *use_and_sleep(void *argument)
{
  uint64_t seed = (uintptr_t)argument;
  must(!pthread_mutex_lock(&turn));
  for (size_t round = 0; round < ROUNDS; round++) {
    void *blocks[BLOCKS], *others[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      must((blocks[i] = pool_alloc(16 + (seed >> 33) % (i % 4 ? 32000 : 200000))) != NULL);
      must((others[i] = pool_heap_alloc(other, 16 + (seed >> 40) % 20000)) != NULL);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      pool_free(blocks[i]);
      pool_heap_free(other, others[i]);
    }
  }
  heap_look_at_clock(thread_self); /* caches of other heaps are added at every 8th slow path */
  must(used(thread_self) <= thread_self->allowance.allowed && thread_self->allowance.allowed <= CACHE_BYTES_DEFAULT);
  must(!pthread_mutex_unlock(&turn));
  pthread_barrier_wait(&asleep);
  pthread_barrier_wait(&awake);
  return NULL;
}

static void sleepers_share_the_budget(void **state)
{
  (void)state;
  os_fake_heal();
  pthread_t threads[THREADS];
  pool_free(pool_alloc(1));
  size_t budget = allowances_budget(), own = allowances_granted(), most = budget + (THREADS + 1) * ALLOWANCE_LEAST, sum = 0;
  assert_int_equal(budget, CACHE_BYTES_DEFAULT);
  assert_int_equal(own, budget / ALLOWANCE_STEPS);
  other = pool_heap_create(&(pool_heap_options_t){0});
  must(!pthread_barrier_init(&asleep, NULL, THREADS + 1) && !pthread_barrier_init(&awake, NULL, THREADS + 1));
  for (size_t i = 0; i < THREADS; i++)
    must(!pthread_create(&threads[i], NULL, use_and_sleep, (void *)(i + 1)));
  pthread_barrier_wait(&asleep);
  assert_true(allowances_granted() <= most);
  for (thread_t *thread = threads_first(); thread; thread = thread->next)
    sum += used(thread);
  printf("%zu KiB a thread, of at most %zu\n", sum / THREADS >> 10, most / THREADS >> 10);
  assert_in_range(sum, 1, most);
  assert_true(check_everything());
  pthread_barrier_wait(&awake);
  for (size_t i = 0; i < THREADS; i++)
    must(!pthread_join(threads[i], NULL));
  assert_true(allowances_granted() <= 2 * own);
  pool_heap_destroy(other);
  assert_true(check_everything());
}

/* Alone a thread may use all of it, a step at a time; a tick takes back what it does not use. */
static void one_thread_grows_and_shrinks(void **state)
{
  (void)state;
  allowance_t *allowance = &thread_self->allowance;
  size_t before = allowance->allowed, steps = 0;
  while (allowance_grow(allowance))
    steps++;
  assert_in_range(steps, ALLOWANCE_STEPS / 2, 4096);
  assert_in_range(allowance->allowed, CACHE_BYTES_DEFAULT / 2, CACHE_BYTES_DEFAULT);
  assert_false(allowance->tight);
  for (size_t i = 0; i < 1000; i++)
    allowance_shrink(allowance);
  assert_in_range(allowance->allowed, ALLOWANCE_LEAST, before);
  assert_int_equal(allowances_granted(), allowance->allowed);
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sleepers_share_the_budget),
    cmocka_unit_test(one_thread_grows_and_shrinks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
