/* SPDX-License-Identifier: MIT
 *
 * Powers of two, bitmaps, and bit trees, which find the lowest set bit of a long bitmap. */
#ifndef BITS_H
#define BITS_H

#include "base/machine.h"
#include <stdbool.h>

/* ---- bits ---- */

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static inline bool is_power_of_two(size_t n) { return n && !(n & (n - 1)); }

/* `to` is a power of two. */
static inline size_t round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }
static inline size_t round_down(size_t n, size_t to) { return n & ~(to - 1); }

/* Return the position of the highest and of the lowest set bit; n is not 0. A long is shorter than an address on Windows. */
static inline unsigned log2_floor(size_t n)
{
  return ADDRESS_BITS - 1 - (unsigned)(ADDRESS_BITS > 32 ? __builtin_clzll(n) : __builtin_clz((unsigned)n));
}
static inline unsigned lowest_of_size(size_t n)
{
  return (unsigned)(ADDRESS_BITS > 32 ? __builtin_ctzll(n) : __builtin_ctz((unsigned)n));
}

static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

/* Return the position of the highest and of the lowest set bit of a word that is not 0. On 32-bit machines gcc would call a
 * function for a 64-bit __builtin_ctzll(). */
static inline unsigned highest_of_64(uint64_t bits) { return 63 - (unsigned)__builtin_clzll(bits); }
static inline unsigned lowest_of_64(uint64_t bits)
{
  if (ADDRESS_BITS > 32)
    return (unsigned)__builtin_ctzll(bits);
  return (uint32_t)bits ? (unsigned)__builtin_ctz((uint32_t)bits) : 32 + (unsigned)__builtin_ctz((uint32_t)(bits >> 32));
}

/* A word of a bitmap. 32-bit firmware uses words of 32 bits. */
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

static inline word_t bit_of(size_t i) { return (word_t)1 << i % WORD_BITS; }
static inline bool bit_test(const word_t *map, size_t i) { return map[i / WORD_BITS] >> (i % WORD_BITS) & 1; }
static inline void bit_set(word_t *map, size_t i) { map[i / WORD_BITS] |= (word_t)1 << (i % WORD_BITS); }
static inline void bit_clear(word_t *map, size_t i) { map[i / WORD_BITS] &= ~((word_t)1 << (i % WORD_BITS)); }

/* Returns how many words a bitmap of `bits` bits has. */
static inline size_t bits_words(size_t bits) { return (bits + WORD_BITS - 1) / WORD_BITS; }
static inline word_t bits_of_word(size_t bits, size_t w)
{
  size_t left = bits - w * WORD_BITS;
  return left < WORD_BITS ? bit_of(left) - 1 : ~(word_t)0;
}

/* These functions work on ranges [from, to). */
void bits_set(word_t *map, size_t from, size_t to);
void bits_clear(word_t *map, size_t from, size_t to);
size_t bits_count(const word_t *map, size_t from, size_t to);

/* Return the first set (clear) bit in [from, to), or `to` if there is none. */
size_t bits_next_set(const word_t *map, size_t from, size_t to);
size_t bits_next_clear(const word_t *map, size_t from, size_t to);

/* Returns the last set bit at or below `from`; 0 if there is none. Needs no lock if that bit stays set, whatever others do. */
size_t bits_previous_set(const word_t *map, size_t from);

/* ---- bit tree ----
 *
 * A bitmap whose lowest set bit is found in a few steps. Level 0 is the bitmap. Each bit of a higher level says that one word
 * of the level below is not 0. The number of levels, and of steps, is the logarithm of the number of bits to base WORD_BITS:
 *
 *     level 1    ...0010                       word 0 of level 0 is 0, word 1 is not
 *     level 0    word 0: 0, word 1: ...0100    the lowest bit is 64 + 2
 *
 * A thread that changes a tree, or searches its lowest bit, holds the lock of the tree's owner. Words are loaded and stored
 * with relaxed order, so other threads may read level 0 without the lock. Level 0 changes first. Higher levels may disagree
 * with it until the call returns. */

enum { BIT_TREE_LEVELS = (32 + WORD_LOG2 - 1) / WORD_LOG2 };

typedef struct bit_tree {
  uint32_t lowest; /* no word of level 0 below this one has a set bit */
  uint32_t levels;
  word_t *level[BIT_TREE_LEVELS];
} bit_tree_t;

/* Returns the number of words of all levels together; 0 < bits <= 2^32. */
size_t bit_tree_words(size_t bits);

/* Lays out the levels from `words` on and sets all bits. Returns the end of the levels. */
word_t *bit_tree_init(bit_tree_t *tree, word_t *words, size_t bits);

/* Sets all bits; `bits` is the number given to bit_tree_init(). */
void bit_tree_fill(bit_tree_t *tree, size_t bits);

static inline word_t word_load(const word_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
static inline void word_store(word_t *word, word_t bits) { __atomic_store_n(word, bits, __ATOMIC_RELAXED); }

static inline word_t bit_tree_word(const bit_tree_t *tree, size_t w) { return word_load(&tree->level[0][w]); }

static inline bool bit_tree_test(const bit_tree_t *tree, size_t i) { return bit_test(tree->level[0], i); }

/* Sets `bits` in word `w` of level 0; all of them are clear before. Higher levels change only if the word was empty. If bits
 * are set in ascending order, that is one call for each word, so the loop seldom runs. */
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

/* Clears `bits` in word `w` of level 0; all of them are set before. Higher levels change only if the word becomes empty.
 * `lowest` may become too low, which bit_tree_lowest() corrects, but never too high. */
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

/* Moves `lowest` up to the first word that is not 0. At least one bit must be set. */
OWN_COPY NOINLINE void bit_tree_find_lowest(bit_tree_t *tree)
{
  size_t i = 0;
  for (uint32_t l = tree->levels - 1; l > 0; l--)
    i = i * WORD_BITS + lowest_bit(tree->level[l][i]);
  tree->lowest = (uint32_t)i;
}

/* Returns the lowest set bit. At least one bit must be set. */
static inline size_t bit_tree_lowest(bit_tree_t *tree)
{
  if (unlikely(!bit_tree_word(tree, tree->lowest)))
    bit_tree_find_lowest(tree);
  return tree->lowest * (size_t)WORD_BITS + lowest_bit(bit_tree_word(tree, tree->lowest));
}

#endif
