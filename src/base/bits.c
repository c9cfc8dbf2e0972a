/* SPDX-License-Identifier: MIT
 *
 * The out-of-line parts of bits.h. */
#include "base/bits.h"
#include "base/fill.h"

/* ---- bits ----
 *
 * Ranges are processed by whole words. Only the first and the last word of a range need a mask. */

static word_t first_mask(size_t from) { return ~(word_t)0 << (from % WORD_BITS); }
static word_t last_mask(size_t to) { return ~(word_t)0 >> (-to % WORD_BITS); }

/* All functions on ranges return early for an empty range, because it has no last word. */
void bits_set(word_t *map, size_t from, size_t to)
{
  if (from >= to)
    return;
  size_t w = from / WORD_BITS, last = (to - 1) / WORD_BITS;
  if (w == last) {
    map[w] |= first_mask(from) & last_mask(to);
    return;
  }
  map[w] |= first_mask(from);
  map[last] |= last_mask(to);
  if (last - w > 1)
    shared_fill(map + w + 1, 0xff, (last - w - 1) * sizeof *map);
}

void bits_clear(word_t *map, size_t from, size_t to)
{
  if (from >= to)
    return;
  size_t w = from / WORD_BITS, last = (to - 1) / WORD_BITS;
  if (w == last) {
    map[w] &= ~(first_mask(from) & last_mask(to));
    return;
  }
  map[w] &= ~first_mask(from);
  map[last] &= ~last_mask(to);
  if (last - w > 1)
    shared_clear(map + w + 1, (last - w - 1) * sizeof *map);
}

size_t bits_count(const word_t *map, size_t from, size_t to)
{
  if (from >= to)
    return 0;
  size_t w = from / WORD_BITS, last = (to - 1) / WORD_BITS, count = 0;
  word_t word = map[w] & first_mask(from);
  for (; w != last; word = map[++w])
    count += bits_set_in(word);
  word &= last_mask(to);
  return word ? count + bits_set_in(word) : count;
}

/* `flip` is all ones to find a clear bit. The last word may have bits beyond `to`, so the result is limited. */
static size_t next_bit(const word_t *map, size_t from, size_t to, word_t flip)
{
  if (from >= to)
    return to;
  word_t word = (map[from / WORD_BITS] ^ flip) & ~(word_t)0 << (from % WORD_BITS);
  for (size_t w = from / WORD_BITS;;) {
    if (word)
      return min_size(w * WORD_BITS + lowest_bit(word), to);
    if (++w * WORD_BITS >= to)
      return to;
    word = map[w] ^ flip;
  }
}

size_t bits_next_set(const word_t *map, size_t from, size_t to) { return next_bit(map, from, to, 0); }
size_t bits_next_clear(const word_t *map, size_t from, size_t to) { return next_bit(map, from, to, ~(word_t)0); }

/* The loads are atomic, because other threads may change other bits of these words. */
size_t bits_previous_set(const word_t *map, size_t from)
{
  size_t w = from / WORD_BITS;
  word_t word = __atomic_load_n(&map[w], __ATOMIC_RELAXED) & ~(word_t)0 >> (WORD_BITS - 1 - from % WORD_BITS);
  while (!word && w)
    word = __atomic_load_n(&map[--w], __ATOMIC_RELAXED);
  return word ? w * WORD_BITS + highest_bit(word) : 0;
}

/* ---- bit tree ----
 *
 * The levels are consecutive in one array of words, the lowest first. */

/* Every tree ends with a level of one word, where searches begin. Even a tree of one bit has that level. */
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

/* Bits beyond the last stay clear at every level, so that no search ends at a bit that does not exist. */
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
