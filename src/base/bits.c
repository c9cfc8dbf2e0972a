/* SPDX-License-Identifier: MIT
 *
 * Ranges of bits are handled by whole words. Only the first and the last word of a range need a mask (range_mask()). */
#include "base/bits.h"
#include "base/shared.h"

/* Returns the bits of word `w` that lie in [from, to), which is not empty. */
static word_t range_mask(size_t w, size_t from, size_t to)
{
  word_t mask = ~(word_t)0;
  if (w == from / WORD_BITS)
    mask &= ~(word_t)0 << (from % WORD_BITS);
  if (w == (to - 1) / WORD_BITS)
    mask &= ~(word_t)0 >> (WORD_BITS - 1 - (to - 1) % WORD_BITS);
  return mask;
}

/* An empty range has no last word, so it is left out before the word is computed; here and in the next two. Words between the
 * first and the last are whole. */
void bits_set(word_t *map, size_t from, size_t to)
{
  if (from >= to)
    return;
  size_t w = from / WORD_BITS, last = (to - 1) / WORD_BITS;
  map[w] |= range_mask(w, from, to);
  map[last] |= range_mask(last, from, to);
  if (last - w > 1)
    shared_fill(map + w + 1, 0xff, (last - w - 1) * sizeof *map);
}

void bits_clear(word_t *map, size_t from, size_t to)
{
  if (from >= to)
    return;
  size_t w = from / WORD_BITS, last = (to - 1) / WORD_BITS;
  map[w] &= ~range_mask(w, from, to);
  map[last] &= ~range_mask(last, from, to);
  if (last - w > 1)
    shared_clear(map + w + 1, (last - w - 1) * sizeof *map);
}

size_t bits_count(const word_t *map, size_t from, size_t to)
{
  size_t count = 0;
  for (size_t w = from / WORD_BITS; from < to && w <= (to - 1) / WORD_BITS; w++)
    count += bits_set_in(map[w] & range_mask(w, from, to));
  return count;
}

/* With `flip` all ones this finds the next clear bit instead. The answer is limited to `to`, because the last word may have
 * bits beyond the range. */
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

/* The words are loaded atomically: the caller may look for a bit of its own while others change theirs in the same word. */
size_t bits_previous_set(const word_t *map, size_t from)
{
  size_t w = from / WORD_BITS;
  word_t word = __atomic_load_n(&map[w], __ATOMIC_RELAXED) & ~(word_t)0 >> (WORD_BITS - 1 - from % WORD_BITS);
  while (!word && w)
    word = __atomic_load_n(&map[--w], __ATOMIC_RELAXED);
  return word ? w * WORD_BITS + highest_bit(word) : 0;
}
