/* SPDX-License-Identifier: MIT
 * The locks of depots: who waits for whom, and which bins ticks still have to look at. */
#include "bins.h"
#include "check/check.h"
#include "os_fake.h"
#include <pthread.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000, LIFE_MS = 20 };

typedef struct visit {
  unsigned shard;
  bool done;
} visit_t;

/* A magazine of the shard's depot is exchanged, and comes back. */
static void *exchange(void *argument)
{
  visit_t *visit = argument;
  unsigned k = bin.magazine_capacity;
  void **top = bin_exchange_empty(&bin, NULL, k, visit->shard);
  must(top);
  bin_give_magazine(&bin, top, visit->shard);
  __atomic_store_n(&visit->done, true, __ATOMIC_RELEASE);
  return NULL;
}

/* Says whether a thread that exchanges magazines of the shard does not wait for the lock. */
static bool passes(lock_t *held, unsigned shard, bool expected)
{
  pthread_t thread;
  visit_t visit = {shard, false};
  lock_acquire(held);
  must(pthread_create(&thread, NULL, exchange, &visit) == 0);
  for (int i = 0; i < (expected ? PATIENCE_MS : LIFE_MS) && !__atomic_load_n(&visit.done, __ATOMIC_ACQUIRE); i++)
    usleep(1000);
  bool passed = __atomic_load_n(&visit.done, __ATOMIC_ACQUIRE);
  lock_release(held);
  pthread_join(thread, NULL);
  return passed;
}

static void *nothing(void *argument) { return argument; }

/* A bin with two magazines in each of two depots. */
static void two_depots(void)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0); /* locks are real from here on */
  class_new(20);
  void **tops[4];
  for (unsigned i = 0; i < 4; i++)
    tops[i] = bin_exchange_empty(&bin, NULL, bin.magazine_capacity, MY_SHARD);
  for (unsigned i = 0; i < 4; i++)
    bin_give_magazine(&bin, tops[i], i < 2 ? MY_SHARD : YOUR_SHARD);
  must(bin.depots.of[MY_SHARD].count == 2 && bin.depots.of[YOUR_SHARD].count == 2);
}

static void an_exchange_does_not_wait_for_the_slabs(void **state)
{
  (void)state;
  two_depots();
  assert_true(passes(&bin.lock, MY_SHARD, true));
  check_bin(&bin);
}

static void shards_do_not_wait_for_each_other(void **state)
{
  (void)state;
  two_depots();
  assert_true(passes(&bin.depots.of[YOUR_SHARD].lock, MY_SHARD, true));
  assert_false(passes(&bin.depots.of[MY_SHARD].lock, MY_SHARD, false));
  check_bin(&bin);
}

static void tick_until_quiet(void)
{
  static uint64_t now;
  bin.space->purge_delay_ms = 100;
  for (int i = 0; i < 100 && bin.due; i++) {
    bins_begin_tick();
    bins_tick(1, 1, now += 1000);
  }
}

/* A magazine that a depot takes after the last tick would stay there for ever, did it not make the bin due. */
static void a_depot_that_is_used_makes_its_bin_due(void **state)
{
  (void)state;
  for (int way = 0; way < 2; way++) {
    class_new(20);
    unsigned k = bin.magazine_capacity;
    void **top = bin_exchange_empty(&bin, NULL, k, MY_SHARD), **floor = bin_new_magazine(&bin, k, MY_SHARD);
    assert_true(bin.due && floor);
    tick_until_quiet();
    assert_false(bin.due);
    if (way == 0)
      bin_give_magazine(&bin, top, MY_SHARD);
    else
      assert_non_null(bin_exchange_full(&bin, top, k, MY_SHARD));
    assert_true(bin.due && bin.depots.count == 1);
    check_bin(&bin);
    tick_until_quiet();
    assert_true(!bin.due && bin.depots.count == 0 && bin.outstanding == 0);
  }
}

