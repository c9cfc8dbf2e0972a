/* SPDX-License-Identifier: MIT
 * Random pops and pushes against a model of what is live. */
#include "one_bin.h"
#include "option.h"

static void empty_from_the_start(void **state)
{
  (void)state;
  all_new(1);
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    assert_null(MAGAZINE_POP(&cache.of[c]));
    assert_false(MAGAZINE_PUSH(&cache.of[c], &bin));
    assert_int_equal(magazines_count(&magazines, c), 0);
    assert_false(magazines_hold(&magazines, c, &bin));
  }
  for (unsigned i = 0; i < MAGAZINE_WORDS; i++)
    assert_null(magazine_sentinel[i]);
}

static void last_in_first_out(void **state)
{
  (void)state;
  all_new(8);
  void *blocks[10];
  for (size_t i = 0; i < 10; i++)
    blocks[i] = allocate();
  for (size_t i = 0; i < 10; i++)
    give(blocks[i]);
  for (size_t i = 10; i--;)
    assert_ptr_equal(allocate(), blocks[i]);
  agrees(10);
}

/* A thread with a small allowance has small magazines, and none of a class whose smallest would be too large. What it counts is
 * never less than what it holds. */
static void small_allowances(void **state)
{
  enum { MANY = 1000, LEAST = 20 << 10 };
  static void *taken[MANY];
  size_t without = 0;
  (void)state;
  allowances_init(0); /* so that none of them grows */
  for (unsigned c = 1; c <= CLASS_CACHED; c += 3)
    for (size_t allowed = LEAST; allowed <= 16 * LEAST; allowed *= 2) {
      allowance_t allowance = {.left = (ptrdiff_t)allowed, .allowed = allowed, .tight = true};
      all_new(c);
      magazines_init(&magazines, &cache, 1, &allowance, false);
      size_t count = min_size(MANY, (1 << 20) / bin.block_size), most = 0;
      for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < count; i++)
          taken[i] = allocate();
        for (size_t i = 0; i < count; i++) {
          give(taken[i]);
          size_t held = magazines_count(&magazines, c) * bin.block_size;
          assert_true(held <= magazines_counted(&magazines, &bin));
          assert_int_equal(allowance.left, (ptrdiff_t)(allowed - magazines_counted(&magazines, &bin)));
          most = max_size(most, held);
        }
        assert_true(magazines.of[c].price <= allowed / ALLOWANCE_MAGAZINE);
      }
      without += most == 0;
      magazines_flush(&magazines, &bin);
      assert_int_equal(allowance.left, allowed);
      agrees(0);
    }
  assert_in_range(without, 1, CLASS_CACHED);
  allowances_init(CACHE_BYTES_DEFAULT);
}

static void random_traffic(void **state)
{
  (void)state;
  static void *live[LIVE];
  dice_t dice = {6};
  for (unsigned c = 1; c <= CLASS_CACHED; c += 6) {
    bin_threads = c % 4 == 3 ? 100 : 1; /* beside many threads magazines begin small */
    all_new(c);
    size_t count = 0, most = min_size(LIVE, 12 * MIB / bin.block_size);
    for (size_t i = 0; i < 20000; i++) {
      bool grow = dice_below(&dice, 100) < (i / 3000 % 2 ? 35 : 65);
      if (grow && count < most) {
        live[count] = allocate();
        assert_non_null(live[count]);
        pattern_write(live[count], min_size(bin.block_size, 64), (uintptr_t)live[count]);
        count++;
      } else if (count) {
        size_t at = dice_below(&dice, count);
        assert_true(pattern_holds(live[at], min_size(bin.block_size, 64), (uintptr_t)live[at]));
        give(live[at]);
        live[at] = live[--count];
      }
      if (i % 500 == 0)
        agrees(count);
    }
    magazines_flush(&magazines, &bin);
    assert_int_equal(magazines_count(&magazines, c), 0);
    agrees(count);
    while (count)
      give(live[--count]);
    magazines_flush(&magazines, &bin);
    bin_drain(&bin);
    agrees(0);
    assert_int_equal(bin.slab_count, 0);
  }
  bin_threads = 1;
}

