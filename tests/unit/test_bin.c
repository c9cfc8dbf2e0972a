/* SPDX-License-Identifier: MIT
 * A bin of its own in a region: what goes out comes back, and after each step every block is in one place. */
#include "bin/bin.h"
#include "os_fake.h"
#include "region.h"
#include "unit.h"

enum { BLOCKS = 4000 };

static bin_t bin;
static depot_t depots[DEPOT_SHARDS];
static budget_t budget;

static void pool_new(unsigned c, unsigned unit_log2, size_t bytes)
{
  region_t *region = region_new(unit_log2, bytes);
  os_fake_heal();
  budget = (budget_t){0};
  memset(depots, 0, sizeof depots);
  bin_init(&bin, &(bin_make_t){.size_class = c, .block_size = size_class_size(c), .space = &region->space, .budget = &budget,
                                  .plane = BIN_PLANE_NONE, .depots = depots, .purges = true});
}

static void class_new(unsigned c) { pool_new(c, UNIT_LOG2, REGION_BYTES); }

/* ---- blocks without magazines ---- */

/* Each block once, and all of them inside a slab. */
static void each_block_once(void **state)
{
  (void)state;
  for (unsigned c = 1; c < CLASS_COUNT; c += 3) {
    class_new(c);
    void *block;
    size_t count = 0;
    while (count < BLOCKS && bin_take(&bin, &block, 1, NULL)) {
      memset(block, 1, bin.block_size);
      count++;
    }
    assert_int_equal(bin.outstanding, count);
    assert_int_equal(budget_held(&budget), bin.held_bytes);
    check_bin(&bin);
  }
}

static int by_address(const void *a, const void *b)
{
  const void *const *x = a, *const *y = b;
  return *x < *y ? -1 : *x > *y;
}

static void no_overlap(void **blocks, size_t count)
{
  qsort(blocks, count, sizeof *blocks, by_address);
  for (size_t i = 1; i < count; i++)
    assert_true((char *)blocks[i] >= (char *)blocks[i - 1] + bin.block_size);
}

static void random_batches(void **state)
{
  (void)state;
  static void *blocks[BLOCKS];
  dice_t dice = {4};
  for (unsigned c = 1; c < CLASS_COUNT; c += 9) {
    class_new(c);
    size_t count = 0, most = min_size(BLOCKS, 16 * MIB / bin.block_size);
    for (size_t i = 0; i < 400; i++) {
      size_t n = 1 + dice_below(&dice, 60);
      if (dice_below(&dice, 2)) {
        count += bin_take(&bin, blocks + count, min_size(n, most - count), NULL);
      } else {
        size_t from = count ? dice_below(&dice, count) : 0;
        n = min_size(n, count - from);
        bin_put(&bin, blocks + from, n);
        memmove(blocks + from, blocks + from + n, (count - from - n) * sizeof *blocks);
        count -= n;
      }
      assert_int_equal(bin.outstanding, count);
      check_bin(&bin);
    }
    no_overlap(blocks, count);
    bin_put(&bin, blocks, count);
    bin_drain(&bin);
    assert_true(bin.slab_count == 0 && bin.outstanding == 0 && budget_held(&budget) == 0);
    check_bin(&bin);
  }
}

/* The fullest slab is taken from first, so that the emptiest one becomes unused. */
static void fullest_first(void **state)
{
  (void)state;
  static void *blocks[BLOCKS];
  class_new(CLASS_LINEAR);
  size_t each = UNIT / SIZE_LINEAR, got = 0;
  while (got < 3 * each)
    got += bin_take(&bin, blocks + got, 3 * each - got, NULL);
  qsort(blocks, got, sizeof *blocks, by_address);
  bin_put(&bin, blocks, each - 2);               /* the first slab is nearly empty */
  bin_put(&bin, blocks + each, 5);               /* the second nearly full */
  void *next[5];
  assert_int_equal(bin_take(&bin, next, 5, NULL), 5);
  for (size_t i = 0; i < 5; i++)
    assert_true((char *)next[i] >= (char *)blocks[each] && (char *)next[i] < (char *)blocks[each] + UNIT);
  assert_true(next[4] < next[0]);
  check_bin(&bin);
}

