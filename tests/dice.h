/* SPDX-License-Identifier: MIT
 * Numbers that a seed repeats on every machine (splitmix64), and bytes that say whose they are. */
#ifndef TESTS_DICE_H
#define TESTS_DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t mix(uint64_t x)
{
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static inline uint64_t roll(uint64_t *dice) { return mix(*dice += 0x9e3779b97f4a7c15u); }
static inline size_t below(uint64_t *dice, size_t n) { return (size_t)(roll(dice) % n); }
static inline bool one_in(uint64_t *dice, size_t n) { return below(dice, n) == 0; }

/* Of the contents under a key, the byte at i. */
static inline unsigned char byte_of(uint64_t key, size_t i) { return (unsigned char)((key ^ i) * 0x9e3779b97f4a7c15u >> 56); }

#endif
