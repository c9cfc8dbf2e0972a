/* SPDX-License-Identifier: MIT
 * The memory of free blocks in slabs that stay: when a bin gives it back, and when it does not. */
#include "bin/bin.h"
#include "bins.h"
#include "os_fake.h"
#include <pthread.h>

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

/* The epoch in which a peak was freed does not count. */
enum { DELAY_MS = 8, EPOCH_MS = DELAY_MS / LOW_WATER_EPOCHS, TICKS_OF_A_PEAK = LOW_WATER_EPOCHS + 1 };
static uint64_t now = 1000000;

static void tick_times(size_t ticks)
{
  bin.space->purge_delay_ms = DELAY_MS;
  while (ticks--)
    bin_tick(&bin, now += EPOCH_MS);
  check_bin(&bin);
}

static void each_eighth_block_stays(size_t size, bool purges)
{
  static void *blocks[BLOCKS];
  class_new(size_class_of(size));
  bin.epoch_ms = now;
  uint64_t before = os_fake.count[OS_PURGE];
  bin.purges &= purges;
  size_t count = min_size(BLOCKS, 8 * MIB / bin.block_size), purged = 0;
  take_all(blocks, count);
  write_blocks(blocks, count);
  for (size_t i = 0; i < count; i++)
    if (i % 8)
      bin_put(&bin, &blocks[i], 1);
  tick_times(TICKS_OF_A_PEAK - 1);
  assert_int_equal(os_fake.count[OS_PURGE], before);
  tick_times(1);
  for (size_t i = 0; i < count; i++) {
    purged += was_purged(blocks[i]);
    assert_true(i % 8 || is_written(blocks[i]));
  }
  assert_int_equal(bin.space->purged_bytes > 0, bin.purges);
  assert_int_equal(purged, bin.purges ? count - (count + 7) / 8 : 0);
  assert_true(bin_purge(&bin) == 0 && (bin.idle == 0 || !bin.purges));
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
  bin.epoch_ms = now;
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

/* Whole pages go from between small blocks, too, and those that hold a live block stay as they are. */
static void pages_between_small_blocks(void **state)
{
  enum { PAGES = 1024 };
  static void *blocks[PAGES * 4096 / 16];
  (void)state;
  for (size_t size = 16; size <= 4096; size = size * 3 / 2) {
    class_new(size_class_of(size));
    bin.epoch_ms = now;
    size_t page = os_fake.page_size, count = PAGES * 4096 / bin.block_size, each = 8 * page / bin.block_size;
    take_all(blocks, count);
    write_blocks(blocks, count);
    for (size_t i = 0; i < count; i++)
      if (i % each)
        bin_put(&bin, &blocks[i], 1);
    tick_times(TICKS_OF_A_PEAK);
    assert_true(bin.idle == 0 && bin.space->purged_bytes >= (PAGES * 4096 / page / 8 - 16) * 6 * page);
    for (size_t i = 0; i < count; i += each)
      assert_true(is_written(blocks[i]));
    while (bin_take(&bin, blocks, 1, NULL) && bin.outstanding < count)
      memset(blocks[0], 2, bin.block_size);
    check_bin(&bin);
  }
}

/* With one live block in a slab all other pages go, also the page in which the last block ends before the slab does. */
static void all_pages_but_one(void **state)
{
  enum { SLABS = 20 };
  static void *blocks[SLABS * UNIT / 16];
  (void)state;
  for (size_t size = 16; size <= 4096; size = size * 4 / 3) {
    class_new(size_class_of(size));
    size_t each = UNIT / bin.block_size, kept = round_up(bin.block_size, os_fake.page_size);
    take_all(blocks, SLABS * each);
    for (size_t i = 0; i < SLABS * each; i++)
      if ((uintptr_t)blocks[i] % UNIT != 0) /* the first of a slab stays */
        bin_put(&bin, &blocks[i], 1);
    bin_purge(&bin);
    assert_int_equal(bin.slab_count, SLABS);
    assert_int_equal(bin.returned_bytes, SLABS * (UNIT - kept));
    check_bin(&bin);
  }
}

/* What is taken and put again and again keeps its memory, as much as was needed at once; when that ends, it does not. */
static void memory_of_a_breath(void **state)
{
  (void)state;
  take_large();
  put_every_other();
  uint64_t before = os_fake.count[OS_PURGE];
  for (size_t turn = 0; turn < 20; turn++) {
    for (size_t i = 0; i < LARGE_BLOCKS; i += 4)
      assert_int_equal(bin_take(&bin, &large[i], 1, NULL), 1);
    for (size_t i = 0; i < LARGE_BLOCKS; i += 4)
      bin_put(&bin, &large[i], 1);
    tick_times(1);
    if (turn < LOW_WATER_EPOCHS)
      assert_int_equal(bin.idle, LARGE_BLOCKS / 2);
    else /* a block that shares its last page with a live one does not count */
      assert_true(bin.idle >= LARGE_BLOCKS / 4 && bin.idle <= LARGE_BLOCKS / 4 + 2);
    assert_int_equal(os_fake.count[OS_PURGE] > before, turn >= LOW_WATER_EPOCHS);
  }
  tick_times(TICKS_OF_A_PEAK);
  assert_int_equal(bin.idle, 0);
}

/* Blocks whose memory went are taken last. */
static void purged_blocks_last(void **state)
{
  static void *again[LARGE_BLOCKS];
  (void)state;
  take_large();
  put_every_other();
  bin_purge(&bin);
  for (size_t i = LARGE_BLOCKS / 2 + 1; i < LARGE_BLOCKS; i += 2)
    bin_put(&bin, &large[i], 1);
  size_t idle = bin.idle, got = 0;
  assert_true(idle > 0 && idle < LARGE_BLOCKS);
  for (void *block; bin.idle && bin_take(&bin, &block, 1, NULL) == 1;)
    again[got++] = block;
  size_t purged = 0;
  for (size_t i = 0; i < got; i++)
    purged += was_purged(again[i]);
  assert_true(purged <= got / 2);
  check_bin(&bin);
}

/* One tick makes no more system calls than it may, and the next goes on. */
static void purged_in_steps(void **state)
{
  (void)state;
  take_large();
  put_every_other();
  tick_times(TICKS_OF_A_PEAK - 1);
  uint64_t before = os_fake.count[OS_PURGE];
  now += EPOCH_MS;
  for (size_t idle = LARGE_BLOCKS / 2, calls; bin.idle; idle = bin.idle) {
    calls = os_fake.count[OS_PURGE];
    size_t left = slabs_purge_unneeded(&bin, 10, now);
    calls = os_fake.count[OS_PURGE] - calls;
    assert_true(bin.idle < idle && calls <= 10);
    assert_int_equal(left, calls < 10 ? 10 - calls : 0);
    assert_true(left == 0 || bin.idle == 0);
    check_bin(&bin);
  }
  assert_true(os_fake.count[OS_PURGE] - before <= LARGE_BLOCKS / 2);
}

/* What a tick returns from the depots waits for the delay too. */
static void blocks_of_depots(void **state)
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
  tick_times(2);
  assert_true(bin.depots.count == 0 && bin.idle > 0);
  tick_times(TICKS_OF_A_PEAK - 2);
  assert_int_equal(os_fake.count[OS_PURGE], before);
  tick_times(2);
  assert_true(bin.idle == 0 && os_fake.count[OS_PURGE] > before);
}

