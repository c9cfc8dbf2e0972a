/* SPDX-License-Identifier: MIT
 * Budgets: held <= budget at every instant, in the heap and in all its ancestors; how much of a budget can be live. */
#include "heaps.h"
#include <stdatomic.h>

/* ---- many threads and one that watches ---- */

enum { HEAPS_MOST = 4, WORKERS = 3, SLOTS = 400, STEPS_EACH = 100000, SAMPLES = 1000 };

typedef struct watched {
  pool_heap_t *heaps[HEAPS_MOST];
  size_t budgets[HEAPS_MOST];
  size_t count, workers_begin; /* heaps from this one on are allocated from */
  atomic_bool stop;
  atomic_size_t steps[WORKERS], failures;
} watched_t;

static void work(watched_t *watched, size_t index)
{
  static const size_t sizes[] = {24, 100, 1000, 5000, 40000, 300000};
  void *slots[SLOTS] = {0};
  pool_heap_t *of[SLOTS];
  dice_t dice = {index};
  while (!atomic_load(&watched->stop)) {
    size_t i = dice_below(&dice, SLOTS);
    if (slots[i])
      pool_heap_free(of[i], slots[i]);
    of[i] = watched->heaps[watched->workers_begin + dice_below(&dice, watched->count - watched->workers_begin)];
    slots[i] = pool_heap_alloc(of[i], sizes[dice_below(&dice, COUNT_OF(sizes))]);
    if (!slots[i])
      atomic_fetch_add(&watched->failures, 1);
    atomic_fetch_add_explicit(&watched->steps[index], 1, memory_order_relaxed);
  }
  for (size_t i = 0; i < SLOTS; i++)
    pool_free(slots[i]);
}

static bool all_have_worked(watched_t *watched)
{
  for (size_t i = 0; i < WORKERS; i++)
    if (atomic_load(&watched->steps[i]) < STEPS_EACH)
      return false;
  return true;
}

/* Until all have filled the heaps many times over, however long that takes, and at least so often. */
static void watch(watched_t *watched)
{
  for (size_t samples = 0; samples < SAMPLES || !all_have_worked(watched); samples++)
    for (size_t i = 0; i < watched->count; i++) {
      pool_stats_t s = stats_of(watched->heaps[i]);
      must(s.held_bytes <= watched->budgets[i]);
      must(s.peak_held_bytes <= watched->budgets[i]);
      must(s.budget == watched->budgets[i]);
    }
  atomic_store(&watched->stop, true);
}

static void worker_or_watcher(size_t index, void *context)
{
  if (index == WORKERS)
    watch(context);
  else
    work(context, index);
}

static void watch_all(watched_t *watched)
{
  run_threads(WORKERS + 1, worker_or_watcher, watched);
  assert_true(watched->failures > 0);
  for (size_t i = 0; i < watched->count; i++) {
    pool_stats_t s = stats_of(watched->heaps[i]);
    assert_int_equal(s.live_blocks, 0);
    assert_true(s.peak_held_bytes > watched->budgets[i] / 4);
  }
  assert_true(check_everything());
}

/* One heap, in a region or in the process's space. */
static void exact_under_threads(void **state)
{
  (void)state;
  static const size_t budgets[] = {256 << 10, 2 << 20, 12 << 20};
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    watched_t watched = {.heaps = {heap_with_budget(budgets[i])}, .budgets = {budgets[i]}, .count = 1};
    watch_all(&watched);
    pool_heap_destroy(watched.heaps[0]);
  }
}

/* Children whose budgets together are more than their parent's, which is less than its own parent's. */
static void exact_up_through_parents(void **state)
{
  (void)state;
  watched_t watched = {.budgets = {40 << 20, 12 << 20, 10 << 20, 4 << 20}, .count = 4, .workers_begin = 1};
  for (size_t i = 0; i < watched.count; i++)
    watched.heaps[i] =
      heap_with((pool_heap_options_t){.budget = watched.budgets[i], .parent = i ? watched.heaps[i > 1] : NULL});
  watched.budgets[0] = 14 << 20;
  assert_true(pool_heap_set_budget(watched.heaps[0], watched.budgets[0]));
  watch_all(&watched);
  size_t held = 0;
  for (size_t i = 1; i < watched.count; i++)
    pool_heap_trim(watched.heaps[i], 0);
  for (size_t i = 2; i < watched.count; i++)
    held += stats_of(watched.heaps[i]).held_bytes;
  assert_true(stats_of(watched.heaps[1]).held_bytes >= held);
  for (size_t i = watched.count; i-- > 0;)
    pool_heap_destroy(watched.heaps[i]);
}

