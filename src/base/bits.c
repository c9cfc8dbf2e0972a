/* SPDX-License-Identifier: MIT
 *
 * Ranges of bits are handled by whole words. Only the first and the last word of a range need a mask. */
#include "base/bits.h"
#include "base/shared.h"

/* Return the bits of its first word that are in a range, and those of its last word. */
static word_t first_mask(size_t from) { return ~(word_t)0 << (from % WORD_BITS); }
static word_t last_mask(size_t to) { return ~(word_t)0 >> (-to % WORD_BITS); }

/* An empty range has no last word, so it is left out before the word is computed; here and in the next two. Words between the
 * first and the last are whole. */
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
