/* SPDX-License-Identifier: MIT
 *
 * No function here is recursive, because a tree of a program's mappings may be searched on a small stack. */
#include "base/range_tree.h"

/* The priority must not follow the address: ranges are mostly inserted in ascending order, and the tree would become a list. It
 * is computed, not stored, so the node stays four words. */
static uintptr_t priority_of(const range_t *range)
{
  uintptr_t x = range->start * (uintptr_t)0x9e3779b97f4a7c15u;
  return (x ^ x >> ADDRESS_BITS / 2) * (uintptr_t)0xd6e8feb86659fd93u;
}

/* Splits a tree: ranges that begin below `address` go to *below, the others to *above. */
static void split(range_t *tree, uintptr_t address, range_t **below, range_t **above)
{
  while (tree)
    if (tree->start < address) {
      *below = tree;
      below = &tree->right;
      tree = tree->right;
    } else {
      *above = tree;
      above = &tree->left;
      tree = tree->left;
    }
  *below = *above = NULL;
}

/* Joins two trees: all of `below` begins before all of `above`. The higher priority becomes the parent, as in a heap. */
static void merge(range_t **root, range_t *below, range_t *above)
{
  while (below && above)
    if (priority_of(below) > priority_of(above)) {
      *root = below;
      root = &below->right;
      below = below->right;
    } else {
      *root = above;
      root = &above->left;
      above = above->left;
    }
  *root = below ? below : above;
}

/* The search descends while the priorities are higher. The new node becomes the parent of the subtree at that point. */
void range_insert(range_t **root, range_t *range)
{
  uintptr_t priority = priority_of(range);
  while (*root && priority_of(*root) > priority)
    root = (*root)->start < range->start ? &(*root)->right : &(*root)->left;
  split(*root, range->start, &range->left, &range->right);
  *root = range;
}

void range_remove(range_t **root, range_t *range)
{
  while (*root != range)
    root = (*root)->start < range->start ? &(*root)->right : &(*root)->left;
  merge(root, range->left, range->right);
}

/* Each step to the right reaches a later range, so the last range from which the search went right is the result. */
range_t *range_at_or_below(range_t *root, uintptr_t address)
{
  range_t *found = NULL;
  while (root) {
    bool right = root->start <= address;
    if (right)
      found = root;
    root = right ? root->right : root->left;
  }
  return found;
}

range_t *range_at_or_above(range_t *root, uintptr_t address)
{
  range_t *found = NULL;
  while (root) {
    bool left = root->start >= address;
    if (left)
      found = root;
    root = left ? root->left : root->right;
  }
  return found;
}
