/* SPDX-License-Identifier: MIT */
#include "space/room.h"

/* Returns the bits of the word at which at least `n` set bits begin, n <= WORD_BITS. They may end in the word behind it. */
static word_t stretch_starts(word_t word, word_t behind, size_t n)
{
  for (size_t known = 1, step; known < n; known += step) {
    step = min_size(known, n - known);
    word &= word >> step | behind << (WORD_BITS - step);
    behind &= behind >> step;
  }
  return word;
}

/* Returns the bits of a word that are multiples of an alignment below WORD_BITS. */
static word_t aligned_bits(size_t alignment)
{
  word_t bits = 1;
  for (size_t step = alignment; step < WORD_BITS; step *= 2)
    bits |= bits << step;
  return bits;
}

static bool fits_at(const arena_t *arena, size_t at, size_t units)
{
  return at + units <= arena->unit_count && bits_next_clear(arena->room.map, at, at + units) == at + units;
}

/* Finds the lowest aligned run where the alignment is less than a word of units. It looks at each word once, and at all
 * positions in the word together. */
static size_t find_aligned_in_words(const arena_t *arena, size_t units, size_t alignment)
{
  const word_t *map = arena->room.map;
  size_t words = (arena->unit_count + WORD_BITS - 1) / WORD_BITS;
  word_t aligned = aligned_bits(alignment);
  for (size_t w = 0; w < words; w++) {
    word_t behind = w + 1 < words ? map[w + 1] : 0, starts = map[w] & aligned;
    for (starts &= starts ? stretch_starts(map[w], behind, min_size(units, WORD_BITS)) : 0; starts; starts &= starts - 1) {
      size_t at = w * WORD_BITS + lowest_bit(starts);
      if (units <= WORD_BITS || fits_at(arena, at, units))
        return at;
    }
  }
  return SPAN_NONE;
}

/* Looks first for a stretch that is long enough to have an aligned run in any case, which the tree finds quickly. If there is
 * none, one that is just long enough may be aligned by chance. Units that do not begin at a multiple of their size cannot be
 * aligned to several units. */
size_t arena_room_for(const arena_t *arena, size_t units, size_t alignment)
{
  if (alignment <= 1)
    return span_find(&arena->room, units);
  size_t base = (uintptr_t)arena->base >> arena->unit_log2;
  if ((uintptr_t)arena->base & (((size_t)1 << arena->unit_log2) - 1))
    return SPAN_NONE;
  size_t at = span_find(&arena->room, units + alignment - 1);
  if (at != SPAN_NONE)
    return round_up(base + at, alignment) - base;
  if (span_longest(&arena->room) < units)
    return SPAN_NONE;
  if (alignment < WORD_BITS && base % alignment == 0)
    return find_aligned_in_words(arena, units, alignment);
  for (at = round_up(base, alignment) - base; at + units <= arena->unit_count; at += alignment)
    if (fits_at(arena, at, units))
      return at;
  return SPAN_NONE;
}

size_t arena_mapped_room_for(const arena_t *arena, size_t end, size_t units, size_t alignment)
{
  size_t base = (uintptr_t)arena->base >> arena->unit_log2, step = max_size(alignment, 1);
  for (size_t at = 0; (at = bits_next_set(arena->room.map, at, end)) < end;) {
    at = round_up(base + at, step) - base;
    if (at + units > end)
      break;
    size_t used = bits_next_clear(arena->room.map, at, at + units), pages_end = (at + units - 1) / HUGE_PAGE_UNITS + 1;
    size_t hole = bits_next_set(arena->holes, at / HUGE_PAGE_UNITS, pages_end);
    if (used == at + units && hole == pages_end)
      return at;
    at = used < at + units ? used : (hole + 1) * HUGE_PAGE_UNITS;
  }
  return SPAN_NONE;
}
