/* SPDX-License-Identifier: MIT
 *
 * The levels stand one behind the other in one array of words, the lowest first. The changes are inline (bit_tree.h). */
#include "base/bit_tree.h"

/* Each level has a bit for each word of the one below. The top level is a single word, so that a search has one place to begin.
 * Even a tree of one bit has that level. */
size_t bit_tree_words(size_t bits)
{
  size_t words = 0;
  do {
    bits = bits_words(bits);
    words += bits;
  } while (bits > 1);
  return words;
}

word_t *bit_tree_init(bit_tree_t *tree, word_t *words, size_t bits)
{
  size_t left = bits;
  tree->levels = 0;
  do {
    tree->level[tree->levels++] = words;
    left = bits_words(left);
    words += left;
  } while (left > 1);
  bit_tree_fill(tree, bits);
  return words;
}

/* Bits beyond the last stay clear at every level, or a search would end at a bit that stands for nothing. */
void bit_tree_fill(bit_tree_t *tree, size_t bits)
{
  tree->lowest = 0;
  for (uint32_t l = 0; l < tree->levels; l++) {
    size_t words = bits_words(bits);
    for (size_t w = 0; w < words; w++)
      word_store(&tree->level[l][w], bits_of_word(bits, w));
    bits = words;
  }
}
