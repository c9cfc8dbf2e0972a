/* SPDX-License-Identifier: MIT
 * What freed blocks leave behind in a small memory: holes that aligned requests find, blocks that are kept and that no question
 * touches, a pattern that shows who writes to them, and pages that go back step by step. */
#include "../dice.h"
#include "heaps.h"
#include <unistd.h>

enum { MOST = 1 << 20 };
static _Alignas(4096) char buffer[MOST];

static pool_heap_t *heap_in(size_t size, unsigned flags)
{
  return heap_with((pool_heap_options_t){.memory = buffer, .memory_size = size, .flags = flags});
}

/* ---- aligned holes ---- */

typedef struct shape {
  size_t memory, alignment, size;
} shape_t;
static const shape_t shapes[] = {{64 << 10, 64, 64},   {64 << 10, 32, 96},     {64 << 10, 64, 1024}, {64 << 10, 256, 256},
                                 {64 << 10, 4096, 64}, {256 << 10, 1024, 500}, {MOST, 64, 64},       {MOST, 4096, 4096}};
static void *holes[1 << 14];

static size_t fill_aligned(pool_heap_t *heap, const shape_t *shape, void **blocks)
{
  size_t count = 0;
  for (void *block; (block = pool_heap_aligned_alloc(heap, shape->alignment, shape->size)) != NULL; count++) {
    assert_int_equal((uintptr_t)block % shape->alignment, 0);
    if (blocks)
      blocks[count] = block;
  }
  return count;
}

static void serves_each_hole(pool_heap_t *heap, const shape_t *shape, bool tight)
{
  size_t count = fill_aligned(heap, shape, holes), freed = 0;
  while (tight && pool_heap_alloc(heap, 1)) {}
  for (size_t i = 0; i < count; i += 2, freed++)
    pool_heap_free(heap, holes[i]);
  assert_int_equal(fill_aligned(heap, shape, NULL), freed);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

static void aligned_holes_are_used_again(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(shapes); i++)
    for (unsigned tight = 0; tight < 2; tight++) {
      serves_each_hole(heap_in(shapes[i].memory, 0), &shapes[i], tight);
      serves_each_hole(heap_with_budget(shapes[i].memory), &shapes[i], tight);
    }
}

static void the_last_aligned_hole_is_used(void **state)
{
  static const size_t alignments[] = {4096, 1024, 64, 32};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(alignments); i++)
    for (size_t size = 64; size <= 4096; size *= 4) {
      pool_heap_t *heap = heap_in(64 << 10, 0);
      void *block = pool_heap_aligned_alloc(heap, 4096, 4096);
      while (pool_heap_alloc(heap, 32)) {}
      pool_heap_free(heap, block);
      assert_ptr_equal(pool_heap_aligned_alloc(heap, alignments[i], size), block);
      pool_heap_destroy(heap);
    }
}

/* Longer pieces are there, which stay whole. */
static void an_aligned_hole_is_used_first(void **state)
{
  static const size_t alignments[] = {32, 64, 1024, 4096};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(alignments); i++) {
    pool_heap_t *heap = heap_in(256 << 10, 0);
    for (size_t k = 0; k < 9; k++)
      assert_non_null(holes[k] = pool_heap_aligned_alloc(heap, alignments[i], alignments[i]));
    size_t largest = pool_heap_largest(heap);
    pool_heap_free(heap, holes[4]);
    assert_ptr_equal(pool_heap_aligned_alloc(heap, alignments[i], alignments[i]), holes[4]);
    assert_int_equal(pool_heap_largest(heap), largest);
    pool_heap_destroy(heap);
  }
}

/* ---- a question changes nothing ---- */

static char text[1 << 16];

static void a_question_gives_nothing_back(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= POOL_HEAP_SINGLE_THREAD; flags += POOL_HEAP_SINGLE_THREAD) {
    pool_heap_t *parent = heap_with_budget(4 << 20);
    pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 700 << 10, .parent = parent, .flags = flags, .name = "kept"});
    char *block = pool_heap_alloc(heap, 100);
    assert_true(pool_in_use(block));
    pool_heap_free(heap, block);
    assert_false(pool_in_use(block));
    size_t held = stats_of(parent).children_bytes;
    assert_true(pool_stats_json(text, sizeof text) < sizeof text && strstr(text, "\"kept\""));
    assert_true(pool_heap_stats_json(heap, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "\"live_bytes\":0,\"live_blocks\":0,"));
    assert_int_equal(stats_of(parent).children_bytes, held);
    assert_ptr_equal(pool_heap_alloc(heap, 100), block);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
    pool_heap_destroy(parent);
  }
}

/* ---- a write after the free ---- */

typedef struct late_write {
  pool_heap_t *heap;
  size_t size, next, at;
  bool alone;
} late_write_t;

static bool is_kept(const late_write_t *w) { return w->size < 400; }

static void write_late(void *argument)
{
  const late_write_t *w = argument;
  char *block = pool_heap_alloc(w->heap, w->size);
  must(block && (w->alone || pool_heap_alloc(w->heap, w->size)));
  pool_heap_free(w->heap, block);
  block[w->at] ^= 1;
  if (is_kept(w))
    pool_heap_trim(w->heap, 0);
  must(pool_heap_alloc(w->heap, w->next) == block);
}

