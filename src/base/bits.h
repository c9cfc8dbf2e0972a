/* SPDX-License-Identifier: MIT
 * Arithmetic on powers of two, and on bitmaps. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include "base/machine.h"
#include <stdbool.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define NOINLINE    __attribute__((noinline))
#define INTERNAL    __attribute__((visibility("hidden"))) /* on variables of hot paths: no detour through the GOT */
#define COLD        __attribute__((noinline, cold))

/* Marks a rare step of a fast path in a header, together with NOINLINE or COLD. Each file that takes the step has its own copy,
 * so the compiler sees which registers the step leaves alone, and the fast path saves none. That is worth two to four
 * instructions of a get of an object pool. */
#define OWN_COPY static __attribute__((unused))

/* Marks a function that reads without a lock what the owner may change at any moment. The race is intended: what is read is
 * only a figure, or is checked again. So the thread sanitizer is told to skip the function. */
#define READS_BESIDE_OWNER __attribute__((noinline, no_sanitize("thread")))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static inline bool is_power_of_two(size_t n) { return n && !(n & (n - 1)); }

/* `to` is a power of two here and below. */
static inline size_t round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }
static inline size_t round_down(size_t n, size_t to) { return n & ~(to - 1); }

/* The position of the highest set bit; n is not 0. */
static inline unsigned log2_floor(size_t n) { return ADDRESS_BITS - 1 - (unsigned)__builtin_clzl(n); }

static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

/* The positions of the highest and of the lowest set bit of what is not 0. Of half of it a machine of 32 bits finds the lowest
 * by itself; for the whole gcc would call its library. */
static inline unsigned highest_of_64(uint64_t bits) { return 63 - (unsigned)__builtin_clzll(bits); }
static inline unsigned lowest_of_64(uint64_t bits)
{
  if (ADDRESS_BITS > 32)
    return (unsigned)__builtin_ctzll(bits);
  return (uint32_t)bits ? (unsigned)__builtin_ctz((uint32_t)bits) : 32 + (unsigned)__builtin_ctz((uint32_t)(bits >> 32));
}

/* A word of a bitmap. That of a firmware's processor is as long as its registers. */
#ifndef TIDEPOOL_WORD_BITS
#if defined TIDEPOOL_EMBEDDED && UINTPTR_MAX <= UINT32_MAX
#define TIDEPOOL_WORD_BITS 32
#else
#define TIDEPOOL_WORD_BITS 64
#endif
#endif
#if TIDEPOOL_WORD_BITS == 32
typedef uint32_t word_t;
enum { WORD_LOG2 = 5 };
static inline unsigned highest_bit(word_t word) { return 31 - (unsigned)__builtin_clz(word); }
static inline unsigned lowest_bit(word_t word) { return (unsigned)__builtin_ctz(word); }
static inline unsigned bits_set_in(word_t word) { return (unsigned)__builtin_popcount(word); }
#else
typedef uint64_t word_t;
enum { WORD_LOG2 = 6 };
static inline unsigned highest_bit(word_t word) { return highest_of_64(word); }
static inline unsigned lowest_bit(word_t word) { return lowest_of_64(word); }
static inline unsigned bits_set_in(word_t word) { return (unsigned)__builtin_popcountll(word); }
#endif
enum { WORD_BITS = 1 << WORD_LOG2 };

static inline word_t bit_of(size_t i) { return (word_t)1 << i % WORD_BITS; } /* in its word */
static inline bool bit_test(const word_t *map, size_t i) { return map[i / WORD_BITS] >> (i % WORD_BITS) & 1; }
static inline void bit_set(word_t *map, size_t i) { map[i / WORD_BITS] |= (word_t)1 << (i % WORD_BITS); }
static inline void bit_clear(word_t *map, size_t i) { map[i / WORD_BITS] &= ~((word_t)1 << (i % WORD_BITS)); }

/* These two say how many words a map of so many bits has, and which bits of word `w` belong to it. */
static inline size_t bits_words(size_t bits) { return (bits + WORD_BITS - 1) / WORD_BITS; }
static inline word_t bits_of_word(size_t bits, size_t w)
{
  size_t left = bits - w * WORD_BITS;
  return left < WORD_BITS ? bit_of(left) - 1 : ~(word_t)0;
}

/* Ranges are [from, to). */
void bits_set(word_t *map, size_t from, size_t to);
void bits_clear(word_t *map, size_t from, size_t to);
size_t bits_count(const word_t *map, size_t from, size_t to);

/* The first set (clear) bit in [from, to), or `to`. */
size_t bits_next_set(const word_t *map, size_t from, size_t to);
size_t bits_next_clear(const word_t *map, size_t from, size_t to);

/* Returns the last set bit at or below `from`; 0 if there is none. Needs no lock if the bit that is looked for does not change
 * meanwhile, even if others of the same words do. */
size_t bits_previous_set(const word_t *map, size_t from);

#endif
