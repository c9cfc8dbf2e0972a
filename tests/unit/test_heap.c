/* SPDX-License-Identifier: MIT
 * What tidepool/heap.h promises, for heaps of every kind there is. */
#include "heap/heap.h"
#include "option.h"
#include "os_fake.h"
#include "unit.h"
#include <errno.h>
#include <pthread.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 20000 };

static _Alignas(4096) char buffer[12 << 20];
static void *blocks[BLOCKS];
static const size_t some_classes[] = {16, 48, 1024, 1040, 65536, 262144};

typedef struct kind {
  const char         *name;
  pool_heap_options_t options;
} kind_t;

static const kind_t kinds[] = {
  {"default", {0}},
  {"budget of 64 KiB", {.budget = 64 << 10}},
  {"budget of 1 MiB", {.budget = 1 << 20}},
  {"budget of 4 MiB", {.budget = 4 << 20}},
  {"budget of 8 MiB", {.budget = 8 << 20}},
  {"budget of 64 MiB", {.budget = 64 << 20}},
  {"reserve", {.reserve = 3 << 20}},
  {"reserve of 6 MiB", {.reserve = 6 << 20}},
  {"reserve of 20 MiB", {.reserve = 20 << 20}},
  {"reserve and budget", {.reserve = 3 << 20, .budget = 20 << 20}},
  {"memory", {.memory = buffer + 1, .memory_size = 1 << 20}},
  {"much memory", {.memory = buffer + 24, .memory_size = 10 << 20}},
  {"little memory", {.memory = buffer, .memory_size = 20000}},
  {"checked", {.flags = POOL_HEAP_CHECKED}},
  {"checked memory", {.flags = POOL_HEAP_CHECKED, .memory = buffer + 8, .memory_size = 3 << 20}},
  {"zero on free", {.flags = POOL_HEAP_ZERO_ON_FREE}},
  {"single thread", {.flags = POOL_HEAP_SINGLE_THREAD}},
  {"single thread, budget", {.flags = POOL_HEAP_SINGLE_THREAD, .budget = 2 << 20}},
  {"prefault", {.flags = POOL_HEAP_PREFAULT, .reserve = 2 << 20}},
  {"locked", {.flags = POOL_HEAP_LOCK_MEMORY, .memory = buffer, .memory_size = 2 << 20}},
  {"own classes", {.size_classes = some_classes, .size_class_count = 6}},
  {"own classes, budget", {.size_classes = some_classes, .size_class_count = 6, .budget = 6 << 20}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static pool_heap_t *heap_new(const pool_heap_options_t *options)
{
  pool_heap_t *heap = pool_heap_create(options);
  must(heap && check_everything());
  return heap;
}

static pool_stats_t figures(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  must(!stats.budget || stats.held_bytes <= stats.budget);
  must(stats.peak_held_bytes >= stats.held_bytes);
  return stats;
}

/* Until it is full, or there are enough. */
static size_t fill(pool_heap_t *heap, size_t size, size_t most)
{
  size_t n = 0;
  while (n < most && (blocks[n] = pool_heap_alloc(heap, size)) != NULL) {
    pattern_write(blocks[n], size, n);
    n++;
  }
  must(n == most || errno == ENOMEM);
  return n;
}

static void verify(size_t size, size_t count)
{
  for (size_t i = 0; i < count; i++)
    must(pattern_holds(blocks[i], size, i));
}

static void free_all(pool_heap_t *heap, size_t count)
{
  for (size_t i = 0; i < count; i++)
    pool_heap_free(heap, blocks[(i * 7919) % count]);
}

static void for_each_kind(void (*test)(void *))
{
  for (size_t i = 0; i < KINDS; i++)
    in_child_named(kinds[i].name, test, (void *)(uintptr_t)&kinds[i].options);
}

/* ---- blocks ---- */

static void blocks_of_all_sizes(void *options)
{
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  for (size_t size = 1; size <= 5 * MIB; size += size / 3 + 1) {
    errno = 77;
    size_t count = fill(heap, size, min_size(300, 12 * MIB / size + 1));
    must(count == 300 || errno == ENOMEM || errno == 77);
    for (size_t i = 0; i < count; i++)
      must((uintptr_t)blocks[i] % BLOCK_ALIGNMENT == 0 && pool_usable_size(blocks[i]) >= size && pool_heap_of(blocks[i]) == heap &&
           pool_in_use((char *)blocks[i] + size - 1) && pool_block_start((char *)blocks[i] + size / 2, NULL) == blocks[i]);
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
  for (size_t i = 0; i < 20000; i++) {
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
    must(os_fake.calls == calls + (heap->zero_on_free ? 3 : 0));   /* the memory is kept for the next round; the large blocks are wiped */
    must(figures(heap).live_blocks == 0 && figures(heap).cached_bytes == 0);
    must(!pool_in_use(blocks[0]) && check_everything());
  }
  pool_heap_destroy(heap);
}

static bool count_block(const pool_block_t *block, void *context)
{
  size_t *count = context;
  must(block->size >= 200 && pool_in_use(block->start));
  ++*count;
  return *count != 17;
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
  for (size_t turn = 0; turn < 40; turn++) {
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

static void blocks_of_all_sizes_test(void **state) { (void)state; for_each_kind(blocks_of_all_sizes); }
static void random_traffic_test(void **state) { (void)state; for_each_kind(random_traffic); }
static void resets_test(void **state) { (void)state; for_each_kind(resets); }
static void walks_test(void **state) { (void)state; for_each_kind(walks); }
static void come_and_go_test(void **state) { (void)state; for_each_kind(come_and_go); }

/* ---- budgets ---- */

static size_t usable_of(size_t count)
{
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += pool_usable_size(blocks[i]);
  return bytes;
}

static void what_a_budget_is_good_for(void **state)
{
  static const struct { size_t budget; unsigned percent; } promised[] = {{256 << 10, 85}, {4 << 20, 92}};
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < 2; i++) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = promised[i].budget});
    static void *many[1 << 17];
    size_t n = 0, bytes = 0;
    while ((many[n] = pool_heap_alloc(heap, 100)) != NULL)
      bytes += pool_usable_size(many[n++]);
    assert_true(bytes * 100 >= promised[i].budget * promised[i].percent);
    assert_true(figures(heap).held_bytes <= promised[i].budget && figures(heap).exhausted_count == 1);
    pool_heap_destroy(heap);
  }
}

static void what_memory_is_good_for(void **state)
{
  static const struct { size_t size, served; } promised[] = {{16 << 10, 180}, {64 << 10, 900}, {1 << 20, 15500}};
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < 3; i++)
    for (size_t skew = 0; skew < 64; skew += 7) {
      uint64_t calls = os_fake.calls;
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer + skew, .memory_size = promised[i].size});
      size_t count = fill(heap, 64, BLOCKS);
      assert_true(count >= promised[i].served);
      for (size_t j = 0; j < count; j++)
        assert_true((char *)blocks[j] >= buffer + skew && (char *)blocks[j] + 64 <= buffer + skew + promised[i].size);
      free_all(heap, count);
      assert_int_equal(os_fake.calls, calls);           /* the system was never asked */
      check_everything();
      pool_heap_destroy(heap);
    }
}

