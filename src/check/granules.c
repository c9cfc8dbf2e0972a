/* SPDX-License-Identifier: MIT
 * R: granules and the index over them. Every bit is looked at by itself. */
#include "base/granules.h"
#include "check/check.h"
#include "check/expect.h"

/* Returns where the block or the free stretch that begins at `i` ends; R1. */
static size_t end_of(const granules_t *g, size_t i)
{
  expect(bit_test(g->map, i), "R1", "neither a block nor a free stretch begins where one must", &g->map[i / WORD_BITS]);
  bool live = !bit_test(g->map, i + 1);
  size_t end = i + 1;
  while (end < g->count && bit_test(g->map, end) != live && (live || bit_test(g->map, end + 1)))
    end++;
  return end;
}

/* R2: stretches of one class that begin in one window have one bit. They stand in one word, one after the other, so the bits
 * that were counted there are remembered. */
typedef struct counted {
  size_t word, bits;
  size_t seen[WORD_BITS];
} counted_t;

static bool counts(counted_t *counted, size_t from, size_t bit)
{
  if (counted->word != from / WORD_BITS)
    *counted = (counted_t){.word = from / WORD_BITS};
  for (size_t i = 0; i < counted->bits; i++)
    if (counted->seen[i] == bit)
      return false;
  counted->seen[counted->bits++] = bit;
  return true;
}

void check_granules(const granules_t *g)
{
  counted_t counted = {.word = SIZE_MAX};
  size_t live = 0, blocks = 0, bits = 0, used_end = 0;
  expect(bit_test(g->map, g->count) && !bit_test(g->map, g->count + 1), "R1", "the end is not where it belongs", g->map);
  for (size_t i = 0, end; i < g->count; i = end) {
    end = end_of(g, i);
    size_t bit = granules_begins(g, i) ? GRANULES_NONE : granules_row_bit(g, i, end);
    if (granules_begins(g, i)) {
      live += end - i;
      blocks++;
      for (size_t page = i / GRANULE_PAGE; page <= (end - 1) / GRANULE_PAGE; page++)
        expect(bit_test(g->used, page), "R3", "a page with a live granule is not used", &g->used[page / WORD_BITS]);
      for (size_t page = used_end; page < i / GRANULE_PAGE; page++)
        expect(!bit_test(g->used, page), "R3", "a page without a live granule is used", &g->used[page / WORD_BITS]);
      used_end = (end - 1) / GRANULE_PAGE + 1;
    } else if (bit != GRANULES_NONE) {
      expect(bit_test(g->rows, bit), "R2", "a row does not know of a free stretch", &g->rows[bit / WORD_BITS]);
      bits += counts(&counted, i, bit);
    }
  }
  for (size_t page = used_end; page * GRANULE_PAGE < g->count; page++)
    expect(!bit_test(g->used, page), "R3", "a page without a live granule is used", &g->used[page / WORD_BITS]);
  expect_count(bits_count(g->rows, 0, granules_rows_bits(g)), bits, "R2", "bits of rows");
  expect_count(g->live, live, "R4", "live granules");
  expect_count(g->blocks, blocks, "R4", "blocks of granules");
}
