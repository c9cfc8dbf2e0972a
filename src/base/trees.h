/* SPDX-License-Identifier: MIT
 * Two kinds of trees: of ranges of addresses, and of the stretches of set bits in a bitmap. */
#ifndef BASE_TREES_H
#define BASE_TREES_H

#include "base/bits.h"

/* ---- ranges ----
 *
 * Ranges of addresses in order: finds the range that holds an address, and the next one. A node is a field of its record.
 *
 * The tree is a treap: a search tree by address and a heap by priority, which is a scrambled address. Its shape is that of a
 * search tree filled in random order, whatever the order of insertion: about 2 ln n levels, 25 for 60,000 ranges (R. Seidel and
 * C. Aragon, "Randomized search trees", 1996). */

typedef struct range {
  uintptr_t start;
  size_t size;
  struct range *left, *right;
} range_t;

/* The caller sets `start` and `size`. No other range of the tree may begin at the same address. */
void range_insert(range_t **root, range_t *range);
void range_remove(range_t **root, range_t *range);

/* Return the range that begins last at or below the address, or first at or above it; NULL if there is none. */
range_t *range_at_or_below(range_t *root, uintptr_t address);
range_t *range_at_or_above(range_t *root, uintptr_t address);

/* ---- spans ----
 *
 * Finds the lowest stretch of at least n set bits in a bitmap in O(log bits). Updates cost as much.
 *
 * A binary tree stands over the words of the bitmap. Each node has three lengths of stretches of set bits in its part: the one
 * at the low end, the one at the high end, and the longest. A node is computed from its two children, since a stretch across
 * the border is the high end of one and the low end of the other:
 *
 *     bits    1101 0111 | 1011 1100        (low bits left)
 *     node    2, 3, 3   | 1, 0, 4          low end, high end, longest
 *     above   2, 0, 4                      longest = max(3, 4, 3 + 1)
 *
 * Go's page allocator summarizes bitmaps the same way (M. Knyszek, "Scaling the Go page allocator", 2019).
 *
 *   F1 every node matches its part of the bitmap. It does not hold inside span_set() and span_clear(), which change the bitmap
 *      first; the lock of the bitmap's owner excludes other threads meanwhile */

typedef struct span_tree {
  word_t *map;
  uint64_t *node;  /* node[1] is the root, node[leaves + w] stands for word w; node[0] is unused */
  uint32_t leaves; /* a power of two, at least the words of the bitmap */
} span_tree_t;

enum { SPAN_LENGTH_BITS = 21 }; /* three lengths in a node */
#define SPAN_BITS_MOST ((size_t)1 << (SPAN_LENGTH_BITS - 1))
#define SPAN_NONE      SIZE_MAX

/* Returns the number of words that `node` needs for a bitmap of `bits` bits. */
size_t span_tree_words(size_t bits);

/* Keeps the bits of the map. Bits of its last word beyond `bits` must be clear. */
void span_tree_init(span_tree_t *tree, word_t *map, uint64_t *node, size_t bits);

/* Does not touch `map` and `node`, which must read as zero. */
void span_tree_of_zeroes(span_tree_t *tree, word_t *map, uint64_t *node, size_t bits);

void span_set(span_tree_t *tree, size_t from, size_t to);
void span_clear(span_tree_t *tree, size_t from, size_t to);

/* Returns the beginning of the lowest stretch of at least n > 0 set bits; SPAN_NONE if there is none. */
size_t span_find(const span_tree_t *tree, size_t n);

/* Returns the length of the longest stretch, the highest of the three lengths in a node. */
static inline size_t span_longest(const span_tree_t *tree) { return tree->node[1] >> (2 * SPAN_LENGTH_BITS); }

#endif