static void parents(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *top = heap_new(&(pool_heap_options_t){.budget = 30 << 20});
  pool_heap_t *middle = heap_new(&(pool_heap_options_t){.parent = top});
  pool_heap_t *a = heap_new(&(pool_heap_options_t){.parent = middle, .budget = 20 << 20});
  pool_heap_t *b = heap_new(&(pool_heap_options_t){.parent = middle, .budget = 20 << 20});
  size_t in_a = fill(a, 10000, BLOCKS), in_b = fill(b, 10000, BLOCKS);
  assert_true(in_a > in_b && in_b > 500);
  assert_true(figures(top).held_bytes <= 30 << 20 && figures(top).held_bytes > 28 << 20);
  assert_int_equal(figures(top).peak_held_bytes, figures(top).held_bytes);
  check_everything();
  pool_heap_destroy(b);
  pool_heap_reset(a);
  pool_heap_trim(a, 0);
  assert_true(figures(top).held_bytes < 1 << 20);
  pool_heap_destroy(a);
  pool_heap_destroy(middle);
  check_everything();
  pool_heap_destroy(top);
}

/* A heap whose budget was raised when its region was full has records of new classes in the process's space: they end with it. */
static void records_beyond_the_region(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_destroy(heap_new(NULL));
  size_t before = space_of_process.used_units;
  for (size_t i = 0; i < 20; i++) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 256 << 10});
    while (pool_heap_alloc(heap, 64)) {
    }
    assert_true(pool_heap_set_budget(heap, 16 << 20));
    for (size_t size = 16; size <= 8192; size += size / 16 + 16)
      assert_non_null(pool_heap_alloc(heap, size));
    check_everything();
    pool_heap_destroy(heap);
    check_everything();
  }
  assert_int_equal(space_of_process.used_units, before);
}

/* All classes' records fit into a reserve beside its blocks. */
static void records_beside_a_reserve(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.reserve = 32 << 20});
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    assert_non_null(pool_heap_alloc(heap, size_class_size(c)));
  size_t units = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    units += heap->bins[c]->held_bytes / UNIT;
  assert_int_equal(heap->own_space.used_units, units);
  check_everything();
  pool_heap_destroy(heap);
}

