/* SPDX-License-Identifier: MIT
 * Heaps whose blocks are standalone, each from a source of the test's: figures, budgets, walks, questions, reset and destroy.
 */
#include "heap/large.h"
#include "kinds.h"
#include "os_fake.h"
#include <errno.h>
#include <tidepool/pool.h>

enum { FRONT = 48, BEHIND = 32, TAKES = FRONT + BEHIND };

static char *place = buffer;
static size_t given, taken, verified;
static bool has_none;

static size_t bytes_of_source(size_t size, size_t alignment) { return size + TAKES + max_size(alignment, 16); }

static bool take_of_source(huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  (void)heap;
  size_t takes = size + TAKES;
  char *block = (char *)round_up((uintptr_t)place + FRONT, max_size(alignment, 16));
  if (has_none || (size_t)(buffer + sizeof buffer - block) < takes)
    return false;
  of->huge.range = (range_t){.start = (uintptr_t)block - FRONT, .size = takes};
  of->offset = (size_t)(block - huge_start(&of->huge));
  of->asked = size;
  place = block + size + BEHIND;
  taken++;
  *zeroed = false;
  memset(block, 0x55, size);
  return true;
}

static void give_to_source(const huge_standalone_t *of, const char *call)
{
  (void)call;
  memset(standalone_block(of), 0x66, of->asked);
  given++;
}

static void verify_of_source(const huge_standalone_t *of, const char *call)
{
  (void)call;
  verified += of->asked != 0;
}

static size_t largest_of_source(size_t bytes) { return bytes > bytes_of_source(0, 1) ? bytes - bytes_of_source(0, 1) : 0; }

static const block_source_t source = {.take = take_of_source,
                                      .bytes = bytes_of_source,
                                      .largest = largest_of_source,
                                      .give = give_to_source,
                                      .verify = verify_of_source};

static pool_heap_t *heap_standalone(const pool_heap_options_t *options)
{
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  standalone_begin(heap, &source);
  return heap;
}

static void any_size(void *argument)
{
  (void)argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.flags = 0});
  const size_t sizes[] = {0, 1, 16, 100, 5000, 300000};
  size_t count = sizeof sizes / sizeof *sizes, bytes = 0, held;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = i % 2 ? pool_heap_alloc(heap, sizes[i]) : pool_heap_zalloc(heap, sizes[i]);
    must(blocks[i] && pool_usable_size(blocks[i]) == sizes[i] && taken == i + 1);
    must(i % 2 || all_zero(blocks[i], sizes[i]));
    must(pool_in_use(blocks[i]) && pool_heap_of(blocks[i]) == heap);
    must(!pool_in_use((char *)blocks[i] - 1) && !pool_in_use((char *)blocks[i] + max_size(sizes[i], 1)));
    bytes += sizes[i];
  }
  pool_stats_t stats = figures(heap);
  held = stats.held_bytes;
  must(stats.live_blocks == count && stats.live_bytes == bytes && held >= bytes + count * TAKES);
  must(check_heap(heap));
  size_t size;
  must(pool_block_start((char *)blocks[4] + 77, &size) == blocks[4] && size == 5000);
  for (size_t i = 0; i < count; i++)
    pool_heap_free(heap, blocks[i]);
  stats = figures(heap);
  must(given == count && stats.live_blocks == 0 && stats.held_bytes == held - bytes - count * TAKES);
  must(check_heap(heap));
  pool_heap_destroy(heap);
}

static void aligned_and_resized(void *argument)
{
  (void)argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.flags = 0});
  char *block = pool_heap_aligned_alloc(heap, 256, 1000);
  must(block && (uintptr_t)block % 256 == 0 && taken == 1);
  pattern_write(block, 1000, 5);
  must(!pool_resize_in_place(block, 2000));
  char *longer = pool_heap_realloc(heap, block, 3000);
  must(longer && longer != block && pattern_kept(longer, 1000, 1000, 5) && given == 1 && taken == 2);
  char *shorter = pool_heap_realloc(heap, longer, 700);
  must(shorter && pattern_kept(shorter, 700, 1000, 5) && pool_usable_size(shorter) >= 700);
  pool_heap_free(heap, shorter);
  must(given == taken && check_heap(heap));
  pool_heap_destroy(heap);
}

