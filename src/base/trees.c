/* SPDX-License-Identifier: MIT
 * No function here is recursive, because a tree of a program's mappings may be searched on a small stack. */
#include "base/trees.h"

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

/* ---- spans ----
 *
 * A node is one word with three lengths of 21 bits. The tree is an array: the children of node i are 2 i and 2 i + 1, so
 * finding the parent is a shift, and nodes hold no pointers. */

#define LENGTH_MASK (((uint64_t)1 << SPAN_LENGTH_BITS) - 1)

static size_t low_of(uint64_t node) { return node & LENGTH_MASK; }
static size_t high_of(uint64_t node) { return node >> SPAN_LENGTH_BITS & LENGTH_MASK; }
static size_t longest_of(uint64_t node) { return node >> (2 * SPAN_LENGTH_BITS) & LENGTH_MASK; }
static uint64_t node_of(size_t low, size_t high, size_t longest)
{
  return low | (uint64_t)high << SPAN_LENGTH_BITS | (uint64_t)longest << (2 * SPAN_LENGTH_BITS);
}

/* Returns a word in which each bit marks the beginning of a stretch of at least n set bits of `word`. */
static word_t starts_of(word_t word, size_t n)
{
  size_t m = 1;
  for (; 2 * m <= n; m *= 2)
    word &= word >> m;
  return word & word >> (n - m);
}

/* The search doubles lengths: level[k] marks the beginnings of stretches of 2^k bits. The longest stretch is then assembled
 * from its largest part to its smallest. The word is neither empty nor full. */
__attribute__((always_inline)) static inline size_t longest_in(word_t word)
{
  word_t level[WORD_LOG2 + 1] = {word};
  unsigned k = 0;
  while ((level[k + 1] = level[k] & level[k] >> (1u << k)) != 0)
    k++;
  size_t n = (size_t)1 << k;
  for (word_t starts = level[k]; k--;) {
    word_t longer = starts & level[k] >> n;
    if (longer) {
      starts = longer;
      n += (size_t)1 << k;
    }
  }
  return n;
}

/* longest_in() finds nothing in an empty word, and a full word has no clear bit that ends the counts. */
static uint64_t leaf_of(word_t word)
{
  if (!word)
    return 0;
  if (!~word)
    return node_of(WORD_BITS, WORD_BITS, WORD_BITS);
  return node_of(lowest_bit(~word), WORD_BITS - 1 - highest_bit(~word), longest_in(word));
}

/* Combines two neighbours of `half` bits each. A stretch that fills its half continues into the other one. */
__attribute__((always_inline)) static inline uint64_t join(uint64_t left, uint64_t right, size_t half)
{
  size_t low = low_of(left) == half ? half + low_of(right) : low_of(left);
  size_t high = high_of(right) == half ? half + high_of(left) : high_of(right);
  size_t across = high_of(left) + low_of(right);
  return node_of(low, high, max_size(across, max_size(longest_of(left), longest_of(right))));
}

static uint64_t set_node(uint64_t *node, uint64_t value)
{
  uint64_t changed = *node ^ value;
  *node = value;
  return changed;
}

/* Updates the nodes over the words [first, last] level by level, and ends at the first level that does not change: the levels
 * above it cannot change. Most changes end low, since they seldom touch the longest stretch of a part. */
static void renew(span_tree_t *tree, size_t first, size_t last)
{
  uint64_t *node = tree->node, changed = set_node(node + tree->leaves + first, leaf_of(tree->map[first]));
  size_t from = tree->leaves + first, half = WORD_BITS;
  if (unlikely(first != last)) {
    size_t to = tree->leaves + last;
    for (size_t w = first + 1; w <= last; w++)
      changed |= set_node(node + tree->leaves + w, leaf_of(tree->map[w]));
    for (; changed && from != to; half *= 2) {
      changed = 0;
      from /= 2;
      to /= 2;
      for (size_t i = from; i <= to; i++)
        changed |= set_node(node + i, join(node[2 * i], node[2 * i + 1], half));
    }
  }
  for (; changed && (from /= 2) != 0; half *= 2)
    changed = set_node(node + from, join(node[2 * from], node[2 * from + 1], half));
}

/* The number of leaves is a power of two, so every inner node has two children. */
static uint32_t leaves_for(size_t bits)
{
  size_t words = (bits + WORD_BITS - 1) / WORD_BITS, leaves = 1;
  while (leaves < words)
    leaves *= 2;
  return (uint32_t)leaves;
}

size_t span_tree_words(size_t bits) { return 2 * (size_t)leaves_for(bits); }

void span_tree_of_zeroes(span_tree_t *tree, word_t *map, uint64_t *node, size_t bits)
{
  *tree = (span_tree_t){map, node, leaves_for(bits)};
}

void span_tree_init(span_tree_t *tree, word_t *map, uint64_t *node, size_t bits)
{
  span_tree_of_zeroes(tree, map, node, bits);
  for (size_t i = 0; i < 2 * (size_t)tree->leaves; i++)
    node[i] = 0;
  if (bits)
    renew(tree, 0, (bits - 1) / WORD_BITS);
}

void span_set(span_tree_t *tree, size_t from, size_t to)
{
  if (from >= to)
    return;
  bits_set(tree->map, from, to);
  renew(tree, from / WORD_BITS, (to - 1) / WORD_BITS);
}

void span_clear(span_tree_t *tree, size_t from, size_t to)
{
  if (from >= to)
    return;
  bits_clear(tree->map, from, to);
  renew(tree, from / WORD_BITS, (to - 1) / WORD_BITS);
}

/* Descends into the lowest part with such a stretch. A stretch across the border comes before the right part. */
size_t span_find(const span_tree_t *tree, size_t n)
{
  if (longest_of(tree->node[1]) < n)
    return SPAN_NONE;
  size_t at = 0, i = 1;
  for (size_t half = (size_t)tree->leaves * WORD_BITS / 2; i < tree->leaves; half /= 2) {
    uint64_t left = tree->node[2 * i], right = tree->node[2 * i + 1];
    i *= 2;
    if (longest_of(left) >= n)
      continue;
    at += half;
    if (high_of(left) + low_of(right) >= n)
      return at - high_of(left);
    i++;
  }
  return at + lowest_bit(starts_of(tree->map[i - tree->leaves], n));
}
