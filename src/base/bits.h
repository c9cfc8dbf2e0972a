/* SPDX-License-Identifier: MIT
 *
 * Powers of two, bitmaps of 64-bit words, and the lowest set bit of a long bitmap. */
#ifndef BITS_H
#define BITS_H

#include "base/machine.h"
#include <stdbool.h>

/* ---- bits ----
 *
 * Arithmetic on powers of two, and on bitmaps. */

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

/* ---- bit tree ----
 *
 * A bitmap whose lowest set bit is found in few steps. Over the bitmap, level 0, stand levels of bits, each for a word below
 * that is not 0: as many levels as the number of bits has factors of 64 (with words of 64 bits), and as many steps to the
 * lowest.
 *
 *     level 1    ...0010                       word 0 of level 0 is 0, word 1 is not
 *     level 0    word 0: 0, word 1: ...0100    the lowest bit is 64 + 2
 *
 * A thread that changes a tree, or asks for its lowest bit, holds the lock of the tree's owner. Words are loaded and stored
 * with relaxed order, so that other threads may read those of level 0 without the lock. Level 0 changes first: until the call
 * returns, a bit above it may disagree. */

enum { BIT_TREE_LEVELS = (32 + WORD_LOG2 - 1) / WORD_LOG2 };

typedef struct bit_tree {
  uint32_t lowest; /* no word of level 0 below this one has a bit */
  uint32_t levels;
  word_t *level[BIT_TREE_LEVELS];
} bit_tree_t;

/* How many words all levels over so many bits take together; 0 < bits <= 2^32. */
size_t bit_tree_words(size_t bits);

/* Lays the levels out from `words` on, and sets all bits. Returns where the levels end. */
word_t *bit_tree_init(bit_tree_t *tree, word_t *words, size_t bits);

/* Sets all bits, as many as at first. */
void bit_tree_fill(bit_tree_t *tree, size_t bits);

static inline word_t word_load(const word_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
static inline void word_store(word_t *word, word_t bits) { __atomic_store_n(word, bits, __ATOMIC_RELAXED); }

/* Word `w` of level 0. Needs no lock. */
static inline word_t bit_tree_word(const bit_tree_t *tree, size_t w) { return word_load(&tree->level[0][w]); }

static inline bool bit_tree_test(const bit_tree_t *tree, size_t i) { return bit_test(tree->level[0], i); }

/* Both set bits that are not set, of word `w` of level 0 or one by its number. The level above changes only if the word was
 * empty. Where bits are set in order that is one call in a word of them, so the loop seldom runs. */
static inline void bit_tree_set_bits(bit_tree_t *tree, size_t w, word_t bits)
{
  word_t *word = tree->level[0] + w, had = word_load(word);
  word_store(word, had | bits);
  tree->lowest = (uint32_t)min_size(tree->lowest, w);
  for (uint32_t l = 1; unlikely(!had) && l < tree->levels; l++) {
    word = tree->level[l] + w / WORD_BITS;
    had = word_load(word);
    word_store(word, had | bit_of(w));
    w /= WORD_BITS;
  }
}
static inline void bit_tree_set(bit_tree_t *tree, size_t i) { bit_tree_set_bits(tree, i / WORD_BITS, bit_of(i)); }

/* Both clear bits that are set. The level above changes only when the word becomes empty. `lowest` may be too low afterwards,
 * which is harmless: bit_tree_lowest() finds an empty word there and searches. It must never be too high. */
static inline void bit_tree_clear_bits(bit_tree_t *tree, size_t w, word_t bits)
{
  word_t *word = tree->level[0] + w, left = word_load(word) & ~bits;
  word_store(word, left);
  for (uint32_t l = 1; unlikely(!left) && l < tree->levels; l++) {
    word = tree->level[l] + w / WORD_BITS;
    left = word_load(word) & ~bit_of(w);
    word_store(word, left);
    w /= WORD_BITS;
  }
}
static inline void bit_tree_clear(bit_tree_t *tree, size_t i) { bit_tree_clear_bits(tree, i / WORD_BITS, bit_of(i)); }

/* Moves `lowest` up to the first word that is not 0. The caller knows that a bit is set. */
OWN_COPY NOINLINE void bit_tree_find_lowest(bit_tree_t *tree)
{
  size_t i = 0;
  for (uint32_t l = tree->levels - 1; l > 0; l--)
    i = i * WORD_BITS + lowest_bit(tree->level[l][i]);
  tree->lowest = (uint32_t)i;
}

/* Returns the lowest set bit. The caller knows that there is one. */
static inline size_t bit_tree_lowest(bit_tree_t *tree)
{
  if (unlikely(!bit_tree_word(tree, tree->lowest)))
    bit_tree_find_lowest(tree);
  return tree->lowest * (size_t)WORD_BITS + lowest_bit(bit_tree_word(tree, tree->lowest));
}

#endif