static void what_is_known_of_the_past(void **state)
{
  (void)state;
  void *blocks[2];
  block_past_t past;
  class_new(5);
  assert_int_equal(bin_take(&bin, blocks, 1, &past), 1);
  assert_int_equal(past, BLOCK_FRESH);              /* the region is not zero */
  assert_int_equal(bin_take(&bin, blocks + 1, 1, &past), 1);
  bin_put(&bin, blocks, 2);
  assert_int_equal(bin_take(&bin, blocks, 2, &past), 2);
  assert_int_equal(past, BLOCK_USED);
}

static void over_budget(void **state)
{
  (void)state;
  void *block;
  class_new(10);
  budget.limit = 3 * (size_t)bin.slab_bytes;
  size_t each = bin.slab_bytes / bin.block_size, count = 0;
  while (bin_take(&bin, &block, 1, NULL))
    count++;
  assert_int_equal(count, 3 * each);
  assert_int_equal(budget_held(&budget), budget.limit);
  bin_put(&bin, &block, 1);
  assert_int_equal(bin_take(&bin, &block, 1, NULL), 1);
  assert_int_equal(bin_take(&bin, &block, 1, NULL), 0);
  check_bin(&bin);
}

static void small_units(void **state)
{
  (void)state;
  for (unsigned log2 = 10; log2 <= 12; log2++)
    for (unsigned c = 1; c < CLASS_COUNT; c += 5) {
      void *block;
      size_t count = 0;
      pool_new(c, log2, 4 * MIB);
      for (; bin_take(&bin, &block, 1, NULL); count++)
        memset(block, 1, bin.block_size);
      assert_true(count * bin.block_size > 2 * MIB);
      check_bin(&bin);
      bin_finish(&bin);
      assert_int_equal(bin.space->used_units, 0);
    }
}

/* ---- magazines ---- */

enum { MY_SHARD = 1, YOUR_SHARD = 2 };

static size_t count_down(void **top)
{
  size_t n = 0;
  while (top[-(ptrdiff_t)n])
    n++;
  return n;
}

/* Takes the entries of a magazine; returns its floor. */
static void **empty_out(void **top, void **blocks, size_t *count)
{
  for (; *top; top--)
    blocks[(*count)++] = *top;
  return top;
}

static void **fill(void **floor, void *const *blocks, size_t count)
{
  *floor = NULL;
  for (size_t i = 0; i < count; i++)
    *++floor = blocks[i];
  return floor;
}

static void a_refill_is_in_address_order(void **state)
{
  (void)state;
  class_new(4);
  for (unsigned k = 2; k <= MAGAZINE_CAPACITY_MOST; k++) {
    void **top = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
    assert_non_null(top);
    assert_int_equal(count_down(top), k);
    assert_true(magazine_is_full_at(top + 1));
    for (size_t i = 1; i < k; i++)
      assert_true((char *)top[-(ptrdiff_t)i] == (char *)top[-(ptrdiff_t)i + 1] + bin.block_size);
    bin_retire_magazine(&bin, top, MY_SHARD);
    bin_drain(&bin);
    check_bin(&bin);
  }
}

/* What a thread may keep beside the loaded magazine is its part of what one thread alone may. */
static void stocks_are_divided(void **state)
{
  enum { FEW = 7 };   /* threads: their magazines are as large as those of one */
  size_t alone = 0, most = 0;
  (void)state;
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (bin_threads = 1; bin_threads <= FEW; bin_threads++) {
      void *block;
      class_new(c);
      assert_int_equal(bin_take(&bin, &block, 1, NULL), 1);
      alone = bin_threads == 1 ? bin.stock_most : alone;
      most = max_size(most, alone);
      assert_int_equal(bin.stock_most, max_size(alone / bin_threads, 1));
    }
  bin_threads = 1;
  assert_true(most > FEW);
}

