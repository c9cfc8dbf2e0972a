/* SPDX-License-Identifier: MIT
 * Blocks of heaps of every kind there is: sizes, random traffic, resets, walks. */
#include "kinds.h"
#include "os_fake.h"
#include <errno.h>

static void blocks_of_all_sizes(void *options)
{
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  for (size_t size = 1; size <= 5 * MIB; size += size / 3 + 1) {
    errno = 77;
    size_t count = fill(heap, size, min_size(300, 12 * MIB / size + 1));
    must(count == 300 || errno == ENOMEM || errno == 77);
    for (size_t i = 0; i < count; i++)
      must((uintptr_t)blocks[i] % BLOCK_ALIGNMENT == 0 && pool_usable_size(blocks[i]) >= size &&
           pool_heap_of(blocks[i]) == heap && pool_in_use((char *)blocks[i] + size - 1) &&
           pool_block_start((char *)blocks[i] + size / 2, NULL) == blocks[i]);
    verify(size, count);
    must(figures(heap).live_blocks == count);
    check_everything();
    if (count)
      free_all(heap, count);
    must(figures(heap).live_blocks == 0 && (!count || !pool_in_use(blocks[0])));
  }
  pool_heap_trim(heap, 0);
  check_everything();
  pool_heap_destroy(heap);
  must(check_everything());
}

static void random_traffic(void *options)
{
  static size_t sizes[500];
  dice_t dice = {11};
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  size_t live = 0;
  memset(blocks, 0, sizeof blocks);
  for (size_t i = 0; i < some_of(20000); i++) {
    size_t at = dice_below(&dice, 500), size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 14));
    void *moved = NULL;
    errno = 77;
    if (blocks[at])
      must(pattern_holds(blocks[at], sizes[at], at));
    if (blocks[at] && dice_below(&dice, 3) == 0) {
      moved = pool_heap_realloc(heap, blocks[at], size);
      must(!moved || pattern_kept(moved, min_size(size, sizes[at]), sizes[at], at));
    } else if (blocks[at]) {
      live--;
      pool_heap_free(heap, blocks[at]);
      blocks[at] = NULL;
      continue;
    } else {
      size_t alignment = (size_t)16 << dice_below(&dice, 6);
      bool zeroed = dice_below(&dice, 3) == 0;
      moved = zeroed ? pool_heap_calloc(heap, 1, size) : pool_heap_aligned_alloc(heap, alignment, size);
      must(zeroed || (uintptr_t)moved % alignment == 0);
      must(!zeroed || !moved || all_zero(moved, pool_usable_size(moved)));
      live += moved != NULL;
    }
    must(errno == (moved ? 77 : ENOMEM));
    if (moved) {
      blocks[at] = moved;
      sizes[at] = size;
      pattern_write(moved, size, at);
    }
    if (i % 500 == 0)
      must(check_everything() && figures(heap).live_blocks == live);
  }
  pool_heap_destroy(heap);
  must(check_everything());
}

static void resets(void *options)
{
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  size_t first = 0;
  for (size_t turn = 0; turn < 5; turn++) {
    size_t count = fill(heap, 100, 3000);
    verify(100, count);
    must(turn == 0 || count == first);
    first = count;
    fill(heap, 300 * KIB, 3);
    uint64_t calls = os_fake.calls;
    pool_heap_reset(heap);
    must(os_fake.calls == calls + (heap->flags & POOL_HEAP_ZERO_ON_FREE
                                     ? 3
                                     : 0)); /* the memory is kept for the next round; the large blocks are wiped */
    must(figures(heap).live_blocks == 0 && figures(heap).cached_bytes == 0);
    must(!pool_in_use(blocks[0]) && check_everything());
  }
  pool_heap_destroy(heap);
}

static bool free_every_second(const pool_block_t *block, void *context)
{
  size_t *count = context;
  if (++*count % 2)
    pool_free(block->start);
  return true;
}

static void walks(void *options)
{
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  size_t count = fill(heap, 200, 1000), visited = 0;
  must(count > 17);
  must(!pool_heap_walk(heap, count_block, &visited) && visited == 17);
  must(pool_heap_walk(heap, count_block, &visited) && visited == 17 + count);
  visited = 0;
  must(pool_heap_walk(heap, free_every_second, &visited) && visited == count);
  visited = 100;
  must(pool_heap_walk(heap, count_block, &visited) && visited == 100 + count / 2);
  must(figures(heap).live_blocks == count / 2 && check_everything());
  pool_heap_destroy(heap);
}

/* Heaps that come and go leave nothing behind. */
static void come_and_go(void *options)
{
  os_fake_heal();
  size_t mapped = 0;
  for (size_t turn = 0; turn < some_of(40); turn++) {
    pool_heap_t *heap = heap_new(options);
    fill(heap, 100, 2000);
    fill(heap, 5000, 20);
    fill(heap, 400 * KIB, 2);
    pool_heap_destroy(heap);
    must(check_everything() && space_of_process.used_units == 0);
    if (turn == 4)
      mapped = os_fake.mapped_bytes;
  }
  must(os_fake.mapped_bytes == mapped);
}

static void blocks_of_all_sizes_test(void **state)
{
  (void)state;
  for_each_kind(blocks_of_all_sizes);
}
static void random_traffic_test(void **state)
{
  (void)state;
  for_each_kind(random_traffic);
}
static void resets_test(void **state)
{
  (void)state;
  for_each_kind(resets);
}
static void walks_test(void **state)
{
  (void)state;
  for_each_kind(walks);
}
static void come_and_go_test(void **state)
{
  (void)state;
  for_each_kind(come_and_go);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_of_all_sizes_test),
    cmocka_unit_test(random_traffic_test),
    cmocka_unit_test(resets_test),
    cmocka_unit_test(walks_test),
    cmocka_unit_test(come_and_go_test),
  };
  return cmocka_run_group_tests_name("heap_blocks", tests, NULL, NULL);
}