/* With a delay of 0 nothing waits. What the system refuses is not asked for again before a tick. */
static void at_once(void **state)
{
  (void)state;
  take_large();
  bin.space->purge_delay_ms = 0;
  bin.space->dirty_most = 0;
  bin.purges_in_puts = true;
  assert_int_equal(put_every_other(), LARGE_BLOCKS / 2);
  assert_int_equal(bin.idle, 0);
  take_large();
  bin.space->purge_delay_ms = 0;
  bin.space->dirty_most = 0;
  bin.purges_in_puts = true;
  os_fake.fail_kinds = 1u << OS_PURGE;
  assert_int_equal(put_every_other(), 1);
  os_fake_heal();
  tick_times(1 + TICKS_OF_A_PEAK);
  assert_int_equal(bin.idle, 0);
}

static bool is_due(uint64_t now_ms)
{
  bin.space->purge_delay_ms = DELAY_MS;
  bins_begin_tick();
  bins_tick(100, SIZE_MAX / PURGE_CALLS, now_ms);
  check_bin(&bin);
  return bin.due;
}

/* A bin is due until the last of its idle memory has gone, but not for what the system refuses. */
static void due_until_purged(void **state)
{
  (void)state;
  for (unsigned refused = 0; refused < 2; refused++) {
    take_large();
    put_every_other();
    os_fake.fail_kinds = refused ? 1u << OS_PURGE : 0;
    for (size_t i = 1; i < TICKS_OF_A_PEAK; i++)
      assert_true(is_due(now += EPOCH_MS) && bin.idle == LARGE_BLOCKS / 2);
    for (size_t i = 0; i < 10 && bin.due; i++)
      is_due(now += 1000);
    assert_false(bin.due);
    assert_int_equal(bin.idle, refused ? LARGE_BLOCKS / 2 : 0);
    os_fake_heal();
    uint64_t before = os_fake.count[OS_PURGE];
    assert_false(is_due(now += 1000));
    assert_int_equal(os_fake.count[OS_PURGE], before);
    bin_put(&bin, &large[1], 1);
    for (size_t i = 0; i < TICKS_OF_A_PEAK; i++)
      is_due(now += 1000);
    assert_true(bin.idle == 0 && !bin.due);
  }
}

