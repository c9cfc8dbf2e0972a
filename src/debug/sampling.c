/* SPDX-License-Identifier: MIT */
#include "debug/sampling.h"
#include "debug/system.h"

static uint64_t counter, counter_of_child;

void sampling_begin(void) { counter = os_random(0); }

void sampling_fork_prepare(void) { counter_of_child = sampling_draw(); }
void sampling_fork_child(void) { counter = counter_of_child; }

/* The counter, scrambled (splitmix64, by Steele, Lea and Flood). */
uint64_t sampling_draw(void)
{
  uint64_t x = __atomic_add_fetch(&counter, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Returns -log2(x / 2^64) in units of 2^-24, for x > 0. The leading zeros are the integer part. Each squaring of the rest, a
 * number from 1 to 2, gives one more bit. */
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

/* Distances between events that occur at each byte with equal probability are distributed like -ln(x), x in (0, 1]. */
uint64_t sampling_gap(uint64_t mean)
{
  if (mean <= 1)
    return 1;
  enum { LN2_BITS = 24, LN2 = 11629080 }; /* ln(2) in units of 2^-24 */
  uint64_t gap = negative_log2(sampling_draw() | 1);
  return (gap * LN2 >> LN2_BITS) * mean / ((uint64_t)1 << LOG_BITS) + 1;
}

/* Returns 1 - e^-x for x from 0 to 1: a series whose next term is less than 1/40,000 of the sum. */
static double sampling_of_any_below_one(double x)
{
  double sum = 0, part = x;
  for (int i = 1; i <= 7; i++) {
    sum += part;
    part *= -x / (i + 1);
  }
  return sum;
}

/* A block with x events on average has any event with probability 1 - e^-x. Twice as much memory turns p into 1 - (1 - p)^2.
 * The probability is 1 from x = 64 on. */
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
