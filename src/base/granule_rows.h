/* SPDX-License-Identifier: MIT
 *
 * The index over granules: each class of free stretches has a row of bits, one bit for each window of the memory. Rows of a
 * small memory are shorter than a word, so rows are packed by bytes. */
#ifndef BASE_GRANULE_ROWS_H
#define BASE_GRANULE_ROWS_H

#include "base/granules.h"
#include "base/machine.h"
#include <string.h>

enum {
  CLASSES = GRANULE_CLASSES,
  CLASS_STEPS = 4,                            /* in each doubling of the length */
  CLASS_FIRST = GRANULES_LEAST,               /* no block fits into a shorter stretch */
  CLASS_EXACT = 8,                            /* shorter stretches have one class for each length */
  CLASS_LONG = CLASS_STEPS * (WORD_LOG2 - 1), /* stretches of WORD_BITS granules */
  SHORT_ROWS = CLASS_LONG - CLASS_FIRST,
  LONG_MOST = (CLASSES - CLASS_LONG) / CLASS_STEPS,
};

/* ---- classes ---- */

/* For lengths below WORD_BITS. */
static const uint8_t class_of_short[WORD_BITS] = {
  0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  9,  10, 10, 11, 11,
  12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15,
#if TIDEPOOL_WORD_BITS > 32
  16, 16, 16, 16, 16, 16, 16, 16, 17, 17, 17, 17, 17, 17, 17, 17,
  18, 18, 18, 18, 18, 18, 18, 18, 19, 19, 19, 19, 19, 19, 19, 19,
#endif
};

/* The shortest length of each short class. A class ends where the next one begins. */
static const uint8_t least_of[CLASS_LONG + 1] = {
  0,  1,  2,  3,  4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32,
#if TIDEPOOL_WORD_BITS > 32
  40, 48, 56, 64,
#endif
};

static inline unsigned length_class(size_t length)
{
  if (likely(length < WORD_BITS))
    return class_of_short[length];
  unsigned log2 = log2_floor(length);
  return (unsigned)min_size(CLASS_STEPS * (log2 - 2) + (length >> (log2 - 2)), CLASSES - 1);
}

static inline uint64_t class_bit(unsigned c) { return (uint64_t)1 << c; }

/* ---- rows ---- */

/* A window for doubling k has WORD_BITS * 2^k granules, so the number of windows halves with each doubling. */
static inline unsigned doubling_of(unsigned c) { return c < CLASS_LONG ? 0 : (c - CLASS_LONG) / CLASS_STEPS; }

static inline size_t windows_of(size_t words, unsigned k) { return ((words - 1) >> k) + 1; }

static inline size_t window_of(unsigned c, size_t from) { return from >> (WORD_LOG2 + doubling_of(c)); }

/* A row of at most WORD_BITS windows takes whole bytes, and is accessed as a word that begins there. On a big-endian machine
 * its bits are the last bytes of that word: rows do not overlap, because none is longer than the one before it. A longer row
 * takes whole words. It also has a word of parts, which says which of its words are not empty. Only the first classes have
 * longer rows. */
static inline size_t row_bytes(size_t words, unsigned k)
{
  size_t windows = windows_of(words, k);
  return windows > WORD_BITS ? bits_words(windows) * sizeof(word_t) : (windows + 7) / 8;
}

static inline unsigned doublings_of_longer_rows(size_t words)
{
  return words > WORD_BITS ? log2_floor((words - 1) / WORD_BITS) + 1 : 0;
}

static inline unsigned longer_rows_end(size_t words)
{
  return words > WORD_BITS ? CLASS_LONG + CLASS_STEPS * doublings_of_longer_rows(words) : CLASS_FIRST;
}

static inline bool has_longer_row(const granules_t *g, unsigned c) { return c < g->longer_rows_end; }

/* In front of the rows are, downwards: the mask of a short class's row, the offset of each doubling's rows, and all parts. */
enum {
  STARTS_IN_WORD = sizeof(word_t) / sizeof(uint32_t),
  STARTS_WORDS = 1 + (LONG_MOST + STARTS_IN_WORD - 1) / STARTS_IN_WORD
};

static inline uint32_t *row_start(const granules_t *g, unsigned k) { return (uint32_t *)(g->rows - 1) - 1 - k; }
static inline word_t *parts_of(const granules_t *g, unsigned c) { return g->rows - STARTS_WORDS - 1 - (c - CLASS_FIRST); }

static inline unsigned doublings(size_t words) { return (unsigned)min_size(log2_floor(words) + 1, LONG_MOST); }

/* One bit of a row's parts stands for 2^part_log2 words of the row. With 64-bit words that is one word, or two in a memory of
 * more than 4 MiB. With 32-bit words it is one word in up to 512 KiB, and doubles with the memory. */
