/* SPDX-License-Identifier: MIT
 * Heaps of many threads, which end while a heap does. */
#include "kinds.h"
#include "os_fake.h"
#include <pthread.h>

static pool_heap_t *shared;
static pthread_barrier_t done_with_it;

static void *use_shared(void *argument)
{
  void *mine[300];
  dice_t dice = {(uintptr_t)argument};
  for (size_t turn = 0; turn < 100; turn++) {
    size_t n = 0, size = 16 + dice_below(&dice, 900);
    while (n < 300 && (mine[n] = pool_heap_alloc(shared, size)) != NULL)
      memset(mine[n++], (int)(uintptr_t)argument, size);
    must(figures(shared).held_bytes <= figures(shared).budget);
    for (size_t i = 0; i < n; i++) {
      must(*(unsigned char *)mine[i] == (unsigned char)(uintptr_t)argument);
      pool_heap_free(shared, mine[i]);
    }
  }
  return NULL;
}

static void many_threads_one_budget(void **state)
{
  (void)state;
  os_fake_heal();
  for (size_t budget = 128 << 10; budget <= 16 << 20; budget *= 8) {
    pthread_t threads[4];
    shared = heap_new(&(pool_heap_options_t){.budget = budget});
    for (uintptr_t i = 0; i < 4; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, use_shared, (void *)(i + 1)), 0);
    for (size_t i = 0; i < 4; i++)
      pthread_join(threads[i], NULL);
    assert_int_equal(figures(shared).live_blocks, 0);
    assert_true(figures(shared).peak_held_bytes <= budget);
    check_everything();
    pool_heap_destroy(shared);
  }
}

static void *use_and_end(void *argument)
{
  void *mine[100];
  (void)argument;
  for (size_t i = 0; i < 100; i++)
    mine[i] = pool_heap_alloc(shared, 64 + i % 5 * 100);
  for (size_t i = 0; i < 100; i++)
    pool_heap_free(shared, mine[i]);
  pthread_barrier_wait(&done_with_it);
  return NULL;
}

/* Threads that are done with a heap may end while it is destroyed. */
static void destroy_while_threads_end(void *argument)
{
  (void)argument;
  os_fake_heal();
  pthread_barrier_init(&done_with_it, NULL, 4);
  for (size_t turn = 0; turn < 600; turn++) {
    pthread_t threads[3];
    shared = pool_heap_create(NULL);
    must(shared);
    for (size_t i = 0; i < 3; i++)
      must(pthread_create(&threads[i], NULL, use_and_end, NULL) == 0);
    pthread_barrier_wait(&done_with_it);
    if (turn % 2)
      pool_heap_reset(shared);
    pool_heap_destroy(shared);
    for (size_t i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
    must(check_everything());
  }
}

static void destroy_while_threads_end_test(void **state)
{
  (void)state;
  in_child(destroy_while_threads_end, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(many_threads_one_budget),
    cmocka_unit_test(destroy_while_threads_end_test),
  };
  return cmocka_run_group_tests_name("heap_threads", tests, NULL, NULL);
}
