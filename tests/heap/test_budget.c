/* SPDX-License-Identifier: MIT
 * Budgets: held <= budget at every instant, in the heap and in all its ancestors; how much of a budget can be live. */
#include "heaps.h"
#include <stdatomic.h>

/* ---- many threads and one that watches ---- */

enum { HEAPS_MOST = 4, WORKERS = 3, SLOTS = 400, STEPS_EACH = 100000, SAMPLES = 1000 };

typedef struct watched {
  pool_heap_t *heaps[HEAPS_MOST];
  size_t       budgets[HEAPS_MOST];
  size_t       count, workers_begin;     /* heaps from this one on are allocated from */
  atomic_bool  stop;
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
    watched.heaps[i] = heap_with((pool_heap_options_t){.budget = watched.budgets[i], .parent = i ? watched.heaps[i > 1] : NULL});
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
    heap_with((pool_heap_options_t){.parent = middle}), heap_with((pool_heap_options_t){.parent = middle, .budget = 1 << 20}),
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
  pool_heap_t      *heap;
  pthread_barrier_t full, measured;
  size_t            live;
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
  static const struct { size_t budget; double alone, together; } table[] =
    {{256 << 10, 0.85, 0.70}, {4 << 20, 0.92, 0.88}, {64 << 20, 0.96, 0.95}};
  for (size_t i = 0; i < COUNT_OF(table); i++) {
    double alone = part_live(table[i].budget, 1), together = part_live(table[i].budget, TABLE_THREADS);
    print_message("%6zu KiB: %.1f %% live with one thread, %.1f %% with four\n", table[i].budget >> 10, alone * 100, together * 100);
    assert_true(alone >= table[i].alone);
    assert_true(together >= table[i].together);
  }
}

/* ---- a budget that changes ---- */

/* ---- threads that sleep ---- */

typedef struct sleepers {
  pool_heap_t      *heap;
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
  run_threads(2, use_up, context);   /* that end */
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
  static const struct { size_t budget, share; } cases[] = {{256 << 10, 85}, {512 << 10, 90}, {1 << 20, 95}, {2 << 20, 95}, {4 << 20, 95}, {16 << 20, 95}};
  static const size_t block_sizes[] = {64, 100, 1000, 5000};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    /* With a parent whose budget is the one that binds, too. */
    pool_heap_t *parent = heap_with_budget(cases[i].budget);
    pool_heap_t *heaps[] = {heap_with_budget(cases[i].budget), i >= 2 ? heap_with((pool_heap_options_t){.parent = parent}) : NULL};
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

static void change(pool_heap_t *heap, size_t budget)
{
  list_t list = {0};
  list_exhaust(&list, heap, 1000);
  size_t full = list.count;
  assert_true(full > budget / 2000);
  assert_true(pool_heap_set_budget(heap, 2 * budget));
  assert_int_equal(stats_of(heap).budget, 2 * budget);
  list_exhaust(&list, heap, 1000);
  assert_true(list.count > full + full / 2);
  assert_true(stats_of(heap).held_bytes <= 2 * budget);
  assert_false(pool_heap_set_budget(heap, budget));
  assert_int_equal(stats_of(heap).budget, 2 * budget);
  list_free(&list, heap);
  assert_true(pool_heap_set_budget(heap, budget));
  list_exhaust(&list, heap, 1000);
  assert_true(stats_of(heap).held_bytes <= budget);
  list_free(&list, heap);
  assert_true(pool_heap_set_budget(heap, 0));
  list_take_many(&list, heap, 1000, 3 * budget / 1000);
  list_free(&list, heap);
  pool_heap_destroy(heap);
  assert_true(check_everything());
}

static void budget_of_a_large_heap_changes(void **state)
{
  (void)state;
  change(heap_with_budget(16 << 20), 16 << 20);
}

static void budget_of_a_small_heap_changes(void **state)
{
  (void)state;
  change(heap_with_budget(1 << 20), 1 << 20);
}

static void budget_of_a_heap_without_one(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  list_t list = {0};
  list_take_many(&list, heap, 10000, 200);
  assert_false(pool_heap_set_budget(heap, 1 << 20));
  assert_int_equal(stats_of(heap).budget, 0);
  assert_true(pool_heap_set_budget(heap, 3 << 20));
  list_exhaust(&list, heap, 10000);
  assert_true(list.count > 250 && list.count < 320);
  list_free(&list, heap);
  pool_heap_destroy(heap);
}

/* What only a child has idle does not keep its parent's budget from being lowered. */
static void lowered_beside_idle_children(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {{0}, {.budget = 4 << 20}, {.budget = 40 << 20}, {.flags = POOL_HEAP_CHECKED}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    pool_heap_options_t options = kinds[i];
    pool_heap_t *top = heap_with((pool_heap_options_t){.budget = 64 << 20}), *middle = heap_with((pool_heap_options_t){.parent = top});
    options.parent = middle;
    pool_heap_t *leaf = heap_with(options);
    list_t list = {0};
    list_take_many(&list, leaf, 30000, 100);
    size_t held = stats_of(top).held_bytes;
    pool_heap_reset(leaf);   /* slabs stay held */
    assert_true(stats_of(top).held_bytes >= held / 4 * 3);
    assert_true(pool_heap_set_budget(top, held / 4));
    assert_true(stats_of(top).held_bytes <= held / 4);
    list = (list_t){0};
    list_take_many(&list, leaf, 30000, 10);
    assert_false(pool_heap_set_budget(top, 200000));
    assert_int_equal(stats_of(top).budget, held / 4);
    pool_heap_destroy(leaf);
    pool_heap_destroy(middle);
    pool_heap_destroy(top);
  }
  assert_true(check_everything());
}

/* ---- trim ---- */

static void trim_gives_back(void **state)
{
  (void)state;
  static const size_t budgets[] = {0, 64 << 20};
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = budgets[i]});
    list_t list = {0}, kept = {0};
    list_take_many(&kept, heap, 500, 10);
    list_free(&kept, heap);
    pool_heap_trim(heap, 0);
    size_t empty = stats_of(heap).held_bytes;   /* with the record of the one class */
    list_take_many(&kept, heap, 500, 10);
    list_take_many(&list, heap, 500, 20000);
    size_t held = stats_of(heap).held_bytes;
    list_free(&list, heap);
    errno = UNTOUCHED;
    assert_true(pool_heap_trim(heap, 0) > 0);
    assert_int_equal(errno, UNTOUCHED);
    pool_stats_t s = stats_of(heap);
    assert_int_equal(s.live_blocks, 10);
    assert_int_equal(s.cached_bytes, 0);
    assert_true(s.held_bytes < held / 10);
    list_free(&kept, heap);
    pool_heap_trim(heap, 0);
    assert_int_equal(stats_of(heap).held_bytes, empty);
    assert_int_equal(pool_heap_trim(heap, 0), 0);
    pool_heap_destroy(heap);
  }
  assert_true(check_everything());
}