/* Large free blocks beside live ones: told to keep nothing, a trim gives their memory back, but not in checked heaps, which
 * look at what they hold. */
static void trims_inside_slabs(void **state)
{
  (void)state;
  os_fake_heal();
  for (unsigned checked = 0; checked <= POOL_HEAP_CHECKED; checked += POOL_HEAP_CHECKED) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = checked});
    size_t count = fill(heap, 20000, 400);
    for (size_t i = 0; i < count; i++)
      if (i % 8)
        pool_heap_free(heap, blocks[i]);
    check_everything();
    pool_heap_trim(heap, SIZE_MAX / 2);
    size_t given = pool_heap_trim(heap, 0);
    assert_int_equal(given > 100000, !checked);
    assert_int_equal(pool_heap_trim(heap, 0), 0);
    check_everything();
    for (size_t i = 0; i < count; i++)
      if (i % 8)
        assert_non_null(pool_heap_alloc(heap, 20000));
    check_everything();
    pool_heap_destroy(heap);
  }
}

/* What is idle in a heap's own region goes back with time, as it does in the process's space, while the heap is used a little. */
static void regions_are_ticked(void *options)
{
  enum { KEPT_UNITS = 16, LITTLE = 400 };
  os_fake_heal();
  pool_heap_t *heap = heap_new(options);
  space_t *space = &heap->own_space;
  must(space->fixed && space->purgeable);
  free_all(heap, fill(heap, 1000, 2500));
  for (size_t i = 0; i < 1000; i++) {
    os_fake.now_ms += 30;
    free_all(heap, fill(heap, 1000, LITTLE));
    pool_free(pool_alloc(40000));
  }
  must(space_dirty_bytes(space) <= (size_t)KEPT_UNITS << space->unit_log2 && check_everything());
  pool_heap_destroy(heap);
}
WITH(regions_are_ticked, pool_heap_options_t, {.budget = 3 << 20}, {.budget = 8 << 20}, {.reserve = 30 << 20})

/* Whoever lowers a budget, or asks for more than there is, gets no magazines of heaps that it did not ask: one of these may be ending in
 * another thread, which has taken all threads' magazines of it back already. */
static void *fill_and_free(void *heap)
{
  free_all(heap, fill(heap, 1000, 3000));
  return NULL;
}

static void no_magazines_of_children(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds_of_child[] = {{0}, {.budget = 4 << 20}, {.budget = 12 << 20}, {.reserve = 1 << 20}};
  os_fake_heal();
  for (size_t i = 0; i < sizeof kinds_of_child / sizeof *kinds_of_child; i++) {
    pthread_t thread;
    pool_heap_t *parent = heap_new(&(pool_heap_options_t){.budget = 16 << 20}), *middle = heap_new(&(pool_heap_options_t){.parent = parent});
    pool_heap_options_t options = kinds_of_child[i];
    options.parent = middle;
    pool_heap_t *child = heap_new(&options);
    assert_int_equal(pthread_create(&thread, NULL, fill_and_free, child), 0);
    pthread_join(thread, NULL);
    pool_free(pool_alloc(100));
    assert_false(pool_heap_set_budget(parent, 1000));
    while (pool_heap_alloc(parent, 1000)) {
    }
    pool_heap_trim(parent, 0);
    assert_non_null(thread_current());
    assert_null(thread_magazines_if_any(thread_current(), child));
    assert_null(thread_magazines_if_any(thread_current(), middle));
    pool_heap_destroy(child);
    pool_heap_destroy(middle);
    pool_heap_destroy(parent);
  }
}

static void changing_the_budget(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 16 << 20});
  size_t count = fill(heap, 1000, 5000);
  assert_int_equal(count, 5000);
  assert_false(pool_heap_set_budget(heap, 1 << 20));
  assert_int_equal(figures(heap).budget, 16 << 20);
  free_all(heap, count);
  assert_true(pool_heap_set_budget(heap, 1 << 20));
  assert_true(fill(heap, 1000, 5000) < 1100);
  assert_true(pool_heap_set_budget(heap, 0));
  assert_int_equal(fill(heap, 1000, 5000), 5000);
  check_everything();
  pool_heap_destroy(heap);
}

