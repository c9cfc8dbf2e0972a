/* SPDX-License-Identifier: MIT
 * Heaps in the caller's memory: at any address and size, nothing outside it is touched, and the system is never asked. */
#include "heaps.h"

enum { ROOM = 1 << 20, MARGIN = 256, MARGIN_BYTE = 0x77 };
static _Alignas(4096) unsigned char room[MARGIN + ROOM + MARGIN];

/* A buffer of `size` bytes at an odd address, between margins that must stay as they are. */
static unsigned char *buffer_at(size_t offset, size_t size)
{
  memset(room, MARGIN_BYTE, sizeof room);
  must(offset <= MARGIN && offset + size <= MARGIN + ROOM);
  return room + offset;
}

static bool untouched_around(size_t offset, size_t size)
{
  for (size_t i = 0; i < sizeof room; i++)
    if ((i < offset || i >= offset + size) && room[i] != MARGIN_BYTE)
      return false;
  return true;
}

static pool_heap_t *heap_in(void *memory, size_t size)
{
  return pool_heap_create(&(pool_heap_options_t){.name = "in a buffer", .memory = memory, .memory_size = size});
}

static void use_it_up(pool_heap_t *heap, const unsigned char *memory, size_t size)
{
  static const size_t sizes[] = {1, 16, 33, 64, 500, 2000};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    unsigned char *block;
    for (size_t count = 0; (block = pool_heap_alloc(heap, sizes[i])) != NULL; count++) {
      size_t usable = pool_usable_size(block);
      assert_int_equal((uintptr_t)block % 16, 0);
      assert_true(block >= memory && block + usable <= memory + size);
      assert_true(usable >= sizes[i]);
      memset(block, (int)count, usable);
    }
    assert_int_equal(errno, ENOMEM);
    assert_true(check_heap(heap));
    pool_heap_reset(heap);
  }
}

static void any_alignment(void **state)
{
  (void)state;
  static const size_t sizes[] = {16 << 10, (16 << 10) + 1, (20 << 10) - 1, (100 << 10) + 77, ROOM - 64};
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (size_t offset = 0; offset < 64; offset += offset < 18 ? 1 : 15) {
      unsigned char *memory = buffer_at(offset, sizes[i]);
      pool_heap_t *heap = heap_in(memory, sizes[i]);
      assert_non_null(heap);
      assert_string_equal(pool_heap_name(heap), "in a buffer");
      use_it_up(heap, memory, sizes[i]);
      assert_true(stats_of(heap).peak_held_bytes <= sizes[i]);
      pool_heap_destroy(heap);
      assert_true(untouched_around(offset, sizes[i]));
    }
}

/* From the least size on that is accepted, each serves at least one block. */
static void any_size(void **state)
{
  (void)state;
  bool accepted = false;
  for (size_t size = 1; size < 24 << 10; size += size < 9000 ? 13 : 331) {
    errno = UNTOUCHED;
    pool_heap_t *heap = heap_in(buffer_at(3, size), size);
    assert_true(heap || !accepted);
    assert_int_equal(errno, heap ? UNTOUCHED : EINVAL);
    if (heap) {
      accepted = true;
      void *block = pool_heap_alloc(heap, 16);
      assert_non_null(block);
      memset(block, 1, 16);
      pool_heap_destroy(heap);
    }
    assert_true(untouched_around(3, size));
  }
  assert_true(accepted);
}

static void the_table(void **state)
{
  (void)state;
  static const struct {
    size_t size, blocks;
  } table[] = {{16 << 10, 180}, {64 << 10, 900}, {1 << 20, 15500}};
  for (size_t i = 0; i < COUNT_OF(table); i++)
    for (size_t offset = 0; offset < 64; offset += 31) {
      pool_heap_t *heap = heap_in(buffer_at(offset, table[i].size), table[i].size);
      list_t list = {0};
      list_exhaust(&list, heap, 64);
      print_message("%5zu KiB at offset %zu: %zu blocks of 64 bytes\n", table[i].size >> 10, offset, list.count);
      assert_true(list.count >= table[i].blocks);
      list_free(&list, heap);
      assert_true(list_exhaust(&list, heap, 64) >= table[i].blocks);
      pool_heap_destroy(heap);
    }
}

