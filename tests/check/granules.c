/* SPDX-License-Identifier: MIT
 * R: granules and the index over them. Every bit is looked at by itself. */
#include "base/granules.h"
#include "check/check.h"
#include "check/expect.h"

/* Returns where the block or the free stretch that begins at `i` ends; R1. */
static size_t end_of(const granules_t *g, size_t i)
{
  expect(!bit_test(g->map, i), "R1", "neither a block nor a free stretch begins where one must", &g->map[i / WORD_BITS]);
  bool live = bit_test(g->map, i + 1);
  size_t end = i + 1;
  while (end < g->count && bit_test(g->map, end) == live && (live || !bit_test(g->map, end + 1)))
    end++;
  return end;
}

/* R2: stretches of one class that begin in one window have one bit. They stand in one word, one after the other, so the bits
 * that were counted there are remembered. */
typedef struct counted {
  size_t word, bits, all;
  unsigned seen[WORD_BITS];
} counted_t;

static void count_stretch(counted_t *counted, const granules_t *g, size_t from, size_t to)
{
  unsigned c;
  size_t window = granules_window(from, to, &c);
  if (window == GRANULES_NONE)
    return;
  granule_row_t row = granules_row(g, c);
  expect(row.bits && granules_row_word(&row, window / WORD_BITS) & bit_of(window), "R2",
         "a row does not know of a free stretch", g);
  if (counted->word != from / WORD_BITS)
    *counted = (counted_t){.word = from / WORD_BITS, .all = counted->all};
  for (size_t i = 0; i < counted->bits; i++)
    if (counted->seen[i] == c)
      return;
  counted->seen[counted->bits++] = c;
  counted->all++;
}

/* R2: what is known of rows as a whole. Returns how many bits they have. */
static size_t count_rows(const granules_t *g)
{
  size_t all = 0;
  for (unsigned c = 0; c < GRANULE_CLASSES; c++) {
    granule_row_t row = granules_row(g, c);
    size_t bits = 0;
    word_t parts = 0;
    for (size_t w = 0; row.bits && w < bits_words(row.windows); w++) {
      word_t word = granules_row_word(&row, w);
      bits += (size_t)__builtin_popcountll(word);
      parts |= word ? bit_of(w >> row.part_log2) : 0;
    }
    expect(!row.parts || *row.parts == parts, "R2", "what is known of the parts of a row is wrong", row.parts);
    expect((g->classes >> c & 1) == (bits != 0), "R2", "what is known of the classes is wrong", &g->classes);
    all += bits;
  }
  return all;
}

void check_granules(const granules_t *g)
{
  counted_t counted = {.word = SIZE_MAX};
  size_t live = 0, blocks = 0, kept_blocks = 0, used_end = 0;
  expect(!~g->map[-1] && !bit_test(g->map, g->count) && bit_test(g->map, g->count + 1), "R1", "the end is not where it belongs",
         g->map);
  for (size_t i = 0, end; i < g->count; i = end) {
    end = end_of(g, i);
    if (granules_begins(g, i)) {
      bool kept = granules_is_kept(g, i, end);
      live += kept ? 0 : end - i;
      blocks += !kept;
      kept_blocks += kept;
      for (size_t page = i / GRANULE_PAGE; page <= (end - 1) / GRANULE_PAGE; page++)
        expect(bit_test(g->used, page), "R3", "a page with a live granule is not used", &g->used[page / WORD_BITS]);
      for (size_t page = used_end; page < i / GRANULE_PAGE; page++)
        expect(!bit_test(g->used, page), "R3", "a page without a live granule is used", &g->used[page / WORD_BITS]);
      used_end = (end - 1) / GRANULE_PAGE + 1;
    } else
      count_stretch(&counted, g, i, end);
  }
  for (size_t page = used_end; page * GRANULE_PAGE < g->count; page++)
    expect(!bit_test(g->used, page), "R3", "a page without a live granule is used", &g->used[page / WORD_BITS]);
  expect_count(count_rows(g), counted.all, "R2", "bits of rows");
  if (granules_can_keep(g)) {
    const uint32_t *kept = granules_kept_of(g);
    expect_count((size_t)__builtin_popcount(kept[KEPT_LENGTHS]), kept_blocks, "R5", "kept blocks");
  }
  expect_count(g->live, live, "R4", "live granules");
  expect_count(g->blocks, blocks, "R4", "blocks of granules");
}