/* A source that has none is no failure: the heap has bins, too. */
static void without_source(void *argument)
{
  (void)argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.flags = 0});
  has_none = true;
  for (size_t size = 10; size < MIB; size *= 7) {
    void *block = pool_heap_alloc(heap, size);
    must(block && taken == 0 && check_heap(heap));
    pool_heap_free(heap, block);
  }
  pool_heap_destroy(heap);
  must(given == 0);
}

static void within_budget(void *argument)
{
  (void)argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.budget = 16 * MIB});
  size_t count = 0;
  while (taken == count && count < 1000 && (blocks[count] = pool_heap_alloc(heap, 100 * KIB)) != NULL) {
    must(figures(heap).held_bytes <= 16 * MIB && check_heap(heap));
    count++;
  }
  must(count > 100 && count < 1000); /* those of the source, until it had none */
  pool_heap_destroy(heap);
  must(given == taken);
  pool_heap_t *small = heap_standalone(&(pool_heap_options_t){.budget = 64 * KIB});
  place = buffer;
  size_t before = taken;
  while (pool_heap_alloc(small, 10000))
    must(figures(small).held_bytes <= 64 * KIB && check_heap(small));
  must(errno == ENOMEM && taken - before >= 3 && taken - before <= 6);
  pool_heap_destroy(small);
}

static bool visit_and_free(const pool_block_t *block, void *context)
{
  size_t *bytes = context;
  *bytes += block->size;
  pool_free(block->start);
  return true;
}

static void walked_and_reset(void *argument)
{
  const bool *checked = argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.flags = *checked ? POOL_HEAP_CHECKED : 0});
  size_t bytes = 0, walked = 0;
  for (size_t size = 1; size < 100000; size = size * 2 + 1, bytes += size)
    must(pool_heap_alloc(heap, size * 2 + 1));
  must(pool_heap_walk(heap, visit_and_free, &walked) && walked == bytes && given == taken);
  fill(heap, 1000, 100);
  pool_heap_reset(heap);
  must(given == taken && figures(heap).live_blocks == 0 && check_heap(heap));
  must((verified >= 100) == *checked);
  must(pool_heap_alloc(heap, 5));
  pool_heap_destroy(heap);
  must(given == taken);
}
WITH(walked_and_reset, bool, false, true)

static void freed_twice(void *argument)
{
  const bool *checked = argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.name = "standalone", .flags = *checked ? POOL_HEAP_CHECKED : 0});
  char *block = pool_heap_alloc(heap, 100);
  pool_heap_free(heap, block);
  pool_heap_free(heap, block);
}

static void freed_inside(void *argument)
{
  const bool *checked = argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.name = "standalone", .flags = *checked ? POOL_HEAP_CHECKED : 0});
  char *block = pool_heap_alloc(heap, 100);
  pool_heap_free(heap, block + 16);
}

static void wiped(void *argument)
{
  (void)argument;
  pool_heap_t *heap = heap_standalone(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  char *block = pool_heap_alloc(heap, 20000);
  uint64_t purges = os_fake.count[OS_PURGE];
  pool_heap_free(heap, block);
  must(os_fake.count[OS_PURGE] == purges);
  pool_heap_destroy(heap);
}

static void misused(void **state)
{
  static const bool kinds[] = {false, true};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    aborts_with(freed_twice, (void *)(uintptr_t)&kinds[i], "not a block of any heap");
    aborts_with(freed_inside, (void *)(uintptr_t)&kinds[i], "not a block of any heap");
  }
}

IN_CHILD(any_size)
IN_CHILD(aligned_and_resized)
IN_CHILD(without_source)
IN_CHILD(within_budget)
IN_CHILD(wiped)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_size_test),      cmocka_unit_test(aligned_and_resized_test), cmocka_unit_test(without_source_test),
    cmocka_unit_test(within_budget_test), cmocka_unit_test(walked_and_reset_test),    cmocka_unit_test(misused),
    cmocka_unit_test(wiped_test),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
