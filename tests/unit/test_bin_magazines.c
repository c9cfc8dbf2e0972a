/* SPDX-License-Identifier: MIT
 * Magazines of a bin: how they are filled, which depot has them, and when they go back. */
#include "bins.h"
#include "os_fake.h"
#include "space/metadata.h"

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

/* As for a thread that has had blocks of the class before. */
static void **refill(unsigned k, unsigned shard)
{
  return bin_exchange_empty(&bin, bin_new_magazine(&bin, k, shard), k, shard);
}

static void a_refill_is_in_address_order(void **state)
{
  (void)state;
  class_new(4);
  for (unsigned k = 2; k <= MAGAZINE_CAPACITY_MOST; k++) {
    void **top = refill(k, MY_SHARD);
    assert_non_null(top);
    assert_int_equal(count_down(top), k);
    assert_true(magazine_is_full_at(top + 1));
    for (size_t i = 1; i < k; i++)
      assert_true((char *)top[-(ptrdiff_t)i] == (char *)top[-(ptrdiff_t)i + 1] + bin.block_size);
    bin_give_magazine(&bin, top, MY_SHARD);
    bin_drain(&bin);
    check_bin(&bin);
  }
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
    bin_give_magazine(&bin, empty_out(top, blocks, &count), MY_SHARD);
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
  assert_int_equal(bin_figures(&bin, 0).cached_blocks, bin.depots.count * k);
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
    bin_give_magazine(&bin, empty_out(top, blocks, &count), MY_SHARD);
  }
  uint32_t before = bin.depots.bound;
  for (size_t turn = 0; turn < 20; turn++) {
    void **floor = bin_exchange_full(&bin, fill(bin_new_magazine(&bin, k, MY_SHARD), blocks + turn * k, k), k, MY_SHARD);
    size_t back = 0;
    void **top = bin_exchange_empty(&bin, floor, k, YOUR_SHARD);
    bin_give_magazine(&bin, empty_out(top, blocks + turn * k, &back), MY_SHARD);
    assert_int_equal(back, k);
  }
  assert_true(bin.depots.bound > before);
  for (size_t turn = 0; turn < 12; turn++)
    bin_tick(&bin, 0);
  assert_int_equal(bin.depots.bound, 0);
  check_bin(&bin);
}

/* A depot of four magazines, of which the shard's own threads have taken `need` again. */
static void my_depot(unsigned k, unsigned need)
{
  void **tops[4];
  for (size_t i = 0; i < 4; i++)
    tops[i] = refill(k, MY_SHARD);
  for (size_t i = 0; i < 4; i++)
    bin_give_magazine(&bin, tops[i], MY_SHARD);
  for (size_t i = 0; i < need; i++)
    tops[i] = refill(k, MY_SHARD);
  for (size_t i = 0; i < need; i++)
    bin_give_magazine(&bin, tops[i], MY_SHARD);
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
    bin_tick(&bin, 0);
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
    bin_tick(&bin, 0);
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
    bin_give_magazine(&bin, top, MY_SHARD);
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
    tops[i] = refill(k, MY_SHARD);
  for (size_t i = 0; i < 4; i++)
    bin_give_magazine(&bin, tops[i], MY_SHARD);
  uint32_t deep = bin.depots.count;
  assert_true(deep >= 2);
  for (size_t i = 0; i < 10; i++) {
    bin_tick(&bin, 0);
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
  while (bin_new_magazine(&bin, 40, MY_SHARD)) {}
  void **same = bin_exchange_full(&bin, fill(floor, blocks, 40), 40, MY_SHARD);
  must(same == floor && bin.outstanding == 0 && bin.depots.count == 0);
  os_fake_heal();
  check_bin(&bin);
}

/* Without memory for depots the entries of a full magazine go to the slabs, and the next one tries again. */
static void no_memory_for_depots(void *argument)
{
  (void)argument;
  static void *blocks[2][MAGAZINE_CAPACITY_MOST];
  void **floors[2], **last;
  class_new(7);
  for (int i = 0; i < 2; i++) {
    floors[i] = bin_new_magazine(&bin, 40, MY_SHARD);
    must(floors[i] && bin_take(&bin, blocks[i], 40, NULL) == 40);
  }
  os_fake.refuse = true;
  while (metadata_take(DEPOT_SHARDS * sizeof(depot_t), DEPOT_LINE)) {}
  bin_give_magazine(&bin, fill(floors[0], blocks[0], 40), MY_SHARD);
  must(bin.outstanding == 40 && !bin.depots.shards && (last = bin_new_magazine(&bin, 40, MY_SHARD)) == floors[0]);
  bin_give_magazine(&bin, last, MY_SHARD); /* there is an empty one again */
  must(bin_exchange_full(&bin, fill(floors[1], blocks[1], 40), 40, MY_SHARD) == floors[1]);
  must(bin.outstanding == 0 && !bin.depots.shards);
  os_fake_heal();
  check_bin(&bin);
  must(bin_take(&bin, blocks[0], 40, NULL) == 40);
  must(bin_exchange_full(&bin, fill(floors[1], blocks[0], 40), 40, MY_SHARD) != floors[1]);
  must(bin.outstanding == 40 && bin.depots.count == 1);
  check_bin(&bin);
}

static void no_memory(void **state)
{
  (void)state;
  in_child(no_memory_for_magazines, NULL);
  in_child(no_memory_for_depots, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_memory), /* first: nothing has taken a magazine yet */
    cmocka_unit_test(a_refill_is_in_address_order),
    cmocka_unit_test(the_depot),
    cmocka_unit_test(blocks_that_wander),
    cmocka_unit_test(a_shard_is_left_what_it_needs),
    cmocka_unit_test(a_need_ends),
    cmocka_unit_test(slabs_of_other_threads),
    cmocka_unit_test(ticks_give_back_what_was_not_needed),
  };
  return cmocka_run_group_tests_name("bin_magazines", tests, NULL, NULL);
}