/* Wherever the system puts a region its blocks are as aligned as was asked. */
static void aligned_in_any_region(void *options)
{
  os_fake_heal();
  for (size_t turn = 0; turn < 3; turn++) {
    pool_heap_t *heap = heap_new(options);
    for (size_t alignment = 16; alignment <= 64 * KIB; alignment *= 2)
      for (size_t size = 1; size < 70000; size = size * 7 + 3) {
        void *block = pool_heap_aligned_alloc(heap, alignment, size);
        must((uintptr_t)block % alignment == 0);
        pool_heap_free(heap, block);
        for (size_t i = 0; i < 4 && block; i++) {
          must((block = pool_heap_aligned_alloc(heap, alignment, size)) == NULL || (uintptr_t)block % alignment == 0);
          blocks[i] = block;
        }
        for (size_t i = 0; i < 4; i++)
          pool_heap_free(heap, blocks[i]);
        memset(blocks, 0, 4 * sizeof *blocks);
      }
    check_everything();
    pool_heap_destroy(heap);
  }
}

static void aligned_in_any_region_test(void **state) { (void)state; for_each_kind(aligned_in_any_region); }

/* ---- exhaustion ---- */

typedef struct helper {
  unsigned calls, last_attempt, yes;
  size_t   bytes;
  size_t   frees;
} helper_t;

static bool help(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  helper_t *helper = context;
  helper->calls++;
  helper->last_attempt = attempt;
  helper->bytes = bytes_needed;
  for (size_t i = 0; i < helper->frees; i++)
    pool_heap_free(heap, blocks[i]);
  helper->frees = 0;
  errno = EIO;   /* of something it has tried on its way */
  return helper->calls <= helper->yes;
}

static void asked_for_help(void **state)
{
  (void)state;
  os_fake_heal();
  helper_t helper = {.yes = 1000};
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 1 << 20, .on_exhausted = help, .context = &helper});
  size_t count = fill(heap, 500, BLOCKS);
  assert_true(count > 1500);
  assert_true(helper.calls == 64 && helper.last_attempt == 63 && helper.bytes == 500);
  assert_true(figures(heap).retried_count == 64 && figures(heap).exhausted_count == 1);
  helper = (helper_t){.yes = 0};
  assert_null(pool_heap_alloc(heap, 500));
  assert_int_equal(helper.calls, 1);
  helper = (helper_t){.yes = 1, .frees = 100};
  errno = 77;
  assert_non_null(pool_heap_alloc(heap, 500));
  assert_true(helper.calls == 1 && errno == 77);
  check_everything();
  pool_heap_destroy(heap);
}

/* Also where another heap serves in the end, whatever was done to the block. */
static void success_keeps_errno(void **state)
{
  (void)state;
  os_fake_heal();
  helper_t helper = {.yes = 0};
  pool_heap_options_t options = {.budget = 64 << 10, .on_exhausted = help, .context = &helper, .overflow = pool_heap_default()};
  pool_heap_t *heap = heap_new(&options);
  for (size_t size = 100; size < 10 * MIB; size *= 3) {
    errno = 77;
    char *block = pool_heap_alloc(heap, size), *zeroed = pool_heap_zalloc(heap, size);
    char *aligned = pool_heap_aligned_alloc(heap, 256, size);
    block = pool_heap_realloc(heap, block, size * 2);
    assert_true(block && zeroed && aligned && errno == 77);
    pool_free(block);
    pool_free(zeroed);
    pool_free(aligned);
  }
  assert_true(helper.calls > 10);
  pool_heap_destroy(heap);
}

static void overflowing(void *options)
{
  os_fake_heal();
  pool_heap_t *last = heap_new(options);
  pool_heap_t *next = heap_new(&(pool_heap_options_t){.budget = 32 << 10, .overflow = last});
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = 64 << 10, .overflow = next});
  size_t count = fill(heap, 200, 900), mine = 0, others = 0;
  for (size_t i = 0; i < count; i++) {
    mine += pool_heap_of(blocks[i]) == heap;
    others += pool_heap_of(blocks[i]) == next;
  }
  must(mine > 100 && others > 50 && count > mine + others);
  must(figures(heap).overflowed_count == count - mine && check_everything());
  verify(200, count);
  for (size_t i = 0; i < count; i += 3) {
    void *moved = pool_heap_realloc(heap, blocks[i], 250);
    must(!moved || pattern_kept(moved, 200, 200, i));
    blocks[i] = moved ? moved : blocks[i];
  }
  free_all(heap, count);
  must(figures(heap).live_blocks == 0 && figures(next).live_blocks == 0 && figures(last).live_blocks == 0 && check_everything());
  pool_heap_destroy(heap);
  pool_heap_destroy(next);
  pool_heap_destroy(last);
}

static void overflowing_test(void **state) { (void)state; for_each_kind(overflowing); }