/* Full ones come back as they were, the newest first; what is over the depot's bound goes to the bitmaps. */
static void the_depot(void **state)
{
  (void)state;
  static void *blocks[BLOCKS];
  size_t count = 0, k;
  class_new(12);
  k = bin.magazine_capacity;
  for (size_t i = 0; i < 60; i++) {
    void **top = bin_exchange_empty(&bin, NULL, (unsigned)k, MY_SHARD);
    bin_retire_magazine(&bin, empty_out(top, blocks, &count), MY_SHARD);
  }
  void **floor = bin_new_magazine(&bin, (unsigned)k, MY_SHARD);
  size_t in_depot = 0;
  for (size_t i = 0; i + k <= count; i += k) {
    floor = bin_exchange_full(&bin, fill(floor, blocks + i, k), (unsigned)k, MY_SHARD);
    assert_non_null(floor);
    in_depot = max_size(in_depot, bin.depots.count);
    check_bin(&bin);
  }
  assert_true(in_depot >= 2 && in_depot <= 32);
  assert_int_equal(bin_depot_blocks(&bin), bin.depots.count * k);
  assert_int_equal(bin.outstanding, bin.depots.count * k + count % k);
  void **top = bin_exchange_empty(&bin, floor, (unsigned)k, MY_SHARD);
  for (size_t i = 0; i < k; i++)
    assert_false(bin_depot_holds(&bin, top[-(ptrdiff_t)i]));
  assert_true(bin_depot_holds(&bin, blocks[0]));
  check_bin(&bin);
}

/* Where blocks wander from one thread to another the depot grows, and shrinks when they stop. */
static void blocks_that_wander(void **state)
{
  (void)state;
  static void *blocks[BLOCKS];
  size_t count = 0;
  class_new(30);
  unsigned k = bin.magazine_capacity;
  while (count + k <= BLOCKS) {
    void **top = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
    bin_retire_magazine(&bin, empty_out(top, blocks, &count), MY_SHARD);
  }
  uint32_t before = bin.depots.bound;
  for (size_t turn = 0; turn < 20; turn++) {
    void **floor = bin_exchange_full(&bin, fill(bin_new_magazine(&bin, k, MY_SHARD), blocks + turn * k, k), k, MY_SHARD);
    size_t back = 0;
    void **top = bin_exchange_empty(&bin, floor, k, YOUR_SHARD);
    bin_retire_magazine(&bin, empty_out(top, blocks + turn * k, &back), MY_SHARD);
    assert_int_equal(back, k);
  }
  assert_true(bin.depots.bound > before);
  for (size_t turn = 0; turn < 12; turn++)
    bin_tick(&bin);
  assert_int_equal(bin.depots.bound, 0);
  check_bin(&bin);
}

/* A depot of four magazines, of which the shard's own threads have taken `need` again. */
static void my_depot(unsigned k, unsigned need)
{
  void **tops[4];
  for (size_t i = 0; i < 4; i++)
    tops[i] = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
  for (size_t i = 0; i < 4; i++)
    bin_retire_magazine(&bin, tops[i], MY_SHARD);
  for (size_t i = 0; i < need; i++)
    tops[i] = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
  for (size_t i = 0; i < need; i++)
    bin_retire_magazine(&bin, tops[i], MY_SHARD);
  assert_int_equal(bin.depots.count, 4);
}

static void a_shard_is_left_what_it_needs(void **state)
{
  (void)state;
  for (unsigned need = 0; need <= 4; need++) {
    class_new(20);
    unsigned k = bin.magazine_capacity;
    my_depot(k, need);
    for (unsigned taken = 1; taken <= 6; taken++) {
      size_t out = bin.outstanding;
      assert_non_null(bin_exchange_empty(&bin, NULL, k, YOUR_SHARD));
      bool from_slabs = bin.outstanding > out;
      assert_int_equal(from_slabs, taken > 4 - need);
      check_bin(&bin);
    }
    assert_int_equal(bin.depots.count, need);
    bin_tick(&bin);
    check_bin(&bin);
  }
}

/* What is needed is forgotten when it is not needed any more, and counts for nothing where there is no other memory. */
static void a_need_ends(void **state)
{
  (void)state;
  class_new(20);
  unsigned k = bin.magazine_capacity;
  my_depot(k, 4);
  assert_int_equal(bin.depots.of[MY_SHARD].need, 4);
  for (size_t i = 0; i < 4; i++)
    bin_tick(&bin);
  assert_int_equal(bin.depots.of[MY_SHARD].need, 0);
  my_depot(k, 4);
  budget.limit = budget_held(&budget);
  size_t got = 0;
  while (bin_exchange_empty(&bin, NULL, k, YOUR_SHARD))
    got++;
  assert_true(got >= 4 && bin.depots.count == 0);
  check_bin(&bin);
}

