/* SPDX-License-Identifier: MIT
 *
 * How long the index is, how it begins, and its rows for checks. */
#include "base/granule_rows.h"
#include "base/granules_kept.h"

/* The words before the first and behind the last are read with them. */
static size_t granule_map_words(size_t count) { return 1 + bits_words(count + 2) + 1; }

/* A word that begins with the last row ends behind it. */
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

void granules_clear(granules_t *g)
{
  memset(granules_index(g), 0, granules_index_bytes(g->count));
  g->classes = 0;
  g->live = g->blocks = g->taken_end = 0;
  g->rows[-1] = bits_of_word(g->words, 0);
  uint32_t start = SHORT_ROWS * g->row_bytes;
  for (unsigned k = 0; k < doublings(g->words); k++) {
    *row_start(g, k) = start;
    start += CLASS_STEPS * (uint32_t)row_bytes(g->words, k);
  }
  bits_set(g->map, 0, g->count + 1);
  unsigned c = length_class(g->count);
  if (c >= CLASS_FIRST)
    row_add(g, c, 0);
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
  granules_clear(g);
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