static inline unsigned part_log2(const granules_t *g)
{
  if (likely(g->words <= WORD_BITS * WORD_BITS))
    return 0;
  return WORD_BITS > 32 ? 1 : log2_floor((g->words - 1) / (WORD_BITS * WORD_BITS)) + 1;
}
_Static_assert(WORD_BITS == 32 || GRANULES_MOST <= WORD_BITS * WORD_BITS * WORD_BITS * 2,
               "a row has no more parts than a word has bits");

static inline char *row_of(const granules_t *g, unsigned c)
{
  if (likely(c < CLASS_LONG))
    return (char *)g->rows + (size_t)(c - CLASS_FIRST) * g->row_bytes;
  unsigned k = doubling_of(c);
  return (char *)g->rows + *row_start(g, k) + c % CLASS_STEPS * row_bytes(g->words, k);
}

static inline word_t row_load(const char *at)
{
  word_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static inline void row_store(char *at, word_t word) { memcpy(at, &word, sizeof word); }

/* Returns the mask of a short row's own bits in its word. The other bits belong to the rows behind it. */
static inline word_t own_bits(const granules_t *g, unsigned c)
{
  return likely(c < CLASS_LONG) ? g->rows[-1] : ~(word_t)0 >> (WORD_BITS - windows_of(g->words, doubling_of(c)));
}

OWN_COPY NOINLINE void longer_row_add(granules_t *g, char *row, unsigned c, size_t window)
{
  char *at = row + window / WORD_BITS * sizeof(word_t);
  row_store(at, row_load(at) | bit_of(window));
  *parts_of(g, c) |= bit_of(window / WORD_BITS >> part_log2(g));
}

static ALWAYS_INLINE void row_add(granules_t *g, unsigned c, size_t window)
{
  char *row = row_of(g, c);
  g->classes |= class_bit(c);
  if (has_longer_row(g, c)) {
    longer_row_add(g, row, c, window);
    return;
  }
  row_store(row, row_load(row) | bit_of(window));
}

/* Returns whether all row words of one bit of the parts are empty. */
static inline bool part_is_empty(const granules_t *g, const char *row, unsigned c, size_t part)
{
  size_t w = part << part_log2(g), end = min_size((part + 1) << part_log2(g), bits_words(windows_of(g->words, doubling_of(c))));
  while (w < end && !row_load(row + w * sizeof(word_t)))
    w++;
  return w == end;
}

OWN_COPY NOINLINE void longer_row_remove(granules_t *g, char *row, unsigned c, size_t window)
{
  char *at = row + window / WORD_BITS * sizeof(word_t);
  size_t part = window / WORD_BITS >> part_log2(g);
  word_t word = row_load(at) & ~bit_of(window);
  row_store(at, word);
  if (word || (part_log2(g) && !part_is_empty(g, row, c, part)))
    return;
  word_t *parts = parts_of(g, c);
  *parts &= ~bit_of(part);
  if (!*parts)
    g->classes &= ~class_bit(c);
}

static ALWAYS_INLINE void row_remove(granules_t *g, unsigned c, size_t window)
{
  char *row = row_of(g, c);
  if (has_longer_row(g, c)) {
    longer_row_remove(g, row, c, window);
    return;
  }
  word_t word = row_load(row) & ~bit_of(window);
  row_store(row, word);
  if (!(word & own_bits(g, c)))
    g->classes &= ~class_bit(c);
}

/* Enters a free stretch into its row, unless it is too short for a block. */
void granules_note_free(granules_t *g, size_t from, size_t to);

/* Reads the first non-empty word of a row, and returns the window of its lowest bit 0. */
static inline size_t row_first(const granules_t *g, unsigned c, word_t *word)
{
  const char *row = row_of(g, c);
  if (!has_longer_row(g, c)) {
    *word = row_load(row) & own_bits(g, c);
    return 0;
  }
  size_t w = (size_t)lowest_bit(*parts_of(g, c)) << part_log2(g);
  while (!(*word = row_load(row + w * sizeof *word)))
    w++;
  return w * WORD_BITS;
}

/* Reads the next non-empty word behind `window`. Returns false if there is none. */
static inline bool row_next(const granules_t *g, unsigned c, size_t *window, word_t *word)
{
  const char *row = row_of(g, c);
  size_t words = bits_words(windows_of(g->words, doubling_of(c)));
  for (size_t w = *window / WORD_BITS + 1; w < words; w++)
    if ((*word = row_load(row + w * sizeof *word)) != 0) {
      *window = w * WORD_BITS;
      return true;
    }
  return false;
}

#endif