/* Blocks that go from thread to thread through the slabs are noticed too. */
static void slabs_of_other_threads(void **state)
{
  (void)state;
  for (unsigned shard = MY_SHARD; shard <= YOUR_SHARD; shard++) {
    class_new(30);
    unsigned k = bin.magazine_capacity;
    void **top = bin_exchange_empty(&bin, NULL, k, MY_SHARD), **other = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
    assert_non_null(other);
    bin_retire_magazine(&bin, top, MY_SHARD);
    bin_drain(&bin);
    uint32_t before = bin.depots.bound;
    assert_non_null(bin_exchange_empty(&bin, NULL, k, shard));
    assert_int_equal(bin.depots.bound > before, shard != MY_SHARD);
    check_bin(&bin);
  }
}

static void ticks_give_back_what_was_not_needed(void **state)
{
  (void)state;
  class_new(20);
  unsigned k = bin.magazine_capacity;
  void **tops[4];
  for (size_t i = 0; i < 4; i++)
    tops[i] = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
  for (size_t i = 0; i < 4; i++)
    bin_retire_magazine(&bin, tops[i], MY_SHARD);
  uint32_t deep = bin.depots.count;
  assert_true(deep >= 2);
  for (size_t i = 0; i < 10; i++) {
    bin_tick(&bin);
    check_bin(&bin);
    assert_true(bin.depots.count <= deep);
    deep = bin.depots.count;
  }
  assert_true(bin.depots.count == 0 && bin.outstanding == 0 && bin.slab_count == 0 && budget_held(&budget) == 0);
}

/* Without memory for another magazine a full one is emptied into the slabs and is the empty one itself. */
static void no_memory_for_magazines(void *argument)
{
  (void)argument;
  static void *blocks[MAGAZINE_CAPACITY_MOST];
  class_new(7);
  os_fake.refuse = true;
  void **floor = bin_new_magazine(&bin, 40, MY_SHARD);
  must(!floor);
  os_fake_heal();
  floor = bin_new_magazine(&bin, 40, MY_SHARD);
  must(floor && bin_take(&bin, blocks, 40, NULL) == 40);
  os_fake.refuse = true;
  while (bin_new_magazine(&bin, 40, MY_SHARD)) {
  }
  void **same = bin_exchange_full(&bin, fill(floor, blocks, 40), 40, MY_SHARD);
  must(same == floor && bin.outstanding == 0 && bin.depots.count == 0);
  os_fake_heal();
  check_bin(&bin);
}

static void no_memory(void **state)
{
  (void)state;
  in_child(no_memory_for_magazines, NULL);
}

/* ---- the memory of free blocks in slabs that stay ---- */

static void write_blocks(void *const *blocks, size_t count)
{
  for (size_t i = 0; i < count; i++)
    memset(blocks[i], 1, bin.block_size);
}

static bool is_written(const char *block)
{
  return block[0] == 1 && memcmp(block, block + 1, bin.block_size - 1) == 0;
}

static void take_all(void **blocks, size_t count)
{
  for (size_t got = 0, more; got < count; got += more) {
    more = bin_take(&bin, blocks + got, count - got, NULL);
    assert_int_not_equal(more, 0);
  }
}

/* Purged memory reads as zero. */
static bool was_purged(const void *block)
{
  const char *page = (const char *)round_up((uintptr_t)block, os_fake.page_size);
  return *page == 0;
}

static void each_eighth_block_stays(size_t size, bool purges)
{
  static void *blocks[BLOCKS];
  class_new(size_class_of(size));
  bin.purges &= purges;
  size_t count = min_size(BLOCKS, 8 * MIB / bin.block_size), purged = 0;
  take_all(blocks, count);
  write_blocks(blocks, count);
  for (size_t i = 0; i < count; i++)
    if (i % 8)
      bin_put(&bin, &blocks[i], 1);
  check_bin(&bin);
  for (size_t i = 0; i < count; i++) {
    purged += was_purged(blocks[i]);
    assert_true(i % 8 || is_written(blocks[i]));
  }
  size_t unpurged = (count - count / 8 - purged) * bin.block_size;
  assert_int_equal(bin.space->purged_bytes > 0, purged > 0);
  if (bin.purges)
    assert_true(unpurged <= 1280 * KIB);
  else
    assert_int_equal(purged, 0);
  assert_true(bin_purge(&bin) <= (bin.purges ? 1280 * KIB : 0));
  assert_true(!bin.purges || bin.idle == 0);
  check_bin(&bin);
  while (bin_take(&bin, blocks, 1, NULL) && bin.outstanding < count)
    memset(blocks[0], 2, bin.block_size);
  check_bin(&bin);
}

