/* SPDX-License-Identifier: MIT
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
#ifndef BASE_BIT_TREE_H
#define BASE_BIT_TREE_H

#include "base/bits.h"

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
