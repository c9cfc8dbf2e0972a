/* SPDX-License-Identifier: MIT
 * A bin of its own in a region: what goes out comes back, and after each step every block is in one place. */
#include "bins.h"

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
  bin_put(&bin, blocks, each - 2); /* the first slab is nearly empty */
  bin_put(&bin, blocks + each, 5); /* the second nearly full */
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
  assert_int_equal(past, BLOCK_FRESH); /* the region is not zero */
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
      bin_give_magazine(&bin, top, MY_SHARD);
      assert_true(turn == 0 || bin.capacity == capacity);
      capacity = bin.capacity;
      size_t held = budget_held(&budget);
      bin_reset(&bin);
      assert_true(bin.outstanding == 0 && bin.depots.count == 0 && bin.capacity == capacity && budget_held(&budget) == held);
      check_bin(&bin);
    }
    bin_destroy(&bin);
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
  const run_t *slab = run_of(bin.space->own_arena, blocks[0]);
  char *start;
  for (size_t i = 0; i < bin.block_size; i++) {
    assert_true(bin_ask(&bin, slab, (char *)blocks[0] + i, &start));
    assert_ptr_equal(start, blocks[0]);
    assert_false(bin_ask(&bin, slab, (char *)blocks[1] + i, &start));
    assert_ptr_equal(start, blocks[1]); /* free, but it was one */
    assert_false(bin_ask(&bin, slab, slab->start + 3 * bin.block_size + i, &start));
    assert_null(start);
  }
  bin_put(&bin, blocks, 1);
  bin_put(&bin, blocks + 2, 1);
  bin_drain(&bin);
  assert_false(bin_ask(&bin, slab, blocks[0], &start));
  assert_null(start); /* the slab is gone */
}

/* 64 at a time: those that are out, and none once the slab is gone or another's. */
static void words_of_live_blocks(void **state)
{
  (void)state;
  static void *blocks[150];
  class_new(3);
  take_all(blocks, 150);
  const run_t *slab = run_of(bin.space->own_arena, blocks[0]);
  char *start = slab->start;
  for (size_t i = 0; i < 150; i += 3)
    bin_put(&bin, &blocks[i], 1);
  size_t live = 0;
  for (size_t w = 0; w < 3; w++) {
    word_t word = 0;
    assert_true(bin_live_word(&bin, slab, start, w, &word));
    live += (size_t)__builtin_popcountll(word);
    for (size_t i = 0; i < WORD_BITS; i++) {
      char *block;
      bool out = bin_ask(&bin, slab, start + (w * WORD_BITS + i) * bin.block_size, &block);
      assert_int_equal(word >> i & 1, out);
    }
  }
  word_t word;
  assert_int_equal(live, 100);
  assert_false(bin_live_word(&bin, slab, start, 3, &word));
  assert_false(bin_live_word(&bin, slab, start + UNIT, 0, &word));
  bin_destroy(&bin);
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
    cmocka_unit_test(each_block_once), cmocka_unit_test(random_batches),
    cmocka_unit_test(fullest_first),   cmocka_unit_test(what_is_known_of_the_past),
    cmocka_unit_test(over_budget),     cmocka_unit_test(reset_and_finish),
    cmocka_unit_test(questions),       cmocka_unit_test(words_of_live_blocks),
    cmocka_unit_test(misuse),
  };
  return cmocka_run_group_tests_name("bin", tests, NULL, NULL);
}