static void memory_of_free_blocks(void **state)
{
  (void)state;
  for (size_t size = 4096; size <= 32768; size += 4096) {
    each_eighth_block_stays(size, true);
    each_eighth_block_stays(size, false);
  }
}

enum { LARGE_BLOCKS = 200 };
static void *large[LARGE_BLOCKS];

static void take_large(void)
{
  class_new(size_class_of(20000));
  take_all(large, LARGE_BLOCKS);
  write_blocks(large, LARGE_BLOCKS);
}

/* Returns how often the system was asked to take memory. */
static uint64_t put_every_other(void)
{
  uint64_t before = os_fake.count[OS_PURGE];
  for (size_t i = 0; i < LARGE_BLOCKS; i += 2)
    bin_put(&bin, &large[i], 1);
  check_bin(&bin);
  return os_fake.count[OS_PURGE] - before;
}

/* What is taken and put again and again keeps its memory; when that ends, it does not. */
static void memory_of_a_breath(void **state)
{
  (void)state;
  take_large();
  for (size_t turn = 0; turn < 20; turn++) {
    assert_int_equal(put_every_other() > 0, turn == 0);
    for (size_t i = 0; i < LARGE_BLOCKS; i += 2)
      assert_int_equal(bin_take(&bin, &large[i], 1, NULL), 1);
    check_bin(&bin);
    if (turn % 4 == 3)
      bin_tick(&bin);
  }
  for (size_t i = 0; i < 12; i++)
    bin_tick(&bin);
  assert_true(put_every_other() > 20);
}

/* However much a tick returns, it asks the system for nothing. */
static void ticks_do_not_purge(void **state)
{
  (void)state;
  take_large();
  bin.depots.bound = LARGE_BLOCKS;
  unsigned k = bin.magazine_capacity;
  for (size_t i = 0; i + k <= LARGE_BLOCKS; i += k)
    if (i / k % 2)
      bin_retire_magazine(&bin, fill(bin_new_magazine(&bin, k, MY_SHARD), large + i, k), MY_SHARD);
  assert_true(bin.depots.count * k * bin.block_size > 3 * MIB / 2);
  uint64_t before = os_fake.count[OS_PURGE];
  bin_tick(&bin);
  bin_tick(&bin);
  assert_true(bin.depots.count == 0 && bin.idle > 0);
  assert_int_equal(os_fake.count[OS_PURGE], before);
  check_bin(&bin);
}

static void purges_that_fail(void **state)
{
  (void)state;
  take_large();
  os_fake.fail_kinds = 1u << OS_PURGE;
  put_every_other();
  assert_int_equal(bin_purge(&bin), 0);
  os_fake_heal();
  assert_int_equal(bin.space->purged_bytes, 0);
  assert_int_equal(bin.idle, LARGE_BLOCKS / 2);
  for (size_t i = 0; i < LARGE_BLOCKS; i++)
    assert_false(was_purged(large[i]));
  size_t given = bin_purge(&bin);
  assert_true(given > 0);
  assert_int_equal(given, bin.space->purged_bytes);
  assert_int_equal(bin.idle, 0);
  check_bin(&bin);
}

/* ---- the end of all blocks ---- */

static void reset_and_finish(void **state)
{
  (void)state;
  static void *blocks[BLOCKS];
  for (unsigned c = 1; c < CLASS_COUNT; c += 13) {
    class_new(c);
    unsigned k = bin.magazine_capacity;
    size_t want = min_size(BLOCKS, 8 * MIB / bin.block_size), got = 0, capacity = 0;
    for (unsigned turn = 0; turn < 4; turn++) {
      for (got = 0; got < want;)
        got += bin_take(&bin, blocks + got, want - got, NULL);
      bin_put(&bin, blocks, got / 3);
      void **top = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
      bin_retire_magazine(&bin, top, MY_SHARD);
      assert_true(turn == 0 || bin.capacity == capacity);
      capacity = bin.capacity;
      size_t held = budget_held(&budget);
      bin_reset(&bin);
      assert_true(bin.outstanding == 0 && bin.depots.count == 0 && bin.capacity == capacity && budget_held(&budget) == held);
      check_bin(&bin);
    }
    bin_finish(&bin);
    assert_true(budget_held(&budget) == 0 && bin.space->used_units == 0);
  }
}