/* A bin that has much to purge is visited again and again. Its depots still give up what each epoch did not need. */
static void a_bin_that_goes_on_ends_epochs(void **state)
{
  enum { MANY = 1400, DELAY_MS = 8, EPOCH_MS = DELAY_MS / LOW_WATER_EPOCHS, TICKS = 3 * LOW_WATER_EPOCHS };
  static void *blocks[MANY];
  uint64_t now = 1000000;
  (void)state;
  class_new(size_class_of(os_fake.page_size));
  bin.space->purge_delay_ms = DELAY_MS;
  bin.epoch_ms = now;
  take_all(blocks, MANY);
  for (size_t i = 0; i < MANY; i += 2)
    bin_put(&bin, &blocks[i], 1);
  while (!bin.unneeded) {
    bins_begin_tick();
    bins_tick(1, 1, now += EPOCH_MS);
  }
  unsigned k = bin.magazine_capacity;
  void *entries[MAGAZINE_CAPACITY_MOST];
  for (unsigned i = 0; i < k; i++)
    entries[i] = blocks[2 * i + 1];
  bin_give_magazine(&bin, fill(bin_new_magazine(&bin, k, MY_SHARD), entries, k), MY_SHARD);
  assert_int_equal(bin.depots.count, 1);
  for (int i = 0; i < TICKS; i++) {
    bins_begin_tick();
    bins_tick(1, 1, now += EPOCH_MS);
  }
  assert_true(bins_tick_is_under_way() && bin.unneeded);
  assert_int_equal(bin.depots.count, 0);
  check_bin(&bin);
}

/* The empty magazine that is given for a stolen one goes where the next is filled. */
static void empties_go_back(void **state)
{
  (void)state;
  two_depots();
  unsigned k = bin.magazine_capacity;
  void **empty = bin_new_magazine(&bin, k, MY_SHARD);
  for (int i = 0; i < 3; i++) {
    void **top = bin_exchange_empty(&bin, empty, k, MY_SHARD);
    assert_non_null(top);
    empty = top - k;
    *empty = NULL;
  }
  assert_true(bin.depots.of[YOUR_SHARD].count == 1 && bin.depots.of[YOUR_SHARD].empties != NULL);
}

/* An empty magazine is no reason to use the depots of a bin, whose locks a fork would have to look at. */
static void unused_depots_get_no_empties(void **state)
{
  (void)state;
  class_new(20);
  unsigned k = bin.magazine_capacity;
  void **floor = bin_new_magazine(&bin, k, MY_SHARD), **top = bin_exchange_empty(&bin, NULL, k, MY_SHARD);
  assert_true(floor && top);
  *floor = NULL;
  bin_drop_magazine(&bin, floor, MY_SHARD);
  assert_true(bin.depots.shards == 0 && bin.depots.of[MY_SHARD].empties == NULL);
  assert_ptr_equal(bin_new_magazine(&bin, k, YOUR_SHARD), floor);
  void *block = *top;
  bin_give_magazine(&bin, top - 1, MY_SHARD); /* it is not full, so its blocks go to their slab */
  assert_true(bin.depots.shards == 0 && bin.outstanding == 1);
  bin_put(&bin, &block, 1);
  top = bin_exchange_empty(&bin, floor, k, MY_SHARD);
  bin_give_magazine(&bin, top, MY_SHARD);
  assert_true(bin.depots.shards == DEPOT_SHARDS && bins_with_depots == &bin && check_bin(&bin));
  bin_drop_magazine(&bin, bin_new_magazine(&bin, k, MY_SHARD), MY_SHARD);
  assert_non_null(bin.depots.of[MY_SHARD].empties);
  bin_destroy(&bin);
  assert_null(bins_with_depots);
  assert_true(bin.depots.shards && bin.depots.of != depots_of_nobody); /* questions may still read them */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_bin_that_goes_on_ends_epochs),
    cmocka_unit_test(a_depot_that_is_used_makes_its_bin_due),
    cmocka_unit_test(empties_go_back),
    cmocka_unit_test(an_exchange_does_not_wait_for_the_slabs),
    cmocka_unit_test(shards_do_not_wait_for_each_other),
    cmocka_unit_test(unused_depots_get_no_empties),
  };
  return cmocka_run_group_tests_name("bin_depots", tests, NULL, NULL);
}
