/* SPDX-License-Identifier: MIT
 * Blocks that are in a profile: they are like any other, also for realloc(), so that they stand for those that are not. */
#include "heap/heap.h"
#include "profiles.h"

/* ---- realloc ---- */

/* Buffers that grow as those of strings and vectors do, and some of them shrink: what is live of each final size is what there
 * is, whether the blocks on the way were samples or not. The sum of blocks that differ in length deviates more than that of
 * equal ones. */
static void grown(pool_heap_t *heap, size_t first, size_t last, double by, int count)
{
  enum { MEAN = 4096 };
  double truth = 0, allocated = 0;
  void **buffers = pool_zalloc((size_t)count * sizeof *buffers);
  begin(MEAN);
  profile_sums_t before = profile_of(heap, NULL);
  for (int i = 0; i < count; i++) {
    size_t size = first;
    must(buffers[i] = pool_heap_realloc(heap, NULL, size));
    for (allocated += (double)size; size < last; allocated += (double)size)
      must(buffers[i] = pool_heap_realloc(heap, buffers[i], size = (size_t)((double)size * by)));
    if (i % 2)
      must(buffers[i] = pool_heap_realloc(heap, buffers[i], size = first)), allocated += (double)size;
    truth += (double)size;
  }
  profile_sums_t sums = profile_of(heap, NULL);
  assert_near(sums.live_bytes - before.live_bytes, truth, truth / MEAN / 4);
  assert_near(sums.bytes - before.bytes, allocated, allocated / MEAN / 4);
  for (int i = 0; i < count; i++)
    pool_heap_free(heap, buffers[i]);
  pool_profile_stop();
  pool_free(buffers);
  assert_true(check_everything());
}

static void grown_buffers(void **state)
{
  (void)state;
  static const size_t sizes[] = {64, 256, 1024, 4096, 20000};
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "grown"});
  pool_heap_t *classes = heap_with((pool_heap_options_t){.name = "classes", .size_classes = sizes, .size_class_count = 5});
  pool_heap_t *of[] = {pool_heap_default(), heap, classes, heap_with((pool_heap_options_t){.flags = POOL_HEAP_SITES})};
  for (size_t i = 0; i < COUNT_OF(of); i++) {
    grown(of[i], 50, 3000, 4, 20000); /* from one of its classes to the next */
    if (of[i] != classes)
      grown(of[i], 100, 300000, 1.5, 500);
    if (i)
      pool_heap_destroy(of[i]);
  }
}

/* Buffers to which little is added at a time: most calls leave them where they are, and of those that stay nothing is counted.
 * So what is live is known with the sizes to which they last moved, which are at most an eighth less. */
static void appended_buffers(void **state)
{
  (void)state;
  enum { COUNT = 3000, STEP = 8, LAST = 3000, MEAN = 4096 };
  static void *buffers[COUNT];
  begin(MEAN);
  for (size_t i = 0; i < COUNT; i++)
    for (size_t size = STEP; size <= LAST; size += STEP)
      must(buffers[i] = pool_realloc(buffers[i], size));
  double live = profile_of(NULL, NULL).live_bytes, truth = (double)COUNT * LAST;
  assert_true(live > truth * 7 / 8 * .85 && live < truth * 1.15); /* three times the deviation of some 1,500 samples */
  for (size_t i = 0; i < COUNT; i++)
    pool_free(buffers[i]);
  pool_profile_stop();
}

/* Neither a sample nor another block changes when nothing does, or less than makes it move. */
static void not_resized(void **state)
{
  (void)state;
  static const size_t sizes[] = {100, 5000, 40000, 300000, 3 << 20, 100 << 20};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    begin(1);
    char *block = small_here(sizes[i]);
    size_t usable = pool_usable_size(block);
    pool_profile_stop();
    char *plain = small_here(sizes[i]);
    assert_int_equal(usable, pool_usable_size(plain));
    begin(1);
    for (int n = 0; n < 10; n++) {
      block = grown_here(block, n % 2 ? usable : sizes[i]);
      assert_int_equal(pool_usable_size(block), usable);
    }
    char *smaller = grown_here(block, usable - usable / 20), *plain_smaller = grown_here(plain, usable - usable / 20);
    assert_true(smaller == block && plain_smaller == plain && pool_usable_size(block) == pool_usable_size(plain));
    assert_true(profile_of(NULL, NULL).blocks <= 2 * (usable > 40000));
    block = grown_here(block, usable / 2);
    plain = grown_here(plain, usable / 2);
    assert_int_equal(pool_usable_size(block), pool_usable_size(plain));
    assert_true(profile_of(NULL, NULL).in_profile == 2);
    pool_free(block);
    pool_free(plain);
    pool_profile_stop();
  }
}

