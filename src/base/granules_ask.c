/* SPDX-License-Identifier: MIT
 *
 * Queries about granules. The first ones do not need the index. base/granules_cut.c cuts and frees blocks. */
#include "base/granule_rows.h"
#include "base/granules.h"

enum { PAGE_WORDS = GRANULE_PAGE / WORD_BITS };

/* ---- blocks ---- */

/* The search always ends: the last 1 follows the last granule. */
size_t granules_next_one(const granules_t *g, size_t i)
{
  size_t w = i / WORD_BITS;
  word_t ones = g->map[w] & ~(word_t)0 << i % WORD_BITS;
  while (!ones) {
    if (++w % PAGE_WORDS == 0) {
      size_t pages = (g->count + GRANULE_PAGE - 1) / GRANULE_PAGE, page = bits_next_set(g->used, w / PAGE_WORDS, pages);
      if (page == pages)
        return g->count + 1;
      w = page * PAGE_WORDS;
    }
    ones = g->map[w];
  }
  return w * WORD_BITS + lowest_bit(ones);
}

size_t granules_next(const granules_t *g, size_t i)
{
  if (i < g->count && bit_test(g->map, i))
    i = bits_next_clear(g->map, i, g->count);
  if (i < g->count && !bit_test(g->map, i + 1))
    i = granules_next_one(g, i + 1) - 1;
  return i < g->count ? i : GRANULES_NONE;
}

/* ---- places that the owner can pay for ---- */

/* Returns the first free stretch at or behind `i`, the beginning of a block or stretch; GRANULES_NONE if there is none. */
static size_t next_stretch(const granules_t *g, size_t i, size_t *end)
{
  while (granules_begins(g, i))
    i = granules_end(g, i);
  if (i >= g->count)
    return GRANULES_NONE;
  *end = granules_next_one(g, i + 1) - 1;
  return i;
}

/* Only the pages at the two ends of a stretch may be used already, so a block costs the least at one of the ends. */
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

/* These return how much of a stretch the owner can pay for, from its beginning and from its end. */
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

/* ---- queries without a lock ----
 *
 * The owner may change the granules meanwhile. The bits of a block do not change while it is live, though other bits of its
 * words may. Bits of other blocks may be inconsistent, but never lead out of the map. */

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
    word_t ones = map[w];
    run += ones ? lowest_bit(ones) : WORD_BITS;
    longest = max_size(longest, run);
    if (!ones)
      continue;
    longest = max_size(longest, longest_run(~ones));
    run = WORD_BITS - 1 - highest_bit(ones);
  }
  return longest ? longest - 1 : 0;
}

/* A block's bits are a zero and ones, so the last zero at or below any of its granules is its first. */
READS_BESIDE_OWNER size_t granules_around(const granules_t *g, size_t i, size_t *end)
{
  const volatile word_t *map = g->map;
  if (i >= g->count)
    return GRANULES_NONE;
  size_t w = i / WORD_BITS, next = i + 1;
  word_t zeros = ~map[w];
  if (zeros & bit_of(i) && ~map[next / WORD_BITS] & bit_of(next))
    return GRANULES_NONE;
  for (zeros &= ~(word_t)0 >> (WORD_BITS - 1 - i % WORD_BITS); !zeros && w;)
    zeros = ~map[--w];
  size_t from = zeros ? w * WORD_BITS + highest_bit(zeros) : 0;
  w = next / WORD_BITS;
  for (zeros = ~map[w] & ~(word_t)0 << next % WORD_BITS; !zeros && w < g->count / WORD_BITS;)
    zeros = ~map[++w];
  *end = zeros ? min_size(w * WORD_BITS + lowest_bit(zeros), g->count) : g->count;
  bool may_be_kept = *end - from <= KEPT_LONGEST && granules_can_keep(g);
  return may_be_kept && ((const volatile uint32_t *)granules_kept_of(g))[*end - from] == from + 1 ? GRANULES_NONE : from;
}

/* ---- the index ----
 *
 * Its size, its initial state, and its rows for checks. */

/* One word before the first and one behind the last are read along with them. */
static size_t granule_map_words(size_t count) { return 1 + bits_words(count + 2) + 1; }