/* The buffer may itself be a block of another heap, and then what is in it is the inner heap's. */
static void memory_from_a_block(void *argument)
{
  (void)argument;
  os_fake_heal();
  for (size_t size = 20000; size <= 3 * MIB; size *= 4) {
    void *memory = pool_alloc(size);
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.memory = memory, .memory_size = size});
    size_t count = fill(heap, 100, BLOCKS);
    must(count > 100 && pool_heap_of(blocks[0]) == heap);
    verify(100, count);
    free_all(heap, count);
    pool_heap_destroy(heap);
    pool_free(memory);
    must(check_everything());
  }
}

static void memory_from_a_block_test(void **state)
{
  (void)state;
  in_child(memory_from_a_block, NULL);
}

/* What could not be had is not counted, and nothing of it is kept. */
static void huge_in_vain(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(NULL);
  void *block = pool_heap_alloc(heap, 300 * MIB);
  assert_non_null(block);
  pool_trim(0);   /* which is tried first */
  size_t mapped = os_fake.mapped_bytes, held = figures(heap).held_bytes;
  os_fake.fail_kinds = 1 << OS_MAP | 1 << OS_REMAP;
  assert_null(pool_heap_alloc(heap, 300 * MIB));
  assert_null(pool_heap_realloc(heap, block, 400 * MIB));
  os_fake_heal();
  assert_int_equal(os_fake.mapped_bytes, mapped);
  assert_int_equal(figures(heap).held_bytes, held);
  pool_heap_destroy(heap);
  assert_int_equal(os_fake.mapped_bytes, mapped - 300 * MIB);
}

/* ---- flags ---- */

static void zero_on_free(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  for (size_t size = 10; size < 200 * KIB; size *= 3) {
    char *block = pool_heap_alloc(heap, size);
    size_t usable = pool_usable_size(block);
    memset(block, 7, usable);
    pool_heap_free(heap, block);
    assert_true(all_zero(block, usable));
  }
  pool_heap_destroy(heap);
}

/* A large block is zero when it is back, in pieces too, whether the system wipes it or not; what was never touched stays so. */
static void zero_large_on_free(void *argument)
{
  pool_heap_options_t options = *(const pool_heap_options_t *)argument;
  os_fake_heal();
  options.flags |= POOL_HEAP_ZERO_ON_FREE;
  pool_heap_t *heap = heap_new(&options);
  for (int refused = 0; refused < 3; refused++)
    for (size_t size = 300000; size < 12 * MIB; size = size * 5 / 2 + 4097) {
      os_fake.fail_kinds = refused ? 1 << OS_PURGE : 0;
      os_fake.fail_halfway = refused == 2;
      char *outer = pool_heap_alloc(heap, size);
      if (!outer)
        break;
      size_t usable = pool_usable_size(outer), less = usable / 2 + 100;
      memset(outer, 7, usable);
      if (pool_resize_in_place(outer, less)) {
        size_t has = pool_usable_size(outer);
        must(outer[less - 1] == 7 && all_zero(outer + less, has - less));
        usable = has;
      }
      pool_heap_free(heap, outer);
      os_fake_heal();
      must(size > 4 * MIB || all_zero(outer, usable));
    }
  uint64_t purges = os_fake.count[OS_PURGE];
  char *block = pool_heap_alloc(heap, MIB);
  pool_heap_free(heap, block);
  bool in_the_way = options.memory || options.flags & POOL_HEAP_PREFAULT;
  must((os_fake.count[OS_PURGE] == purges) == in_the_way);
  pool_heap_destroy(heap);
}
WITH(zero_large_on_free, pool_heap_options_t, {0}, {.budget = 60 << 20}, {.reserve = 30 << 20}, {.reserve = 6 << 20}, {.reserve = 3 << 20, .budget = 3 << 20},
     {.reserve = 30 << 20, .flags = POOL_HEAP_PREFAULT}, {.memory = buffer, .memory_size = sizeof buffer})

/* Of 64 MiB one byte was written to: no more than some pages become memory. */
static void zero_untouched_on_free(void *argument)
{
  enum { PAGES = 64 << 20 >> 12 };
  static unsigned char there[PAGES];
  (void)argument;
  os_fake_heal();
  space_of_process.purge_delay_ms = 1000000;
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  char *block = pool_heap_zalloc(heap, 64 << 20);
  block[5] = 1;
  uint64_t purges = os_fake.count[OS_PURGE];
  must(pool_resize_in_place(block, 32 << 20) && os_fake.count[OS_PURGE] > purges);
  must(mincore(block, 32 << 20, there) == 0);
  size_t resident = 0;
  for (size_t i = 0; i < PAGES / 2; i++)
    resident += there[i] & 1;
  must(resident < PAGES / 8);
  os_fake.fail_kinds = 1 << OS_UNMAP;   /* to look at it when it is gone */
  pool_heap_reset(heap);
  must(mincore(block, 32 << 20, there) == 0);
  for (size_t i = resident = 0; i < PAGES / 2; i++)
    resident += there[i] & 1;
  must(resident < PAGES / 8);
  os_fake_heal();
  pool_heap_destroy(heap);
}
IN_CHILD(zero_untouched_on_free)