/* ---- what blocks are like ---- */

/* Every allocation, of whatever size and alignment, with all blocks in the profile and with some of them. */
static void as_any(uint64_t sample_bytes)
{
  dice_t dice = {sample_bytes};
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "any"}), *default_heap_ = pool_heap_default();
  void *slots[200] = {0};
  size_t sizes[200];
  begin(sample_bytes);
  for (int i = 0; i < 20000; i++) {
    size_t at = dice_below(&dice, 200), size = dice_below(&dice, (size_t)1 << dice_below(&dice, 19)),
           alignment = (size_t)1 << dice_below(&dice, 17);
    pool_heap_t *of = at % 2 ? heap : default_heap_;
    if (slots[at]) {
      must(pattern_holds(slots[at], sizes[at], at) && pool_in_use(slots[at]) && pool_heap_of(slots[at]) == of);
      must(pool_usable_size(slots[at]) >= sizes[at]);
    }
    switch (dice_below(&dice, 5)) {
    case 0: {
      char *grown = pool_heap_realloc(of, slots[at], size + 1);
      must(grown && (!slots[at] || pattern_kept(grown, min_size(sizes[at], size + 1), sizes[at], at)));
      slots[at] = grown;
      size++;
      break;
    }
    case 1:
      pool_heap_free(of, slots[at]);
      must(slots[at] = pool_heap_zalloc(of, size));
      must(all_zero(slots[at], pool_usable_size(slots[at])));
      break;
    case 2:
      pool_heap_free(of, slots[at]);
      must(slots[at] = pool_heap_aligned_alloc(of, alignment, size));
      must((uintptr_t)slots[at] % alignment == 0);
      break;
    case 3:
      pool_free(slots[at]);
      must(slots[at] = at % 2 ? pool_heap_calloc(of, 1, size) : pool_calloc(1, size));
      must(all_zero(slots[at], pool_usable_size(slots[at])));
      break;
    default:
      pool_heap_free(of, slots[at]);
      must(slots[at] = pool_heap_alloc(of, size));
    }
    sizes[at] = size;
    pattern_write(slots[at], sizes[at], at);
    if (i % 1000 == 500)
      must(check_everything());
  }
  for (size_t i = 0; i < 200; i++)
    pool_free(slots[i]);
  must(profile_of(NULL, NULL).in_profile == 0);
  pool_profile_stop();
  pool_heap_destroy(heap);
}

static void any_blocks(void **state)
{
  (void)state;
  as_any(1);
  as_any(3000);
}

/* A sample is larger than what was asked for, so a caller that frees it by its size is right. */
static void freed_by_size(uint64_t sample_bytes)
{
  enum { SIZE_MOST = 70000 };
  begin(sample_bytes);
  for (size_t size = 0; size < SIZE_MOST; size += size < 300 ? 1 : size / 7) {
    pool_free_sized(small_here(size), size);
    pool_free_sized(zeroed_here(size), size);
    pool_free_sized(pool_calloc(1, size), size);
    pool_free_sized(grown_here(small_here(size / 2), size + 1), size + 1);
    pool_free_sized(grown_here(small_here(size + 1), size + 9), size + 9);
    pool_free_sized(grown_here(small_here(2 * size), size + 1), size + 1);
  }
  must(profile_of(NULL, NULL).in_profile == 0);
  pool_profile_stop();
}

static void sized_frees(void **state)
{
  (void)state;
  freed_by_size(1);
  freed_by_size(3000);
  assert_true(check_everything());
}

