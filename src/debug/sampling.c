/* SPDX-License-Identifier: MIT */
#include "debug/sampling.h"
#include "debug/system.h"

static uint64_t counter, counter_of_child;

void sampling_begin(void) { counter = os_random(0); }

void sampling_fork_prepare(void) { counter_of_child = sampling_draw(); }
void sampling_fork_child(void) { counter = counter_of_child; }

/* The counter, scrambled (splitmix64, of Steele, Lea and Flood). */
uint64_t sampling_draw(void)
{
  uint64_t x = __atomic_add_fetch(&counter, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* -log2(x / 2^64), in parts of 2^24, of x > 0. The places in front of the first bit are its integer part. Each square of what
 * is left, as a number from 1 to 2, gives one bit more. */
enum { LOG_BITS = 24 };
static uint64_t negative_log2(uint64_t x)
{
  unsigned zeroes = (unsigned)__builtin_clzll(x);
  uint64_t whole = (uint64_t)(zeroes + 1) << LOG_BITS, part = 0, m = x << zeroes >> 32;
  for (unsigned i = LOG_BITS; i--;) {
    m = m * m >> 31;
    if (m >> 32) {
      m >>= 1;
      part |= (uint64_t)1 << i;
    }
  }
  return whole - part;
}

/* The distances between events that are left to chance at every byte are distributed as -ln(x) is, with x from 0 to 1. */
uint64_t sampling_gap(uint64_t mean)
{
  if (mean <= 1)
    return 1;
  enum { LN2_BITS = 24, LN2 = 11629080 }; /* ln(2) in parts of 2^24 */
  uint64_t gap = negative_log2(sampling_draw() | 1);
  return (gap * LN2 >> LN2_BITS) * mean / ((uint64_t)1 << LOG_BITS) + 1;
}

/* 1 - e^-x, for x from 0 to 1: the series, whose next part is less than a 40,000th of the sum. */
static double sampling_of_any_below_one(double x)
{
  double sum = 0, part = x;
  for (int i = 1; i <= 7; i++) {
    sum += part;
    part *= -x / (i + 1);
  }
  return sum;
}

/* A block has an event in it with the probability 1 - e^-x, where x is how many it has on average. Of twice as much memory the
 * probability p becomes 1 - (1 - p)^2. From 64 on it is 1. */
uint64_t sampling_weight(uint64_t size, uint64_t mean)
{
  double x = (double)size / (double)(mean + !mean);
  if (x >= 64 || mean <= 1 || !size)
    return size;
  int doublings = 0;
  for (; x > 1; x /= 2)
    doublings++;
  double chance = sampling_of_any_below_one(x);
  for (; doublings > 0; doublings--)
    chance *= 2 - chance;
  return (uint64_t)((double)size / chance + 0.5);
}