/* One extra word, because a word that begins with the last row ends behind it. */
static size_t rows_words(size_t words)
{
  size_t bytes = SHORT_ROWS * row_bytes(words, 0);
  for (unsigned k = 0; k < doublings(words); k++)
    bytes += CLASS_STEPS * row_bytes(words, k);
  return bits_words(8 * bytes) + 1;
}

static size_t front_words(size_t words)
{
  size_t longer = longer_rows_end(words) - CLASS_FIRST;
  return longer ? STARTS_WORDS + longer : 1 + (doublings(words) + STARTS_IN_WORD - 1) / STARTS_IN_WORD;
}

size_t granules_index_bytes(size_t count)
{
  size_t words = bits_words(count), pages = (count + GRANULE_PAGE - 1) / GRANULE_PAGE;
  return ((granules_count_can_keep(count) ? KEPT_WORDS : 0) + granule_map_words(count) + front_words(words) +
          rows_words(words) + bits_words(pages)) *
         sizeof(word_t);
}

/* The index of a large memory takes a little less than a 64th of granules of 16 bytes, so one step back is nearly enough. */
size_t granules_count_for(size_t bytes, unsigned log2)
{
  size_t most = min_size(bytes >> log2, GRANULES_MOST), count = most, needed;
  while (count && (needed = granules_index_bytes(count) + (count << log2)) > bytes)
    count -= min_size(count, max_size(((needed - bytes) >> log2) * 63 / 64, 1));
  while (count < most && granules_index_bytes(count + 1) + ((count + 1) << log2) <= bytes) /* the index grows by words */
    count++;
  return count;
}

/* The index is zeroed. One free stretch is all of the memory. None begins in the rest of the last word. */
static void free_all(granules_t *g)
{
  g->rows[-1] = bits_of_word(g->words, 0);
  uint32_t start = SHORT_ROWS * g->row_bytes;
  for (unsigned k = 0; k < doublings(g->words); k++) {
    *row_start(g, k) = start;
    start += CLASS_STEPS * (uint32_t)row_bytes(g->words, k);
  }
  g->map[-1] = ~(word_t)0;
  g->map[(g->count + 1) / WORD_BITS] = ~(word_t)0 << (g->count + 1) % WORD_BITS;
  granules_note_free(g, 0, g->count);
}

/* The map is the larger part of the index, and still zero behind `taken_end`. */
void granules_clear(granules_t *g)
{
  char *index = granules_index(g), *map_end = (char *)(g->map + bits_words(g->taken_end));
  char *front = (char *)(g->rows - front_words(g->words));
  memset(index, 0, (size_t)(map_end - index));
  memset(front, 0, (size_t)(index + granules_index_bytes(g->count) - front));
  g->classes = 0;
  g->live = g->blocks = g->taken_end = 0;
  free_all(g);
}

void granules_init(granules_t *g, void *index, size_t count)
{
  word_t *words = index;
  words += granules_count_can_keep(count) ? KEPT_WORDS : 0;
  *g = (granules_t){.map = words + 1, .count = (uint32_t)count, .words = (uint32_t)bits_words(count)};
  g->row_bytes = (uint16_t)row_bytes(g->words, 0);
  g->longer_rows_end = (uint16_t)longer_rows_end(g->words);
  g->rows = words + granule_map_words(count) + front_words(g->words);
  g->used = g->rows + rows_words(g->words);
  free_all(g);
}

granule_row_t granules_row(const granules_t *g, unsigned c)
{
  granule_row_t row = {.windows = c < CLASS_FIRST ? 0 : windows_of(g->words, doubling_of(c))};
  if (row.windows && (c < CLASS_LONG || doubling_of(c) < doublings(g->words))) {
    row.bits = row_of(g, c);
    row.parts = has_longer_row(g, c) ? parts_of(g, c) : NULL;
    row.part_log2 = part_log2(g);
  }
  return row;
}

word_t granules_row_word(const granule_row_t *row, size_t w)
{
  return row_load(row->bits + w * sizeof(word_t)) & bits_of_word(row->windows, w);
}

size_t granules_window(size_t from, size_t to, unsigned *c)
{
  *c = length_class(to - from);
  return *c < CLASS_FIRST ? GRANULES_NONE : window_of(*c, from);
}
