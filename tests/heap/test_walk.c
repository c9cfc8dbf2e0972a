/* SPDX-License-Identifier: MIT
 * Walking: each live block once, by address in each slab, none that is cached or another heap's. */
#include "heaps.h"

enum { BLOCKS = 1500, SLAB_UNIT = 64 << 10 };

typedef struct known {
  void *at[BLOCKS];
  size_t size[BLOCKS];
  bool seen[BLOCKS];
  size_t count;
} known_t;

static known_t known;

static int by_address(const void *a, const void *b)
{
  uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return (x > y) - (x < y);
}

static const size_t sizes[] = {1, 16, 24, 100, 500, 1500, 9000, 40000, 200000, 300000};

static void take_blocks(pool_heap_t *heap, size_t count, size_t kinds)
{
  known = (known_t){.count = count};
  for (size_t i = 0; i < count; i++)
    must(known.at[i] = pool_heap_alloc(heap, sizes[i % kinds]));
  qsort(known.at, count, sizeof *known.at, by_address);
  for (size_t i = 0; i < count; i++)
    known.size[i] = pool_usable_size(known.at[i]);
}

static size_t index_of(const void *block)
{
  void **at = bsearch(&block, known.at, known.count, sizeof *known.at, by_address);
  return at ? (size_t)(at - known.at) : known.count;
}

typedef struct visits {
  size_t count, stop_at, strangers, again, out_of_order, wrong_sizes;
  const char *last;
  size_t last_size;
  pool_heap_t *free_in; /* frees each block it is given */
} visits_t;

static bool visit(const pool_block_t *block, void *context)
{
  visits_t *v = context;
  size_t i = index_of(block->start);
  v->count++;
  if (i == known.count) {
    v->strangers++;
  } else {
    v->again += known.seen[i];
    v->wrong_sizes += known.size[i] != block->size;
    known.seen[i] = true;
  }
  const char *start = block->start;
  if (v->last && block->size == v->last_size && (uintptr_t)start / SLAB_UNIT == (uintptr_t)v->last / SLAB_UNIT)
    v->out_of_order += start <= v->last;
  v->last = start;
  v->last_size = block->size;
  if (v->free_in)
    pool_heap_free(v->free_in, block->start);
  return v->count != v->stop_at;
}

static void expect_all(pool_heap_t *heap, size_t count)
{
  visits_t v = {0};
  memset(known.seen, 0, sizeof known.seen);
  errno = UNTOUCHED;
  assert_true(pool_heap_walk(heap, visit, &v));
  assert_int_equal(errno, UNTOUCHED);
  assert_int_equal(v.strangers, 0);
  assert_int_equal(v.again, 0);
  assert_int_equal(v.out_of_order, 0);
  assert_int_equal(v.wrong_sizes, 0);
  assert_int_equal(v.count, count);
}

static void free_in_another_thread(size_t index, void *heap)
{
  for (size_t i = index; i < known.count; i += 6)
    pool_heap_free(heap, known.at[i]);
}

static void try_walk(pool_heap_t *heap, size_t kinds, bool threads)
{
  const size_t count = BLOCKS;
  pool_heap_t *other = heap_with((pool_heap_options_t){0});
  list_t strangers = {0};
  take_blocks(heap, 0, 1);
  expect_all(heap, 0);
  for (size_t i = 0; i < kinds; i++)
    list_take_many(&strangers, other, max_size(sizes[i], sizeof(void *)), 30);
  take_blocks(heap, count, kinds);
  expect_all(heap, count);
  expect_all(heap, count);
  if (threads)
    run_threads(2, free_in_another_thread, heap); /* 0 and 1 of 6: they end, others stay */
  else
    free_in_another_thread(0, heap), free_in_another_thread(1, heap);
  free_in_another_thread(2, heap); /* these are in this thread's magazines */
  size_t left = 0, kept = 0;
  for (size_t i = 0; i < count; i++)
    left += i % 6 > 2;
  for (size_t i = 0; i < count; i++)
    if (i % 6 > 2) {
      known.at[kept] = known.at[i];
      known.size[kept++] = known.size[i];
    }
  known.count = kept;
  expect_all(heap, left);
  assert_int_equal(stats_of(heap).live_blocks, left);
  visits_t v = {.stop_at = 7};
  assert_false(pool_heap_walk(heap, visit, &v));
  assert_int_equal(v.count, 7);
  v = (visits_t){.free_in = heap};
  memset(known.seen, 0, sizeof known.seen);
  assert_true(pool_heap_walk(heap, visit, &v));
  assert_int_equal(v.count, left);
  assert_int_equal(v.strangers + v.again, 0);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  v = (visits_t){0};
  assert_true(pool_heap_walk(heap, visit, &v));
  assert_int_equal(v.count, 0);
  list_free(&strangers, other);
  assert_true(check_everything());
  pool_heap_destroy(other);
  pool_heap_destroy(heap);
}

static void every_kind_of_heap(void **state)
{
  (void)state;
  static char buffer[1 << 20];
  try_walk(heap_with((pool_heap_options_t){0}), COUNT_OF(sizes), true);
  try_walk(heap_with((pool_heap_options_t){.budget = 200 << 20}), COUNT_OF(sizes), true);
  try_walk(heap_with((pool_heap_options_t){.budget = 2 << 20}), 6, true);
  try_walk(heap_with((pool_heap_options_t){.reserve = 1 << 20}), COUNT_OF(sizes), true);
  try_walk(heap_with((pool_heap_options_t){.flags = POOL_HEAP_CHECKED}), COUNT_OF(sizes), true);
  try_walk(heap_with((pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE}), 6, true);
  try_walk(heap_with((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD}), 6, false);
  try_walk(heap_with((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer}), 5, true);
}

