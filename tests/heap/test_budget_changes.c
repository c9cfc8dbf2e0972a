/* SPDX-License-Identifier: MIT
 * A budget that changes, also beside those who use it, and memory that is trimmed. */
#include "heaps.h"

/* ---- a budget that changes ---- */

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
  static const pool_heap_options_t kinds[] = {{0}, {.budget = 16 << 20}, {.budget = 40 << 20}, {.flags = POOL_HEAP_CHECKED}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    pool_heap_options_t options = kinds[i];
    pool_heap_t *top = heap_with((pool_heap_options_t){.budget = 64 << 20}),
                *middle = heap_with((pool_heap_options_t){.parent = top});
    options.parent = middle;
    pool_heap_t *leaf = heap_with(options);
    list_t list = {0};
    list_take_many(&list, leaf, 30000, 100);
    size_t held = stats_of(top).held_bytes;
    pool_heap_reset(leaf); /* slabs stay held */
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
    size_t empty = stats_of(heap).held_bytes; /* with the record of the one class */
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
  size_t budgets[2];
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
    cmocka_unit_test(budget_of_a_large_heap_changes),
    cmocka_unit_test(budget_of_a_small_heap_changes),
    cmocka_unit_test(budget_of_a_heap_without_one),
    cmocka_unit_test(lowered_beside_idle_children),
    cmocka_unit_test(trim_gives_back),
    cmocka_unit_test(changed_beside_others),
    cmocka_unit_test(purged_bytes_are_counted),
  };
  return cmocka_run_group_tests_name("budget_changes", tests, NULL, NULL);
}