static void questions(void **state)
{
  (void)state;
  unsigned char *memory = buffer_at(5, ROOM);
  pool_heap_t *heap = heap_in(memory, ROOM);
  unsigned char *block = pool_heap_alloc(heap, 100);
  size_t size;
  assert_ptr_equal(pool_heap_of(block), heap);
  assert_ptr_equal(pool_heap_of(memory + ROOM / 2), heap);
  assert_null(pool_heap_of(memory - 1));
  assert_null(pool_heap_of(memory + ROOM));
  assert_ptr_equal(pool_block_start(block + 99, &size), block);
  assert_int_equal(size, pool_usable_size(block));
  for (size_t i = 0; i < ROOM; i += 61)
    assert_true(!pool_in_use(memory + i) || (memory + i >= block && memory + i < block + size));
  pool_free(block);
  assert_false(pool_in_use(block));
  pool_heap_destroy(heap);
  assert_null(pool_heap_of(block));
}

/* Requests that no class serves, in units smaller than a page. */
static void large_blocks_of_small_units(void **state)
{
  (void)state;
  static const size_t classes[] = {32};
  static const unsigned flags[] = {0, POOL_HEAP_CHECKED, POOL_HEAP_ZERO_ON_FREE};
  for (size_t i = 0; i < COUNT_OF(flags); i++) {
    unsigned char *memory = buffer_at(0, 16 << 10);
    pool_heap_t *heap = heap_with((pool_heap_options_t){
      .memory = memory, .memory_size = 16 << 10, .size_classes = classes, .size_class_count = 1, .flags = flags[i]});
    unsigned char *blocks[8];
    size_t count =
      flags[i] == POOL_HEAP_CHECKED ? COUNT_OF(blocks) / 2 : COUNT_OF(blocks); /* they take two units with a guard */
    for (size_t j = 0; j < count; j++) {
      assert_non_null(blocks[j] = pool_heap_zalloc(heap, 1000));
      assert_true(all_zero(blocks[j], 1000));
      memset(blocks[j], (int)j + 1, 1000);
    }
    for (size_t j = 0; j < count; j++) {
      for (size_t at = 0; at < 1000; at++)
        assert_int_equal(blocks[j][at], j + 1);
      pool_heap_free(heap, blocks[j]);
    }
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
    assert_true(untouched_around(0, 16 << 10));
  }
}

/* Alignments beyond the units: right or refused. Where the buffer itself is aligned, up to a page is served. */
static void try_alignments(size_t offset, size_t size, unsigned flags)
{
  unsigned char *memory = buffer_at(offset, size);
  pool_heap_t *heap = heap_with((pool_heap_options_t){.memory = memory, .memory_size = size, .flags = flags});
  for (size_t alignment = 16; alignment <= 64 << 10; alignment *= 2) {
    unsigned char *first = pool_heap_aligned_alloc(heap, alignment, 100),
                  *second = pool_heap_aligned_alloc(heap, alignment, 100);
    assert_true(first || alignment > 64);
    assert_true(first || offset || alignment > 1024);
    assert_int_equal((uintptr_t)first % alignment, 0);
    assert_int_equal((uintptr_t)second % alignment, 0);
    if (first && second) {
      memset(first, 1, 100);
      memset(second, 2, 100);
      assert_int_equal(first[99], 1);
    }
    pool_heap_free(heap, first);
    pool_heap_free(heap, second);
  }
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
  assert_true(untouched_around(offset, size));
}

static void alignments(void **state)
{
  (void)state;
  static const size_t sizes[] = {32 << 10, 64 << 10, 256 << 10, ROOM};
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (size_t offset = 0; offset < MARGIN; offset += 67) {
      try_alignments(offset, sizes[i], 0);
      try_alignments(offset, sizes[i], POOL_HEAP_CHECKED);
    }
}

static void and_a_budget(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.memory = buffer_at(0, ROOM), .memory_size = ROOM, .budget = ROOM / 2});
  list_t list = {0};
  list_exhaust(&list, heap, 64);
  assert_true(stats_of(heap).held_bytes <= ROOM / 2);
  assert_true(list.count > ROOM / 2 / 64 * 9 / 10);
  assert_true(pool_heap_set_budget(heap, ROOM));
  assert_true(list_exhaust(&list, heap, 64) > 5000);
  pool_heap_destroy(heap);
}

/* ---- no system call ---- */

static bool visit_all(const pool_block_t *block, void *context)
{
  (void)block;
  ++*(size_t *)context;
  return true;
}

static bool free_some(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  (void)bytes_needed, (void)attempt;
  list_t *list = context;
  bool any = list->first;
  for (unsigned i = 0; i < 30 && list->first; i++)
    pool_heap_free(heap, list_pop(list));
  return any;
}