static void huge_blocks(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  known = (known_t){.count = 3};
  for (size_t i = 0; i < known.count; i++)
    assert_non_null(known.at[i] = pool_heap_alloc(heap, opaque((2 + i) << 23)));
  qsort(known.at, known.count, sizeof *known.at, by_address);
  for (size_t i = 0; i < known.count; i++)
    known.size[i] = pool_usable_size(known.at[i]);
  expect_all(heap, 3);
  visits_t v = {.free_in = heap};
  assert_true(pool_heap_walk(heap, visit, &v));
  assert_int_equal(stats_of(heap).live_blocks, 0);
  pool_heap_destroy(heap);
}

static void what_overflowed_is_elsewhere(void **state)
{
  (void)state;
  pool_heap_t *other = heap_with((pool_heap_options_t){0});
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 64 << 10, .overflow = other});
  list_t list = {0};
  list_take_many(&list, heap, 100, 2000);
  visits_t here = {0}, there = {0};
  assert_true(pool_heap_walk(heap, visit, &here) && pool_heap_walk(other, visit, &there));
  assert_true(here.count > 0 && there.count > 0);
  assert_int_equal(here.count + there.count, list.count);
  list_free(&list, heap);
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
}

static void the_default_heap(void **state)
{
  (void)state;
  visits_t before = {0}, after = {0};
  known.count = 0;
  pool_heap_walk(pool_heap_default(), visit, &before);
  void *block = pool_alloc(100);
  pool_heap_walk(pool_heap_default(), visit, &after);
  assert_int_equal(after.count, before.count + 1);
  pool_free(block);
}

/* ---- a visitor that frees its block and allocates elsewhere, which may take over the memory ---- */

typedef struct mover {
  pool_heap_t *from, *to;
  size_t visits, strangers, kept;
  void *moved[BLOCKS];
} mover_t;

static bool move_away(const pool_block_t *block, void *context)
{
  mover_t *m = context;
  m->strangers += pool_heap_of(block->start) != m->from || index_of(block->start) == known.count;
  size_t size = block->size;
  pool_heap_free(m->from, block->start);
  if (m->visits % 64 == 0)
    pool_heap_trim(m->from, 0); /* slabs that are empty now go, and others take their place */
  if (m->kept < BLOCKS)
    m->moved[m->kept++] = pool_heap_alloc(m->to, size);
  m->visits++;
  return true;
}

static void moves(pool_heap_options_t from, size_t count, size_t kinds)
{
  mover_t m = {.from = heap_with(from), .to = heap_with((pool_heap_options_t){0})};
  take_blocks(m.from, count, kinds);
  assert_true(pool_heap_walk(m.from, move_away, &m));
  assert_int_equal(m.strangers, 0);
  assert_int_equal(m.visits, count);
  assert_int_equal(stats_of(m.from).live_blocks, 0);
  assert_int_equal(stats_of(m.to).live_blocks, m.kept);
  assert_true(check_everything());
  pool_heap_destroy(m.from);
  pool_heap_destroy(m.to);
}

static void visitors_move_blocks(void **state)
{
  (void)state;
  moves((pool_heap_options_t){0}, BLOCKS, 1);
  moves((pool_heap_options_t){0}, 600, COUNT_OF(sizes));
  moves((pool_heap_options_t){.budget = 4 << 20}, 1000, 6);
  moves((pool_heap_options_t){.flags = POOL_HEAP_CHECKED}, 600, 6);
  moves((pool_heap_options_t){.reserve = 1 << 20}, 1000, 6);
}

/* New blocks of the same heap may be visited or not; each old one is, once, and nothing that is cached is. */
typedef struct grower {
  pool_heap_t *heap;
  size_t known_visits, dead;
  void *fresh[3000];
  size_t count;
} grower_t;

static bool grow_heap(const pool_block_t *block, void *context)
{
  grower_t *g = context;
  size_t i = index_of(block->start);
  if (i < known.count) {
    g->known_visits++;
    known.seen[i] = true;
  } else {
    size_t k = 0;
    while (k < g->count && g->fresh[k] != block->start)
      k++;
    g->dead += k == g->count; /* neither old nor new: a block that is free */
  }
  if (g->count < COUNT_OF(g->fresh) && g->count < 2000)
    g->fresh[g->count++] = pool_heap_alloc(g->heap, block->size);
  return true;
}

static void visitors_allocate_in_the_heap(void **state)
{
  (void)state;
  static grower_t g;
  g = (grower_t){.heap = heap_with((pool_heap_options_t){0})};
  take_blocks(g.heap, 600, 5);
  for (size_t i = 0; i < known.count; i += 3) { /* holes, from which magazines are filled */
    pool_heap_free(g.heap, known.at[i]);
    known.at[i] = known.at[i + 1];
  }
  size_t left = known.count * 2 / 3;
  memset(known.seen, 0, sizeof known.seen);
  assert_true(pool_heap_walk(g.heap, grow_heap, &g));
  assert_int_equal(g.dead, 0);
  assert_int_equal(g.known_visits, left);
  pool_heap_destroy(g.heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind_of_heap),           cmocka_unit_test(huge_blocks),
    cmocka_unit_test(what_overflowed_is_elsewhere), cmocka_unit_test(the_default_heap),
    cmocka_unit_test(visitors_move_blocks),         cmocka_unit_test(visitors_allocate_in_the_heap),
  };
  return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