/* A budget holds, also while a block takes a page of its own; and a heap that is full of such blocks has what it had. */
static void budgets(void **state)
{
  (void)state;
  enum { BUDGET = 16 << 20 };
  pool_heap_t *heap = heap_with_budget(BUDGET);
  list_t list = {0};
  begin(1);
  size_t count = list_exhaust(&list, heap, 64);
  assert_true(count > 1000 && stats_of(heap).held_bytes <= BUDGET && stats_of(heap).peak_held_bytes <= BUDGET);
  assert_true(profile_of(heap, NULL).in_profile > 1000);
  list_free(&list, heap);
  pool_profile_stop();
  assert_true(list_exhaust(&list, heap, 64) > BUDGET / 64 * 9 / 10);
  list_free(&list, heap);
  assert_true(stats_of(heap).live_blocks == 0);
  pool_heap_destroy(heap);
}

static pool_heap_t *heap_of_kind(unsigned flags) { return heap_with((pool_heap_options_t){.name = "kind", .flags = flags}); }

/* Of kinds that other tests are about, here only that they go on as they do. */
static void kinds_of_heaps(void **state)
{
  (void)state;
  static const unsigned flags[] = {POOL_HEAP_CHECKED, POOL_HEAP_SITES, POOL_HEAP_ZERO_ON_FREE, POOL_HEAP_SINGLE_THREAD,
                                   POOL_HEAP_GUARDED};
  static char memory[64 << 10];
  begin(1);
  for (size_t i = 0; i < COUNT_OF(flags); i++) {
    pool_heap_t *heap = heap_of_kind(flags[i]);
    char *block = of_heap_here(heap, 100);
    memset(block, 1, 100);
    assert_true(flags[i] == POOL_HEAP_GUARDED || profile_of(heap, NULL).live_bytes == 100);
    assert_int_equal(stats_of(heap).live_blocks, 1);
    block = pool_heap_realloc(heap, block, 200000);
    assert_true(block && block[99] == 1);
    pool_heap_free(heap, block);
    assert_true(profile_of(heap, NULL).in_profile == 0 && check_heap(heap));
    pool_heap_destroy(heap);
  }
  pool_heap_t *guest = heap_with((pool_heap_options_t){.memory = memory, .memory_size = sizeof memory});
  pool_heap_t *reserved = heap_with((pool_heap_options_t){.reserve = 1 << 20}), *bounded = heap_with_budget(1 << 20);
  must(of_heap_here(guest, 100) && of_heap_here(reserved, 100) && of_heap_here(bounded, 100));
  assert_true(profile_of(guest, NULL).lines + profile_of(reserved, NULL).lines + profile_of(bounded, NULL).lines == 0);
  pool_heap_destroy(guest);
  pool_heap_destroy(reserved);
  pool_heap_destroy(bounded);
  pool_profile_stop();
}

/* Of heaps that come and go, each with a name of its own, there stays what they had in all. */
static void many_names(void **state)
{
  (void)state;
  enum { HEAPS = 3000 };
  begin(1);
  for (int i = 0; i < HEAPS; i++) {
    char name[32];
    snprintf(name, sizeof name, "request %d", i);
    pool_heap_t *heap = heap_with((pool_heap_options_t){.name = name});
    must(of_heap_here(heap, 100) && of_heap_here(heap, 100000));
    must(i % 100 || profile_of(heap, NULL).live_bytes == 100100);
    pool_heap_destroy(heap);
  }
  profile_sums_t sums = profile_of(NULL, NULL);
  assert_true(sums.in_profile == 0 && sums.blocks == 2 * HEAPS && sums.bytes == 100100.0 * HEAPS);
  assert_true(sums.lines < 10);
  for (int i = 0; i < 2; i++) { /* of one name, and with one record */
    pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "again"});
    assert_true(profile_of(heap, NULL).lines == 0);
    must(of_heap_here(heap, 100));
    assert_true(profile_of(heap, NULL).bytes == 100);
    pool_heap_destroy(heap);
  }
  pool_profile_stop();
}

static int load(void **state)
{
  (void)state;
  pool_free(pool_alloc(1));
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(grown_buffers),  cmocka_unit_test(appended_buffers), cmocka_unit_test(not_resized),
    cmocka_unit_test(many_names),     cmocka_unit_test(any_blocks),       cmocka_unit_test(budgets),
    cmocka_unit_test(kinds_of_heaps), cmocka_unit_test(sized_frees),
  };
  return cmocka_run_group_tests_name("profile_blocks", tests, load, NULL);
}