/* ---- questions, misuse ---- */

static void questions(void **state)
{
  (void)state;
  void *blocks[3];
  class_new(3);
  bin_take(&bin, blocks, 3, NULL);
  bin_put(&bin, blocks + 1, 1);
  const run_t *slab = run_of(bin.space->fixed, blocks[0]);
  char *start;
  for (size_t i = 0; i < bin.block_size; i++) {
    assert_true(bin_ask(&bin, slab, (char *)blocks[0] + i, &start));
    assert_ptr_equal(start, blocks[0]);
    assert_false(bin_ask(&bin, slab, (char *)blocks[1] + i, &start));
    assert_ptr_equal(start, blocks[1]);            /* free, but it was one */
    assert_false(bin_ask(&bin, slab, slab->start + 3 * bin.block_size + i, &start));
    assert_null(start);
  }
  bin_put(&bin, blocks, 1);
  bin_put(&bin, blocks + 2, 1);
  bin_drain(&bin);
  assert_false(bin_ask(&bin, slab, blocks[0], &start));
  assert_null(start);                              /* the slab is gone */
}

/* 64 at a time: those that are out, and none once the slab is gone or another's. */
static void words_of_live_blocks(void **state)
{
  (void)state;
  static void *blocks[150];
  class_new(3);
  take_all(blocks, 150);
  const run_t *slab = run_of(bin.space->fixed, blocks[0]);
  char *start = slab->start;
  for (size_t i = 0; i < 150; i += 3)
    bin_put(&bin, &blocks[i], 1);
  size_t live = 0;
  for (size_t w = 0; w < 3; w++) {
    uint64_t word = 0;
    assert_true(bin_live_word(&bin, slab, start, w, &word));
    live += (size_t)__builtin_popcountll(word);
    for (size_t i = 0; i < WORD_BITS; i++) {
      char *block;
      bool out = bin_ask(&bin, slab, start + (w * WORD_BITS + i) * bin.block_size, &block);
      assert_int_equal(word >> i & 1, out);
    }
  }
  uint64_t word;
  assert_int_equal(live, 100);
  assert_false(bin_live_word(&bin, slab, start, 3, &word));
  assert_false(bin_live_word(&bin, slab, start + UNIT, 0, &word));
  bin_finish(&bin);
  assert_false(bin_live_word(&bin, slab, start, 0, &word));
}

static void put_twice(void *block)
{
  bin_put(&bin, &block, 1);
  bin_put(&bin, &block, 1);
}

static void put_inside(void *block)
{
  block = (char *)block + 16;
  bin_put(&bin, &block, 1);
}

static void put_fresh(void *block)
{
  block = (char *)block + 1000 * bin.block_size;
  bin_put(&bin, &block, 1);
}

static void misuse(void **state)
{
  (void)state;
  void *block;
  class_new(3);
  bin_take(&bin, &block, 1, NULL);
  aborts_with(put_twice, block, "): freed twice");
  aborts_with(put_inside, block, "): not a block of any heap");
  aborts_with(put_fresh, block, "): not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_memory),                   /* first: nothing has taken a magazine yet */
    cmocka_unit_test(each_block_once),
    cmocka_unit_test(random_batches),
    cmocka_unit_test(fullest_first),
    cmocka_unit_test(what_is_known_of_the_past),
    cmocka_unit_test(over_budget),
    cmocka_unit_test(small_units),
    cmocka_unit_test(a_refill_is_in_address_order),
    cmocka_unit_test(stocks_are_divided),
    cmocka_unit_test(the_depot),
    cmocka_unit_test(blocks_that_wander),
    cmocka_unit_test(a_shard_is_left_what_it_needs),
    cmocka_unit_test(a_need_ends),
    cmocka_unit_test(slabs_of_other_threads),
    cmocka_unit_test(ticks_give_back_what_was_not_needed),
    cmocka_unit_test(memory_of_free_blocks),
    cmocka_unit_test(memory_of_a_breath),
    cmocka_unit_test(ticks_do_not_purge),
    cmocka_unit_test(purges_that_fail),
    cmocka_unit_test(reset_and_finish),
    cmocka_unit_test(questions),
    cmocka_unit_test(words_of_live_blocks),
    cmocka_unit_test(misuse),
  };
  return cmocka_run_group_tests_name("bin", tests, NULL, NULL);
}