/* Small blocks are seen while they are kept, and so for what they were. Memory of others is of no block by then. */
static void say_late_write(char *words, size_t size, const late_write_t *w)
{
  size_t whole = (w->next + 96 + 15) / 16 * 16; /* with its guard */
  bool kept = is_kept(w);
  snprintf(words, size, "written to after it was freed at offset %zu of a block of %zu bytes", kept ? w->at : w->at + 64,
           kept ? w->size : whole);
}

static void late_writes_are_seen(void **state)
{
  static const size_t sizes[] = {100, 6000, 12000};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (unsigned way = 0; way < 8; way++) {
      memset(buffer, 0xee, sizeof buffer);
      late_write_t w = {way & 1 ? heap_with((pool_heap_options_t){.budget = 64 << 10, .flags = POOL_HEAP_CHECKED})
                                : heap_in(64 << 10, POOL_HEAP_CHECKED),
                        sizes[i], way & 2 ? sizes[i] : sizes[i] + 40, sizes[i] / 2, way & 4};
      char words[120];
      say_late_write(words, sizeof words, &w);
      if (w.alone || w.next == w.size)
        aborts_with(write_late, &w, words);
      w.at = w.size - 20;
      pool_heap_reset(w.heap);
      if (w.next == w.size)
        aborts_with(write_late, &w, "written to after it was freed");
      pool_heap_destroy(w.heap);
    }
}

/* Neither a reset nor a page that went back to the system looks like a write. */
static void nothing_else_is_seen(void **state)
{
  (void)state;
  for (size_t budget = 0; budget < 2; budget++) {
    pool_heap_t *heap = budget ? heap_with((pool_heap_options_t){.budget = 200 << 10, .flags = POOL_HEAP_CHECKED})
                               : heap_in(200 << 10, POOL_HEAP_CHECKED);
    uint64_t dice = 3;
    void *blocks[64] = {0};
    for (size_t i = 0; i < 6000; i++) {
      size_t at = below(&dice, COUNT_OF(blocks));
      pool_heap_free(heap, blocks[at]);
      blocks[at] = pool_heap_alloc(heap, below(&dice, one_in(&dice, 8) ? 20000 : 300));
      if (blocks[at] && one_in(&dice, 9))
        blocks[at] = pool_heap_realloc(heap, blocks[at], 1 + pool_usable_size(blocks[at]) / 3);
      if (one_in(&dice, 50))
        pool_heap_trim(heap, 0);
      if (one_in(&dice, 400)) {
        pool_heap_reset(heap);
        memset(blocks, 0, sizeof blocks);
      }
      if (i % 64 == 0)
        assert_true(check_heap(heap));
    }
    pool_heap_destroy(heap);
  }
}

/* ---- pages go back step by step ---- */

enum { PURGED_AT_ONCE = 32 * 4096, FREED_PAGES = 200 };

static void a_free_gives_back_a_step(void **state)
{
  (void)state;
  if (sysconf(_SC_PAGESIZE) != 4096)
    skip(); /* longer pages go back with the heap */
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = MOST, .purge_delay_ms = 2, .flags = POOL_HEAP_SINGLE_THREAD});
  for (size_t i = 0; i < FREED_PAGES; i++) {
    holes[i] = pool_heap_alloc(heap, 4096);
    memset(holes[i], 1, 4096);
  }
  for (size_t i = 0; i < FREED_PAGES; i++)
    pool_heap_free(heap, holes[i]);
  uint64_t end = now_ns() + 20000000000;
  size_t purged = stats_of(heap).purged_bytes;
  while (purged < (FREED_PAGES - 40) * 4096 && now_ns() < end) {
    pool_heap_free(heap, pool_heap_alloc(heap, 4096));
    size_t now = stats_of(heap).purged_bytes;
    assert_true(now <= purged + PURGED_AT_ONCE);
    purged = now;
  }
  assert_true(purged >= (FREED_PAGES - 40) * 4096);
  pool_heap_destroy(heap);
}

/* ---- a budget that was raised and lowered again ---- */

/* What is idle in slabs beside the region goes back when the heap has no room. */
static void slabs_beside_go_back(void **state)
{
  enum { CLASSES = 12 };
  static const size_t budgets[] = {256 << 10, 1 << 20};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    pool_heap_t *heap = heap_with_budget(budgets[i]);
    size_t largest = pool_heap_largest(heap), classes = i ? CLASSES : 3;
    assert_true(pool_heap_set_budget(heap, 4 << 20));
    void *all = pool_heap_alloc(heap, largest);
    assert_non_null(all);
    for (size_t k = 0; k < classes; k++)
      assert_non_null(holes[k] = pool_heap_alloc(heap, 100 + 200 * k));
    for (size_t k = 0; k < classes; k++)
      pool_heap_free(heap, holes[k]);
    pool_heap_free(heap, all);
    assert_true(pool_heap_set_budget(heap, budgets[i]));
    assert_true(stats_of(heap).held_bytes > budgets[i] / 2);
    assert_non_null(all = pool_heap_alloc(heap, largest / 2));
    pool_heap_free(heap, all);
    assert_int_equal(stats_of(heap).exhausted_count, 0);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(aligned_holes_are_used_again),  cmocka_unit_test(the_last_aligned_hole_is_used),
    cmocka_unit_test(an_aligned_hole_is_used_first), cmocka_unit_test(a_question_gives_nothing_back),
    cmocka_unit_test(late_writes_are_seen),          cmocka_unit_test(nothing_else_is_seen),
    cmocka_unit_test(a_free_gives_back_a_step),      cmocka_unit_test(slabs_beside_go_back),
  };
  return cmocka_run_group_tests_name("small_holes", tests, NULL, NULL);
}
