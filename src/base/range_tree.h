/* SPDX-License-Identifier: MIT
 *
 * Ranges of addresses in order: finds the range that holds an address, and the next one. A node is a field of its record.
 *
 * The tree is a treap: a search tree by address and a heap by priority, which is a scrambled address. Its shape is that of a
 * search tree filled in random order, whatever the order of insertion: about 2 ln n levels, 25 for 60,000 ranges (R. Seidel and
 * C. Aragon, "Randomized search trees", 1996). */
#ifndef BASE_RANGE_TREE_H
#define BASE_RANGE_TREE_H

#include "base/bits.h"

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

#endif
