/* SPDX-License-Identifier: MIT
 * Which blocks are samples, and for how much each stands: samples weigh, on average, what all blocks do. */
#include "debug/sampling.h"
#include "unit.h"

/* The probability that a block has an event in it, once more and slowly: (1 - 1/mean)^size is that it has none. */
static double none_in(uint64_t size, uint64_t mean)
{
  double none = 1, one = 1 - 1 / (double)mean;
  for (uint64_t bits = size; bits; bits >>= 1) {
    none *= bits & 1 ? one : 1;
    one *= one;
  }
  return none;
}

static void test_weights(void **state)
{
  (void)state;
  for (uint64_t mean = 4096; mean <= (uint64_t)1 << 31; mean *= 8)
    for (uint64_t size = 1; size < (uint64_t)1 << 40; size = size * 5 / 4 + 1) {
      double wanted = (double)size / (1 - none_in(size, mean)), found = (double)sampling_weight(size, mean);
      assert_true(found >= (double)size);
      assert_true(found > wanted * 0.999 && found < wanted * 1.001);
    }
  assert_int_equal(sampling_weight(0, 1000), 0);
  for (uint64_t size = 1; size < 1 << 20; size *= 3) { /* each is one */
    assert_int_equal(sampling_weight(size, 1), size);
    assert_int_equal(sampling_weight(size, 0), size);
  }
  assert_int_equal(sampling_weight(UINT64_MAX >> 1, 1 << 19), UINT64_MAX >> 1);
}

/* Of a million of each size: the sum has a standard deviation that is known, and is not off by eight of them. */
static void test_samples_stand_for_all(void **state)
{
  (void)state;
  enum { MEAN = 10000, BLOCKS = 1000000 };
  static const uint64_t sizes[] = {16, 1000, 10000, 50000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint64_t left = sampling_gap(MEAN), weight = sampling_weight(sizes[i], MEAN);
    double sum = 0, all = (double)sizes[i] * BLOCKS, chance = (double)sizes[i] / (double)weight;
    for (size_t block = 0; block < BLOCKS; block++) {
      if (left > sizes[i]) {
        left -= sizes[i];
        continue;
      }
      sum += (double)weight;
      left = sampling_gap(MEAN);
    }
    double variance = (double)weight * (double)weight * chance * (1 - chance) * BLOCKS, off = sum - all;
    assert_true(off * off < 64 * variance + all);
  }
}

/* Neither do they draw what another child of their parent does. */
static void test_children_draw_other_numbers(void **state)
{
  enum { DRAWS = 1000 };
  static uint64_t drawn[3 * DRAWS]; /* by the parent, and by two children */
  (void)state;
  for (size_t child = 0; child < 3; child++) {
    sampling_fork_prepare();
    for (size_t i = 0; child == 0 && i < DRAWS; i++)
      drawn[i] = sampling_draw();
    if (child == 0)
      continue;
    sampling_fork_child();
    for (size_t i = 0; i < DRAWS; i++)
      drawn[child * DRAWS + i] = sampling_draw();
  }
  for (size_t i = 0; i < 3 * DRAWS; i++)
    for (size_t j = 0; j < i; j++)
      assert_true(drawn[i] != drawn[j]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_weights),
    cmocka_unit_test(test_samples_stand_for_all),
    cmocka_unit_test(test_children_draw_other_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
