/* SPDX-License-Identifier: MIT
 * Threads that sleep or work beside an exhausted heap keep nothing of its budget back. */
#include "heaps.h"

typedef struct sleepers {
  pool_heap_t *heap;
  pthread_barrier_t asleep, awake;
} sleepers_t;

enum { SLEEPERS = 6 };

static void use_up(size_t index, void *context)
{
  sleepers_t *sleepers = context;
  dice_t dice = {index};
  list_t list = {0};
  for (size_t i = 0; i < 20000 && list_take(&list, sleepers->heap, 16 + dice_below(&dice, 5000)); i++)
    ;
  list_free(&list, sleepers->heap);
}

/* Uses the heap up in many sizes, gives everything back, and sleeps on what it has cached. */
static void use_and_sleep(size_t index, void *context)
{
  sleepers_t *sleepers = context;
  list_t list = {0};
  use_up(index, context);
  pthread_barrier_wait(&sleepers->asleep);
  pthread_barrier_wait(&sleepers->awake);
  list_take(&list, sleepers->heap, 100);
  list_free(&list, sleepers->heap);
}

static void *run_sleepers(void *context)
{
  run_threads(2, use_up, context); /* that end */
  run_threads(SLEEPERS, use_and_sleep, context);
  return NULL;
}

/* In hundredths: how much of the budget one thread can have live in blocks of a size. */
static size_t live_share(pool_heap_t *heap, size_t budget, size_t size)
{
  list_t list = {0};
  list_exhaust(&list, heap, size);
  size_t share = stats_of(heap).live_bytes * 100 / budget;
  list_free(&list, heap);
  return share;
}

static void sleeping_threads_keep_nothing_back(void **state)
{
  (void)state;
  static const struct {
    size_t budget, share;
  } cases[] = {{256 << 10, 95}, {512 << 10, 95}, {1 << 20, 95}, {2 << 20, 95}, {4 << 20, 95}, {16 << 20, 95}};
  static const size_t block_sizes[] = {64, 100, 1000, 5000};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    /* With a parent whose budget is the one that binds, too. */
    pool_heap_t *parent = heap_with_budget(cases[i].budget);
    pool_heap_t *heaps[] = {heap_with_budget(cases[i].budget),
                            i >= 2 ? heap_with((pool_heap_options_t){.parent = parent}) : NULL};
    for (size_t k = 0; k < COUNT_OF(heaps) && heaps[k]; k++) {
      sleepers_t sleepers = {.heap = heaps[k]};
      pthread_t runner;
      pthread_barrier_init(&sleepers.asleep, NULL, SLEEPERS + 1);
      pthread_barrier_init(&sleepers.awake, NULL, SLEEPERS + 1);
      assert_int_equal(pthread_create(&runner, NULL, run_sleepers, &sleepers), 0);
      pthread_barrier_wait(&sleepers.asleep);
      for (size_t z = 0; z < COUNT_OF(block_sizes); z++) {
        /* Give or take a slab; a child's own records come on top of its parent's. */
        size_t share = live_share(heaps[k], cases[i].budget, block_sizes[z]) + 8 * block_sizes[z] * 100 / cases[i].budget;
        if (share < cases[i].share - 10 * k)
          print_error("%zu KiB, blocks of %zu: %zu %% live\n", cases[i].budget >> 10, block_sizes[z], share);
        assert_true(share >= cases[i].share - 10 * k);
      }
      pthread_barrier_wait(&sleepers.awake);
      pthread_join(runner, NULL);
      pthread_barrier_destroy(&sleepers.asleep);
      pthread_barrier_destroy(&sleepers.awake);
    }
    pool_heap_destroy(heaps[0]);
    pool_heap_destroy(heaps[1]);
    pool_heap_destroy(parent);
  }
  assert_true(check_everything());
}

/* Threads that allocate without a pause are reached in between: no block is lost or given to two. */
static void churn_in_a_small_budget(size_t index, void *context)
{
  pool_heap_t *heap = context;
  dice_t dice = {index};
  unsigned char *blocks[128] = {0};
  size_t block_sizes[128];
  for (size_t i = 0; i < 40000; i++) {
    size_t at = dice_below(&dice, COUNT_OF(blocks));
    if (blocks[at]) {
      must(pattern_holds(blocks[at], block_sizes[at], index * 1000 + at));
      pool_heap_free(heap, blocks[at]);
    }
    block_sizes[at] = 1 + dice_below(&dice, dice_below(&dice, 3) ? 500 : 20000);
    blocks[at] = pool_heap_alloc(heap, block_sizes[at]);
    if (blocks[at])
      pattern_write(blocks[at], block_sizes[at], index * 1000 + at);
  }
  for (size_t at = 0; at < COUNT_OF(blocks); at++)
    pool_heap_free(heap, blocks[at]);
}

static void reached_while_they_work(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(3 << 19);
  run_threads(4, churn_in_a_small_budget, heap);
  assert_true(stats_of(heap).exhausted_count > 0);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_everything());
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sleeping_threads_keep_nothing_back),
    cmocka_unit_test(reached_while_they_work),
  };
  return cmocka_run_group_tests_name("sleepers", tests, NULL, NULL);
}