/* In sixteen small buffers after one another, from making the heap to its end. */
static void live_a_life(unsigned char *memory, size_t size, unsigned flags)
{
  list_t list = {0};
  size_t visited = 0;
  pool_heap_t *heap = pool_heap_create(
    &(pool_heap_options_t){.memory = memory, .memory_size = size, .flags = flags, .on_exhausted = free_some, .context = &list});
  must(heap);
  list_take_many(&list, heap, 64, 20);
  for (size_t i = 0; i < 20000; i++)
    must(list_take(&list, heap, 16 + i % 300));
  must(pool_heap_walk(heap, visit_all, &visited) && visited == list.count);
  must(stats_of(heap).retried_count > 0);
  void *block = pool_heap_realloc(heap, list_pop(&list), 700);
  must(block && pool_in_use(block) && pool_heap_of(block) == heap && pool_usable_size(block) >= 700);
  pool_heap_free(heap, block);
  pool_heap_trim(heap, 0);
  must(pool_heap_set_budget(heap, size));
  list_free(&list, heap);
  must(!pool_heap_alloc(heap, 2 * size));
  pool_heap_reset(heap);
  must(pool_heap_calloc(heap, 10, 10));
  static char json[8192];
  must(pool_heap_stats_json(heap, json, sizeof json) < sizeof json);
  pool_heap_destroy(heap);
}

static void sealed_life(void *unused)
{
  (void)unused;
  no_more_system_calls();
  for (size_t i = 0; i < 16; i++)
    live_a_life(room + i * (64 << 10) + i, 60 << 10, i % 2 ? POOL_HEAP_SINGLE_THREAD : 0);
  live_a_life(room, sizeof room, POOL_HEAP_CHECKED);
  live_a_life(room + 1, sizeof room - 1, POOL_HEAP_ZERO_ON_FREE);
}

static void never_asks_the_system(void **state)
{
  (void)state;
  in_sealed_child(sealed_life, NULL);
}

/* The seal itself works: a heap that has to grow ends the child. */
static void grow_sealed(void *unused)
{
  (void)unused;
  no_more_system_calls();
  (void)!pool_alloc(opaque((size_t)64 << 20));
}

static void the_seal_holds(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  ends_by_signal(grow_sealed, NULL, SIGSYS);
}

/* ---- records and blocks: what is written past a block hits no record ---- */

enum { RECORDS = 40, REACH = 4096 };

static void is_out_of_reach(const void *record)
{
  for (size_t distance = 0; distance <= REACH; distance += 16)
    assert_false(pool_in_use((const char *)record - distance));
}

static void records_are_out_of_reach(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {
    {.name = "plain"},
    {.name = "reserve", .reserve = 1 << 20},
    {.name = "small reserve", .reserve = 64 << 10},
    {.name = "budget", .budget = 1 << 20},
    {.name = "large budget", .budget = 64 << 20},
    {.name = "own", .flags = POOL_HEAP_SINGLE_THREAD},
    {.name = "checked", .flags = POOL_HEAP_CHECKED},
  };
  pool_heap_t *heaps[RECORDS];
  object_pool_t *pools[RECORDS];
  list_t lists[RECORDS] = {{0}};
  for (size_t i = 0; i < RECORDS; i++) {
    heaps[i] = heap_with(kinds[i % COUNT_OF(kinds)]);
    pools[i] = object_pool_create(&(object_pool_options_t){
      .object_size = 48,
      .capacity = 100,
      .heap = i % 2 ? heaps[i] : NULL,
      .flags = kinds[i % COUNT_OF(kinds)].flags & POOL_HEAP_SINGLE_THREAD ? OBJECT_POOL_SINGLE_THREAD : 0});
    assert_non_null(pools[i]);
    list_take_many(&lists[i], heaps[i], 16 + i * 300, 20);
    assert_non_null(pool_alloc(i * 5000 + 1)); /* in the default heap, and these stay */
  }
  for (size_t i = 0; i < RECORDS; i++) {
    is_out_of_reach(heaps[i]);
    is_out_of_reach(pools[i]);
  }
  for (size_t i = 0; i < RECORDS; i++) {
    object_pool_destroy(pools[i]);
    pool_heap_destroy(heaps[i]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_alignment),
    cmocka_unit_test(any_size),
    cmocka_unit_test(the_table),
    cmocka_unit_test(questions),
    cmocka_unit_test(large_blocks_of_small_units),
    cmocka_unit_test(alignments),
    cmocka_unit_test(and_a_budget),
    cmocka_unit_test(never_asks_the_system),
    cmocka_unit_test(the_seal_holds),
    cmocka_unit_test(records_are_out_of_reach),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