/* What a child holds is in its parent's figure, to the byte, and leaves it. */
static void counts_upward(void **state)
{
  (void)state;
  static char buffer[256 << 10];
  pool_heap_t *top = heap_with((pool_heap_options_t){.budget = 64 << 20});
  size_t alone = stats_of(top).held_bytes;
  pool_heap_t *middle = heap_with((pool_heap_options_t){.parent = top});
  pool_heap_t *leaves[] = {
    heap_with((pool_heap_options_t){.parent = middle}),
    heap_with((pool_heap_options_t){.parent = middle, .budget = 1 << 20}),
    heap_with((pool_heap_options_t){.parent = middle, .reserve = 1 << 20}),
    heap_with((pool_heap_options_t){.parent = middle, .memory = buffer, .memory_size = sizeof buffer}),
  };
  size_t middle_alone = 0;
  for (size_t round = 0; round < 2; round++) {
    size_t held = 0;
    for (size_t i = 0; i < COUNT_OF(leaves); i++) {
      if (round)
        assert_non_null(pool_heap_alloc(leaves[i], 100));
      if (round && i == 0)
        assert_non_null(pool_heap_alloc(leaves[i], 3 << 20));
      held += stats_of(leaves[i]).held_bytes;
    }
    size_t of_middle = stats_of(middle).held_bytes - held;
    if (round)
      assert_int_equal(of_middle, middle_alone);
    middle_alone = of_middle;
    assert_int_equal(stats_of(top).held_bytes - alone, stats_of(middle).held_bytes);
  }
  for (size_t i = 0; i < COUNT_OF(leaves); i++)
    pool_heap_destroy(leaves[i]);
  assert_int_equal(stats_of(middle).held_bytes, middle_alone);
  pool_heap_destroy(middle);
  assert_int_equal(stats_of(top).held_bytes, alone);
  pool_heap_destroy(top);
  assert_true(check_everything());
}

/* ---- the table of api.md: the part of a budget that can be live in 100-byte requests ---- */

enum { TABLE_THREADS = 4 };

typedef struct fill {
  pool_heap_t *heap;
  pthread_barrier_t full, measured;
  size_t live;
} fill_t;

static void fill_it(size_t index, void *context)
{
  fill_t *fill = context;
  list_t list = {0};
  list_exhaust(&list, fill->heap, 100);
  pthread_barrier_wait(&fill->full);
  if (index == 0)
    fill->live = stats_of(fill->heap).live_bytes;
  pthread_barrier_wait(&fill->measured);
  list_free(&list, fill->heap);
}

static double part_live(size_t budget, unsigned threads)
{
  fill_t fill = {.heap = heap_with_budget(budget)};
  pthread_barrier_init(&fill.full, NULL, threads);
  pthread_barrier_init(&fill.measured, NULL, threads);
  run_threads(threads, fill_it, &fill);
  pool_stats_t s = stats_of(fill.heap);
  assert_int_equal(s.live_blocks, 0);
  assert_true(s.peak_held_bytes <= budget);
  assert_true(s.exhausted_count >= threads);
  pool_heap_destroy(fill.heap);
  pthread_barrier_destroy(&fill.full);
  pthread_barrier_destroy(&fill.measured);
  return (double)fill.live / (double)budget;
}

static void use_of_a_budget(void **state)
{
  (void)state;
  static const struct {
    size_t budget;
    double alone, together;
  } table[] = {{256 << 10, 0.85, 0.70}, {4 << 20, 0.92, 0.88}, {64 << 20, 0.96, 0.95}};
  for (size_t i = 0; i < COUNT_OF(table); i++) {
    double alone = part_live(table[i].budget, 1), together = part_live(table[i].budget, TABLE_THREADS);
    print_message("%6zu KiB: %.1f %% live with one thread, %.1f %% with four\n", table[i].budget >> 10, alone * 100,
                  together * 100);
    assert_true(alone >= table[i].alone);
    assert_true(together >= table[i].together);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(exact_under_threads),
    cmocka_unit_test(exact_up_through_parents),
    cmocka_unit_test(counts_upward),
    cmocka_unit_test(use_of_a_budget),
  };
  return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