/* Counts the system calls that are made while the lock of the bin is held once: it marks the word of a held lock. */
enum { HELD = 1, HELD_AND_COUNTED = 3 };
static size_t calls_of_hold, calls_of_longest_hold;

static void count_calls_of_hold(os_call_t kind)
{
  if (kind != OS_PURGE)
    return;
  calls_of_hold = bin.lock.word == HELD ? 1 : calls_of_hold + 1;
  bin.lock.word = HELD_AND_COUNTED;
  calls_of_longest_hold = max_size(calls_of_longest_hold, calls_of_hold);
}

/* A trim and a tick with many steps release the lock after some system calls. A tick makes no more calls than one caller may.
 */
static void others_need_not_wait(void **state)
{
  enum { MANY = 1400 };
  static void *blocks[MANY];
  const bool *trims = *state;
  class_new(size_class_of(os_fake.page_size));
  bin.epoch_ms = now;
  take_all(blocks, MANY);
  for (size_t i = 0; i < MANY; i += 2)
    bin_put(&bin, &blocks[i], 1);
  uint64_t before = os_fake.count[OS_PURGE];
  calls_of_longest_hold = 0;
  if (*trims) {
    os_fake.during = count_calls_of_hold;
    assert_true(bin_purge(&bin) > 0 && bin.idle == 0);
  } else {
    for (size_t i = 1; i < TICKS_OF_A_PEAK; i++)
      assert_true(is_due(now += EPOCH_MS));
    os_fake.during = count_calls_of_hold;
    bins_begin_tick();
    bins_tick(1000, SIZE_MAX / PURGE_CALLS, now += EPOCH_MS);
    assert_true(os_fake.count[OS_PURGE] - before <= BIN_STEPS_MOST * PURGE_CALLS);
  }
  os_fake.during = NULL;
  assert_true(os_fake.count[OS_PURGE] - before > 4 * PURGE_CALLS);
  assert_in_range(calls_of_longest_hold, 1, PURGE_CALLS);
  check_bin(&bin);
}