static void held(void **state)
{
  (void)state;
  all_new(9);
  static void *blocks[200];
  for (size_t i = 0; i < 200; i++)
    blocks[i] = allocate();
  for (size_t i = 0; i < 200; i++)
    assert_false(magazines_hold(&magazines, 9, blocks[i]));
  for (size_t i = 0; i < 200; i++)
    give(blocks[i]);
  for (size_t i = 0; i < 200; i++) {
    const run_t *slab = run_of(bin.space->own_arena, blocks[i]);
    char *start;
    bool in_slab = !bin_ask(&bin, slab, blocks[i], &start);
    assert_int_equal(magazines_hold(&magazines, 9, blocks[i]) + bin_depot_holds(&bin, blocks[i]) + in_slab, 1);
  }
}

/* A class that was not used since the last tick gives all back, one that was what it never reached. */
static void ticks(void **state)
{
  (void)state;
  static void *blocks[1500];
  all_new(9);
  for (size_t i = 0; i < 1500; i++)
    blocks[i] = allocate();
  for (size_t i = 0; i < 1500; i++)
    give(blocks[i]);
  size_t stock = magazines.of[9].count;
  assert_true(stock >= 2);
  magazines_tick(&magazines, &bin);
  for (size_t i = 0; i < 20; i++) {
    give(allocate());
    give(blocks[0] = allocate());
    void *block = allocate();
    magazines_tick(&magazines, &bin);
    give(block);
    agrees(0);
  }
  assert_true(magazines.of[9].count < stock);
  magazines_tick(&magazines, &bin);
  magazines_tick(&magazines, &bin);
  assert_int_equal(magazines_count(&magazines, 9), 0);
  agrees(0);
}

/* After a reset nobody asks for the entries; the magazines can be used again. */
static void dropped(void **state)
{
  (void)state;
  all_new(9);
  static void *blocks[500];
  for (unsigned turn = 0; turn < 3; turn++) {
    for (size_t i = 0; i < 500; i++)
      blocks[i] = allocate();
    for (size_t i = 0; i < 100 * turn; i++)
      give(blocks[i]);
    magazines_drop(&magazines, &bin);
    bin_reset(&bin);
    assert_int_equal(magazines_count(&magazines, 9), 0);
    agrees(0);
  }
}

/* No memory for magazines: every block finds its way all the same. */
static void without_magazines(void *argument)
{
  (void)argument;
  static void *blocks[1000];
  all_new(11);
  os_fake.refuse = true;
  must(!allocate() && cache.of[11].below == MAGAZINE_SENTINEL);
  for (size_t i = 0; i < 1000; i++)
    must(bin_take(&bin, &blocks[i], 1, NULL) == 1);
  for (size_t i = 0; i < 500; i++)
    give(blocks[i]);
  must(bin.outstanding == 500 && magazines_count(&magazines, 11) == 0);
  os_fake_heal();
  for (size_t i = 500; i < 1000; i++)
    give(blocks[i]);
  must(magazines_count(&magazines, 11) + bin_figures(&bin, 0).cached_blocks == bin.outstanding);
  check_bin(&bin);
}

static void no_memory(void **state)
{
  (void)state;
  in_child(without_magazines, NULL);
}

/* No memory for any more: the system is asked once for a magazine, not for a block, and what it refuses is not kept away. */
static void without_more_magazines(void *argument)
{
  (void)argument;
  static void *blocks[LIVE];
  all_new(9);
  for (size_t i = 0; i < LIVE; i++)
    must((blocks[i] = allocate()) != NULL);
  os_fake.refuse = true;
  while (metadata_take(MAGAZINE_BYTES, MAGAZINE_BYTES))
    ;
  uint64_t failed = os_fake.failed;
  for (size_t i = 0; i < LIVE; i++)
    give(blocks[i]);
  must(os_fake.failed > failed && (os_fake.failed - failed) * bin.magazine_capacity < 16 * LIVE);
  os_fake_heal();
  must(magazines_count(&magazines, 9) + bin_figures(&bin, 0).cached_blocks == bin.outstanding);
  check_bin(&bin);
}

static void no_more_memory(void **state)
{
  (void)state;
  in_child(without_more_magazines, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_memory), /* first: nothing has taken a magazine yet */
    cmocka_unit_test(no_more_memory),
    cmocka_unit_test(empty_from_the_start),
    cmocka_unit_test(last_in_first_out),
    cmocka_unit_test(small_allowances),
    cmocka_unit_test(random_traffic),
    cmocka_unit_test(held),
    cmocka_unit_test(ticks),
    cmocka_unit_test(dropped),
  };
  return cmocka_run_group_tests_name("magazine", tests, NULL, NULL);
}
