/* SPDX-License-Identifier: MIT
 * The memory of free blocks in slabs that stay: when a bin gives it back, and when it does not. */
#include "bins.h"
#include "os_fake.h"

static void write_blocks(void *const *blocks, size_t count)
{
  for (size_t i = 0; i < count; i++)
    memset(blocks[i], 1, bin.block_size);
}

static bool is_written(const char *block) { return block[0] == 1 && memcmp(block, block + 1, bin.block_size - 1) == 0; }

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
      bin_give_magazine(&bin, fill(bin_new_magazine(&bin, k, MY_SHARD), large + i, k), MY_SHARD);
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

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_of_free_blocks),
    cmocka_unit_test(memory_of_a_breath),
    cmocka_unit_test(ticks_do_not_purge),
    cmocka_unit_test(purges_that_fail),
  };
  return cmocka_run_group_tests_name("bin_purges", tests, NULL, NULL);
}
