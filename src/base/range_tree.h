/* SPDX-License-Identifier: MIT
 *
 * Ranges of addresses in order: which one holds this address, which one begins next. A node is a field of the record it stands
 * for.
 *
 * A treap: a search tree by address and at the same time a heap by priority, where the priority is a scrambled address. So its
 * shape is that of a search tree filled in random order, whatever the order of insertion: some 2 ln n steps deep, 25 for 60,000
 * ranges (R. Seidel and C. Aragon, "Randomized search trees", 1996). */
#ifndef BASE_RANGE_TREE_H
#define BASE_RANGE_TREE_H

#include "base/bits.h"

typedef struct range {
  uintptr_t start;
  size_t size;
  struct range *left, *right;
} range_t;

/* `range->start` and `size` are set. No other range of the tree begins at the same address. */
void range_insert(range_t **root, range_t *range);
void range_remove(range_t **root, range_t *range);

/* The range that begins last at or below the address; the one that begins first at or above it. NULL: none. */
range_t *range_at_or_below(range_t *root, uintptr_t address);
range_t *range_at_or_above(range_t *root, uintptr_t address);

#endif