/* Also where a block moves whose pages the system does not move, and what it leaves is kept. */
static void zero_where_it_was(void *argument)
{
  (void)argument;
  os_fake_heal();
  settings.purge_delay_ms = PURGE_NEVER;
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  char *behind, *block = pool_heap_alloc(heap, 20 * MIB);
  memset(block, 7, 20 * MIB);
  os_fake.fail_kinds = 1 << OS_REMAP;
  char *moved = pool_heap_realloc(heap, block, 60 * MIB);
  must(moved && moved != block && moved[0] == 7 && moved[20 * MIB - 1] == 7);
  os_fake_heal();
  while ((behind = pool_alloc(20 * MIB)) != NULL && behind != block)
    must(all_zero(behind, 20 * MIB));
  must(behind == block && all_zero(behind, 20 * MIB));
}
IN_CHILD(zero_where_it_was)

/* What was reserved can be had without the system. */
static void reserved(void **state)
{
  (void)state;
  os_fake_heal();
  for (unsigned flags = 0; flags <= POOL_HEAP_PREFAULT; flags += POOL_HEAP_PREFAULT) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.reserve = 4 << 20, .flags = flags | POOL_HEAP_SINGLE_THREAD});
    fill(heap, 1000, 1);
    pool_heap_free(heap, blocks[0]);
    os_fake.refuse = true;
    size_t count = fill(heap, 1000, BLOCKS);
    assert_true(usable_of(count) >= (4 << 20) * 97 / 100);
    os_fake_heal();
    check_everything();
    pool_heap_destroy(heap);
  }
}

static void forbidden_calls(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.reserve = 1 << 20, .flags = POOL_HEAP_PREFAULT | POOL_HEAP_SINGLE_THREAD});
  uint64_t calls = os_fake.calls;
  assert_false(pool_forbid_system_calls(true));
  size_t count = fill(heap, 3000, BLOCKS);
  free_all(heap, count);
  assert_true(pool_forbid_system_calls(false));
  assert_true(count > 300);
  assert_int_equal(os_fake.calls, calls);
  pool_heap_destroy(heap);
}

/* ---- options, names, misuse ---- */

static void bad_options(void **state)
{
  static const size_t not_sixteen[] = {16, 40}, not_ascending[] = {32, 16}, too_large[] = {16, 262160}, none[] = {0};
  static const pool_heap_options_t bad[] = {
    {.flags = 1u << 20},
    {.memory = buffer},
    {.memory_size = 10000},
    {.memory = buffer, .memory_size = 100},
    {.memory = buffer, .memory_size = 1 << 20, .reserve = 1000},
    {.budget = 1000, .reserve = 2000},
    {.budget = 100},
    {.flags = POOL_HEAP_PREFAULT},
    {.flags = POOL_HEAP_LOCK_MEMORY},
    {.size_classes = not_sixteen, .size_class_count = 2},
    {.size_classes = not_ascending, .size_class_count = 2},
    {.size_classes = too_large, .size_class_count = 2},
    {.size_classes = none, .size_class_count = 1},
    {.size_classes = not_sixteen, .size_class_count = 0},
    {.size_class_count = 1},
    {.reserve = SIZE_MAX},
  };
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    errno = 0;
    assert_null(pool_heap_create(&bad[i]));
    if (errno != EINVAL)
      print_error("options %zu: errno %d\n", i, errno);
    assert_int_equal(errno, EINVAL);
  }
  check_everything();
}

/* A buffer is refused, or it serves at least one block, whatever the classes. */
static void just_enough_memory(void **state)
{
  static size_t sizes[104];
  static const struct { size_t first, count; } tables[] = {{0, 0}, {16, 1}, {16, 10}, {16, 104}, {512, 1}, {4096, 60}, {16384, 1}, {65536, 2}};
  (void)state;
  os_fake_heal();
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (size_t size = 2000, good = 0; size < 200000; size += size < 12000 ? 16 : 1000) {
      for (size_t i = 0; i < tables[t].count; i++)
        sizes[i] = tables[t].first + 16 * i;
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer, .memory_size = size, .size_classes = tables[t].count ? sizes : NULL,
                                                                  .size_class_count = tables[t].count});
      assert_true(heap || errno == EINVAL);
      if (heap) {
        assert_non_null(pool_heap_alloc(heap, 1));
        pool_heap_destroy(heap);
        good++;
      }
      assert_true(good || size < 199000);
    }
}

