/* SPDX-License-Identifier: MIT
 * Ranges of bits against the same done bit by bit, for every pair of ends around word borders. */
#include "unit.h"

enum { BITS = 200, WORDS = (BITS + WORD_BITS - 1) / WORD_BITS };

static const size_t ends[] = {0, 1, 5, 62, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, BITS};
enum { ENDS = sizeof ends / sizeof *ends };

static void fill_at_random(word_t *map, uint64_t seed)
{
  dice_t dice = {seed};
  for (size_t w = 0; w < WORDS; w++)
    map[w] = seed % 3 == 0 ? 0 : seed % 3 == 1 ? ~(word_t)0 : (word_t)(dice_roll(&dice) & dice_roll(&dice));
}

static void same_as_by_hand(size_t from, size_t to, uint64_t seed)
{
  word_t map[WORDS], set[WORDS], clear[WORDS];
  size_t count = 0, first_set = to, first_clear = to;
  fill_at_random(map, seed);
  memcpy(set, map, sizeof map);
  memcpy(clear, map, sizeof map);
  for (size_t i = from; i < to; i++) {
    count += bit_test(map, i);
    first_set = first_set == to && bit_test(map, i) ? i : first_set;
    first_clear = first_clear == to && !bit_test(map, i) ? i : first_clear;
    bit_set(set, i);
    bit_clear(clear, i);
  }
  assert_int_equal(bits_count(map, from, to), count);
  assert_int_equal(bits_next_set(map, from, to), first_set);
  assert_int_equal(bits_next_clear(map, from, to), first_clear);
  word_t work[WORDS];
  memcpy(work, map, sizeof map);
  bits_set(work, from, to);
  assert_memory_equal(work, set, sizeof map);
  memcpy(work, map, sizeof map);
  bits_clear(work, from, to);
  assert_memory_equal(work, clear, sizeof map);
}

static void ranges(void **state)
{
  (void)state;
  for (size_t i = 0; i < ENDS; i++)
    for (size_t j = i; j < ENDS; j++)
      for (uint64_t seed = 0; seed < 12; seed++)
        same_as_by_hand(ends[i], ends[j], seed);
}

static void previous_set(void **state)
{
  (void)state;
  word_t map[WORDS] = {0};
  bit_set(map, 3);
  bit_set(map, 64);
  bit_set(map, 191);
  for (size_t i = 3; i < BITS; i++)
    assert_int_equal(bits_previous_set(map, i), i < 64 ? 3 : i < 191 ? 64 : 191);
}

static void powers_of_two(void **state)
{
  (void)state;
  assert_false(is_power_of_two(0));
  for (unsigned n = 0; n < ADDRESS_BITS; n++) {
    size_t power = (size_t)1 << n;
    assert_true(is_power_of_two(power));
    assert_int_equal(log2_floor(power), n);
    assert_int_equal(log2_floor(power | (power - 1)), n);
    assert_int_equal(round_up(power, power), power);
    assert_int_equal(round_down(power, power), power);
    if (n > 1) {
      assert_false(is_power_of_two(power + 1));
      assert_int_equal(round_up(power - 1, power), power);
      assert_int_equal(round_down(power - 1, power), 0);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranges),
    cmocka_unit_test(previous_set),
    cmocka_unit_test(powers_of_two),
  };
  return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