/* Callers that come often purge a little each time, and the tick comes to the bin until it is done. */
static void frequent_callers(void **state)
{
  (void)state;
  take_large();
  put_every_other();
  is_due(now);
  for (size_t i = 1; i < TICKS_OF_A_PEAK; i++)
    assert_true(is_due(now += EPOCH_MS));
  size_t calls = 0;
  bins_begin_tick();
  for (size_t idle = bin.idle, before; bin.idle; idle = bin.idle, calls++) {
    assert_true(bins_tick_is_under_way());
    before = os_fake.count[OS_PURGE];
    bins_tick(100, 1, calls ? now : (now += EPOCH_MS));
    assert_true(bin.idle < idle && os_fake.count[OS_PURGE] - before <= PURGE_CALLS);
  }
  assert_true(calls > 1);
  check_bin(&bin);
}

static void put_and_take_some(void)
{
  for (size_t i = 0; i < 8; i++) {
    bin_put(&bin, &large[1], 1);
    assert_int_equal(bin_take(&bin, &large[1], 1, NULL), 1);
  }
}

/* A bin of one thread is in no list. Its own puts look at the clock, every eighth of them. */
static void of_one_thread(void **state)
{
  (void)state;
  take_large();
  bin.lock.solo = bin.purges_in_puts = true;
  bin.space->purge_delay_ms = 100;
  bin.epoch_ms = os_fake.now_ms;
  uint64_t before = os_fake.count[OS_PURGE] + put_every_other();
  assert_int_equal(os_fake.count[OS_PURGE], before);
  for (size_t i = 0; i < 30; i++) { /* within an epoch */
    bin_put(&bin, &large[1], 1);
    assert_int_equal(bin_take(&bin, &large[1], 1, NULL), 1);
  }
  assert_true(os_fake.count[OS_PURGE] == before && bin.idle == LARGE_BLOCKS / 2);
  for (size_t i = 0; i < LOW_WATER_EPOCHS; i++) {
    assert_int_equal(os_fake.count[OS_PURGE], before);
    os_fake.now_ms += 25;
    put_and_take_some();
  }
  for (size_t i = 0; i < 20; i++) {
    os_fake.now_ms += 25;
    put_and_take_some();
  }
  assert_true(os_fake.count[OS_PURGE] > before && bin.idle <= 1);
  check_bin(&bin);
}

static void purges_that_fail(void **state)
{
  (void)state;
  take_large();
  put_every_other();
  os_fake.fail_kinds = 1u << OS_PURGE;
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

static void *end_at_once(void *unused) { return unused; }

static void another_thread_waits(os_call_t kind)
{
  if (kind == OS_PURGE)
    bin.lock.word = 2;
}

/* A thread that waits for the bin is let in after every few calls. Locks are shared once there was a second thread. */
static void others_are_let_in(void **state)
{
  pthread_t thread;
  (void)state;
  assert_true(pthread_create(&thread, NULL, end_at_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
  take_large();
  put_every_other();
  uint64_t calls = os_fake.count[OS_PURGE], waits = os_fake.waits;
  os_fake.during = another_thread_waits;
  bin_purge(&bin);
  os_fake.during = NULL;
  calls = os_fake.count[OS_PURGE] - calls;
  assert_true(calls > PURGE_CALLS && os_fake.waits - waits >= calls / PURGE_CALLS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_of_free_blocks),
    cmocka_unit_test(pages_between_small_blocks),
    cmocka_unit_test(all_pages_but_one),
    cmocka_unit_test(memory_of_a_breath),
    cmocka_unit_test(purged_blocks_last),
    cmocka_unit_test(purged_in_steps),
    cmocka_unit_test(blocks_of_depots),
    cmocka_unit_test(at_once),
    cmocka_unit_test(due_until_purged),
    cmocka_unit_test(frequent_callers),
    cmocka_unit_test_prestate(others_need_not_wait, &(bool){true}),
    cmocka_unit_test_prestate(others_need_not_wait, &(bool){false}),
    cmocka_unit_test(of_one_thread),
    cmocka_unit_test(purges_that_fail),
    cmocka_unit_test(others_are_let_in),
  };
  return cmocka_run_group_tests_name("bin_purges", tests, NULL, NULL);
}