static void no_heap(void **state)
{
  (void)state;
  pool_heap_destroy(NULL);
  pool_heap_reset(NULL);
  errno = 0;
  assert_null(pool_heap_alloc(NULL, 10));
  assert_int_equal(errno, EINVAL);
  errno = 0;
  assert_false(pool_heap_set_budget(NULL, 10));
  assert_int_equal(errno, EINVAL);
  assert_int_equal(pool_heap_trim(NULL, 0), 0);
  assert_false(pool_heap_walk(NULL, count_block, NULL));
}

static void names(void **state)
{
  (void)state;
  os_fake_heal();
  char name[] = "a name that is longer than the thirty-one bytes there are";
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.name = name}), *other = heap_new(NULL);
  memset(name, 'x', sizeof name - 1);
  assert_string_equal(pool_heap_name(heap), "a name that is longer than the ");
  assert_int_equal(strncmp(pool_heap_name(other), "heap-", 5), 0);
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
}

static void use_destroyed(void *heap) { if (pool_heap_alloc(heap, 10)) return; }
static void reset_default(void *heap) { pool_heap_reset(heap); }
static void destroy_default(void *heap) { pool_heap_destroy(heap); }

static void free_twice(void *heap)
{
  void *block = pool_heap_alloc(heap, 300000);
  pool_heap_free(heap, block);
  pool_heap_free(heap, block);
}

static void free_of_another(void *heap) { pool_heap_free(heap, pool_alloc(100)); }

static void misuse(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(NULL), *gone = heap_new(NULL);
  pool_heap_destroy(gone);
  aborts_with(use_destroyed, gone, "pool_heap_alloc(0x");
  aborts_with(use_destroyed, gone, "not a live heap");
  aborts_with(reset_default, pool_heap_default(), "the default heap");
  aborts_with(destroy_default, pool_heap_default(), "the default heap");
  aborts_with(free_twice, heap, "tidepool: pool_heap_free(0x");
  aborts_with(free_of_another, heap, "a block of another heap");
  pool_heap_destroy(heap);
}

/* ---- threads ---- */

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

/* ---- memory of a reserve that the system would not take ---- */

static void destroy_forbidden(pool_heap_t *heap)
{
  pool_forbid_system_calls(true);
  pool_heap_destroy(heap);
  pool_forbid_system_calls(false);
}

static void destroy_refused(pool_heap_t *heap)
{
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_PURGE;
  pool_heap_destroy(heap);
  os_fake_heal();
}

static void destroy_at_limit(pool_heap_t *heap)   /* of mappings */
{
  os_fake.fail_kinds = 1 << OS_UNMAP;
  pool_heap_destroy(heap);
  os_fake_heal();
}

static void give_by_trim(void) { must(pool_trim(0) > 0); }
static void give_by_trim_of_another(void) { pool_heap_trim(shared, SIZE_MAX); }

static void give_by_tick(void)
{
  os_fake.now_ms += 1000000;
  heap_look_at_clock(thread_current());
}

static void give_to_a_new_heap(void)
{
  os_fake.fail_from = os_fake.calls + 1;   /* the records, as a step and as no more than needed */
  os_fake.fail_to = os_fake.fail_from + 2;
  pool_heap_destroy(heap_new(&(pool_heap_options_t){.reserve = 20 << 20}));
  must(os_fake.failed > 0);
}

typedef struct late_end {
  void (*destroy)(pool_heap_t *heap);
  void (*give)(void);
  bool memory_went;
} late_end_t;

