/* SPDX-License-Identifier: MIT
 *
 * What is asked of granules without a lock, while their owner changes them. The bits of a block do not
 * change while it is live, though those of others in the same words may. What is read of others may make no sense, but never
 * leads out of the map. */
#include "base/granules_kept.h"

/* Ones that follow each other in a word: their longest run. */
static size_t longest_run(word_t word)
{
  size_t length = 0;
  for (; word; length++)
    word &= word << 1;
  return length;
}

READS_BESIDE_OWNER size_t granules_longest_beside(const granules_t *g)
{
  const volatile word_t *map = g->map;
  size_t longest = 0, run = 0;
  for (size_t w = 0; w <= g->count / WORD_BITS; w++) {
    word_t word = map[w], zeros = ~word;
    run += zeros ? lowest_bit(zeros) : WORD_BITS;
    longest = max_size(longest, run);
    if (!zeros)
      continue;
    longest = max_size(longest, word ? longest_run(word) : 0);
    run = WORD_BITS - 1 - highest_bit(zeros);
  }
  return longest ? longest - 1 : 0;
}

READS_BESIDE_OWNER size_t granules_around_beside(const granules_t *g, size_t i, size_t *end)
{
  const volatile word_t *map = g->map;
  if (i >= g->count)
    return GRANULES_NONE;
  size_t w = i / WORD_BITS, next = i + 1;
  word_t word = map[w];
  if (word & bit_of(i) && map[next / WORD_BITS] & bit_of(next))
    return GRANULES_NONE;
  for (word &= ~(word_t)0 >> (WORD_BITS - 1 - i % WORD_BITS); !word && w;)
    word = map[--w];
  size_t from = word ? w * WORD_BITS + highest_bit(word) : 0;
  w = next / WORD_BITS;
  for (word = map[w] & ~(word_t)0 << next % WORD_BITS; !word && w < g->count / WORD_BITS;)
    word = map[++w];
  *end = word ? min_size(w * WORD_BITS + lowest_bit(word), g->count) : g->count;
  bool may_be_kept = *end - from <= KEPT_LONGEST && granules_can_keep(g);
  return may_be_kept && ((const volatile uint32_t *)granules_kept_of(g))[*end - from] == from + 1 ? GRANULES_NONE : from;
}
