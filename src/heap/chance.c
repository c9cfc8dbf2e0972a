/* SPDX-License-Identifier: MIT */
#include "heap/chance.h"
#include "os/os.h"

/* A counter, scrambled (splitmix64, of Steele, Lea and Flood). */
uint64_t chance_draw(void)
{
  static uint64_t counter;
  uint64_t drawn = __atomic_add_fetch(&counter, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
  uint64_t x = drawn ^ os_now_ns() ^ (uint64_t)os_process() << 32 ^ (uint64_t)(uintptr_t)&counter << 13;
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
uint64_t chance_gap(uint64_t mean)
{
  if (mean <= 1)
    return 1;
  enum { LN2_BITS = 24, LN2 = 11629080 }; /* ln(2) in parts of 2^24 */
  uint64_t gap = negative_log2(chance_draw() | 1);
  return (gap * LN2 >> LN2_BITS) * mean / ((uint64_t)1 << LOG_BITS) + 1;
}