/* It is held and idle until the system takes it, and its slots are nobody else's. */
static void taken_later(void *argument)
{
  const late_end_t *end = argument;
  os_fake_heal();
  shared = heap_new(NULL);
  pool_heap_destroy(heap_new(&(pool_heap_options_t){.reserve = 200 << 20}));   /* the map of so many slots */
  pool_trim(0);
  size_t mapped = os_fake.mapped_bytes, idle = figures(pool_heap_default()).idle_bytes, held = figures(pool_heap_default()).held_bytes;
  size_t more = 0;
  for (size_t turn = 0; turn < 3; turn++) {
    heap_t *ended = heap_new(&(pool_heap_options_t){.reserve = 20 << 20, .flags = turn ? POOL_HEAP_PREFAULT : 0});
    more += end->memory_went ? 0 : ended->region_size;
    end->destroy(ended);
  }
  must(figures(pool_heap_default()).idle_bytes >= idle + more && figures(pool_heap_default()).held_bytes >= held + more);
  must(figures(pool_heap_default()).idle_bytes <= idle + more + MIB);
  pool_heap_t *other = heap_new(&(pool_heap_options_t){.reserve = 20 << 20});
  free_all(other, fill(other, 1000, BLOCKS));
  pool_heap_destroy(other);
  must(os_fake.mapped_bytes >= mapped + (60 << 20) && check_everything());
  end->give();
  must(os_fake.mapped_bytes <= mapped + MIB && check_everything());
  must(figures(pool_heap_default()).idle_bytes <= idle + MIB && figures(pool_heap_default()).held_bytes <= held + MIB);
  pool_heap_destroy(heap_new(&(pool_heap_options_t){.reserve = 20 << 20}));
}
WITH(taken_later, late_end_t, {destroy_forbidden, give_by_trim, false}, {destroy_refused, give_by_trim, false}, {destroy_at_limit, give_by_trim, true},
     {destroy_forbidden, give_by_trim_of_another, false}, {destroy_refused, give_by_tick, false}, {destroy_at_limit, give_by_tick, true},
     {destroy_refused, give_to_a_new_heap, false})

/* ---- a creation that fails beside somebody who looks at the region already ---- */

static bool looking;

static void *look(void *argument)
{
  (void)argument;
  lock_acquire(&heaps_lock);
  __atomic_store_n(&looking, true, __ATOMIC_RELEASE);
  usleep(20000);
  __atomic_store_n(&looking, false, __ATOMIC_RELEASE);
  lock_release(&heaps_lock);
  return NULL;
}

static void while_it_fails(os_call_t kind)
{
  static pthread_t thread;
  static bool started;
  if (kind == OS_LOCK_MEMORY && !started) {
    started = pthread_create(&thread, NULL, look, NULL) == 0;
    must(started && pthread_detach(thread) == 0);
    while (!__atomic_load_n(&looking, __ATOMIC_ACQUIRE))
      usleep(100);
  }
  must((kind != OS_UNMAP && kind != OS_PURGE) || !__atomic_load_n(&looking, __ATOMIC_ACQUIRE));
}

/* Its memory goes when they have finished. */
static void fails_beside_a_question(void *argument)
{
  const size_t *reserve = argument;
  os_fake_heal();
  pool_free(pool_alloc(1));
  size_t mapped = os_fake.mapped_bytes;
  os_fake.fail_kinds = 1 << OS_LOCK_MEMORY;
  os_fake.during = while_it_fails;
  must(!pool_heap_create(&(pool_heap_options_t){.reserve = *reserve, .flags = POOL_HEAP_LOCK_MEMORY}) && errno == ENOMEM);
  must(!looking);
  os_fake_heal();
  must(check_everything());
  pool_trim(0);
  must(os_fake.mapped_bytes <= mapped + MIB);
}
WITH(fails_beside_a_question, size_t, 20 << 20, 6 << 20, 4 << 20)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_of_all_sizes_test),
    cmocka_unit_test(random_traffic_test),
    cmocka_unit_test(resets_test),
    cmocka_unit_test(walks_test),
    cmocka_unit_test(come_and_go_test),
    cmocka_unit_test(what_a_budget_is_good_for),
    cmocka_unit_test(what_memory_is_good_for),
    cmocka_unit_test(parents),
    cmocka_unit_test(records_beyond_the_region),
    cmocka_unit_test(records_beside_a_reserve),
    cmocka_unit_test(trims_inside_slabs),
    cmocka_unit_test(regions_are_ticked_test),
    cmocka_unit_test(no_magazines_of_children),
    cmocka_unit_test(changing_the_budget),
    cmocka_unit_test(aligned_in_any_region_test),
    cmocka_unit_test(asked_for_help),
    cmocka_unit_test(success_keeps_errno),
    cmocka_unit_test(overflowing_test),
    cmocka_unit_test(memory_from_a_block_test),
    cmocka_unit_test(huge_in_vain),
    cmocka_unit_test(zero_on_free),
    cmocka_unit_test(zero_where_it_was_test),
    cmocka_unit_test(zero_large_on_free_test),
    cmocka_unit_test(zero_untouched_on_free_test),
    cmocka_unit_test(just_enough_memory),
    cmocka_unit_test(reserved),
    cmocka_unit_test(forbidden_calls),
    cmocka_unit_test(bad_options),
    cmocka_unit_test(no_heap),
    cmocka_unit_test(names),
    cmocka_unit_test(misuse),
    cmocka_unit_test(many_threads_one_budget),
    cmocka_unit_test(destroy_while_threads_end_test),
    cmocka_unit_test(taken_later_test),
    cmocka_unit_test(fails_beside_a_question_test),
  };
  return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
