/* SPDX-License-Identifier: MIT
 *
 * What is asked of granules without their index: which block is where, and which places are paid for already. */
#include "base/granules.h"

enum { PAGE_WORDS = GRANULE_PAGE / WORD_BITS };

/* ---- which block is where ---- */

/* The last 0 is behind the end. */
size_t granules_next_zero(const granules_t *g, size_t i)
{
  size_t w = i / WORD_BITS;
  word_t zeros = ~g->map[w] & ~(word_t)0 << i % WORD_BITS;
  while (!zeros) {
    if (++w % PAGE_WORDS == 0) {
      size_t pages = (g->count + GRANULE_PAGE - 1) / GRANULE_PAGE, page = bits_next_set(g->used, w / PAGE_WORDS, pages);
      if (page == pages)
        return g->count + 1;
      w = page * PAGE_WORDS;
    }
    zeros = ~g->map[w];
  }
  return w * WORD_BITS + lowest_bit(zeros);
}

/* A block's bits are a one and zeros, so the last one at or below any of its granules is its first. */
size_t granules_around(const granules_t *g, size_t i)
{
  if (i >= g->count || (bit_test(g->map, i) && bit_test(g->map, i + 1)))
    return GRANULES_NONE;
  return bits_previous_set(g->map, i);
}

/* A free stretch ends where the next block begins, or at the end. */
size_t granules_next(const granules_t *g, size_t i)
{
  if (i < g->count && !bit_test(g->map, i))
    i = bits_next_set(g->map, i, g->count);
  if (i < g->count && bit_test(g->map, i + 1))
    i = granules_next_zero(g, i + 1) - 1;
  return i < g->count ? i : GRANULES_NONE;
}

/* ---- where not everything can be paid for ---- */

/* Returns where the first free stretch at or behind `i` begins, and its end; GRANULES_NONE: there is none. `i` is where a block
 * or a stretch begins. */
static size_t next_stretch(const granules_t *g, size_t i, size_t *end)
{
  while (granules_begins(g, i))
    i = granules_end(g, i);
  if (i >= g->count)
    return GRANULES_NONE;
  *end = granules_next_zero(g, i + 1) - 1;
  return i;
}

/* Only the pages at the two ends of a stretch may be used already, so a block costs the least at one of its ends. */
bool granules_find_within(const granules_t *g, size_t count, size_t alignment, size_t first, size_t room, granule_fit_t *fit)
{
  size_t end = 0;
  for (size_t from = 0; (from = next_stretch(g, from, &end)) != GRANULES_NONE; from = end) {
    size_t at = round_up(from + first, alignment) - first;
    if (at + count > end)
      continue;
    if (granules_unused(g, at, at + count) > room)
      at = round_down(end - count + first, alignment) - first;
    if (granules_unused(g, at, at + count) > room)
      continue;
    *fit = (granule_fit_t){.at = at, .count = count, .from = from, .to = end};
    return true;
  }
  return false;
}

/* These return how much of a stretch can be paid for from its beginning on, and from its end. */
static size_t longest_from_low(const granules_t *g, size_t from, size_t to, size_t room)
{
  size_t at = from;
  for (size_t page = granules_page(from); at < to && granules_page_price(g, page) <= room; page++) {
    room -= granules_page_price(g, page);
    at = min_size(to, granules_page_end(g, page));
  }
  return at - from;
}

static size_t longest_from_high(const granules_t *g, size_t from, size_t to, size_t room)
{
  size_t at = to;
  for (size_t page = granules_page(to - 1); at > from && granules_page_price(g, page) <= room; page--) {
    room -= granules_page_price(g, page);
    at = max_size(from, page * GRANULE_PAGE);
  }
  return to - at;
}

size_t granules_longest_within(const granules_t *g, size_t room)
{
  size_t longest = 0, end = 0;
  for (size_t from = 0; (from = next_stretch(g, from, &end)) != GRANULES_NONE; from = end)
    longest = max_size(longest, max_size(longest_from_low(g, from, end, room), longest_from_high(g, from, end, room)));
  return longest;
}