/* Each change is there for everybody or for nobody: what one thread is refused no other can have been granted meanwhile. */
typedef struct changers {
  pool_heap_t *heap;
  size_t       budgets[2];
} changers_t;

static void change_again_and_again(size_t index, void *context)
{
  changers_t *c = context;
  for (size_t i = 0; i < 20000; i++) {
    if (index == 0) {
      pool_heap_set_budget(c->heap, c->budgets[i % 2]);
    } else {
      void *block = pool_heap_alloc(c->heap, 100000);
      pool_stats_t s = stats_of(c->heap);
      must(s.held_bytes <= c->budgets[1]);
      pool_heap_free(c->heap, block);
    }
  }
}

/* The lower budget never fits what is live, so every attempt fails, and no allocation may notice. */
static void a_refused_change_changes_nothing(size_t index, void *context)
{
  pool_heap_t *heap = context;
  for (size_t i = 0; i < 3000; i++) {
    if (index == 0) {
      must(!pool_heap_set_budget(heap, 1 << 20));
    } else {
      void *block = pool_heap_alloc(heap, 100000);
      must(block);
      pool_heap_free(heap, block);
    }
  }
}

static void changed_beside_others(void **state)
{
  (void)state;
  changers_t changers = {heap_with_budget(16 << 20), {9 << 20, 16 << 20}};
  run_threads(3, change_again_and_again, &changers);
  list_t list = {0};
  list_take_many(&list, changers.heap, 100000, 40);
  assert_true(pool_heap_set_budget(changers.heap, 16 << 20));
  run_threads(3, a_refused_change_changes_nothing, changers.heap);
  list_free(&list, changers.heap);
  pool_heap_destroy(changers.heap);
}

static void purged_bytes_are_counted(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(8 << 20);
  list_t list = {0};
  list_take_many(&list, heap, 500, 10000);
  list_free(&list, heap);
  size_t before = stats_of(heap).purged_bytes, given = pool_heap_trim(heap, 0);
  assert_true(given > 4 << 20);
  assert_int_equal(stats_of(heap).purged_bytes - before, given);
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(exact_under_threads),
    cmocka_unit_test(exact_up_through_parents),
    cmocka_unit_test(counts_upward),
    cmocka_unit_test(use_of_a_budget),
    cmocka_unit_test(budget_of_a_large_heap_changes),
    cmocka_unit_test(budget_of_a_small_heap_changes),
    cmocka_unit_test(budget_of_a_heap_without_one),
    cmocka_unit_test(lowered_beside_idle_children),
    cmocka_unit_test(trim_gives_back),
    cmocka_unit_test(sleeping_threads_keep_nothing_back),
    cmocka_unit_test(reached_while_they_work),
    cmocka_unit_test(changed_beside_others),
    cmocka_unit_test(purged_bytes_are_counted),
  };
  return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
