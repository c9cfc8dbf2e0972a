/* SPDX-License-Identifier: MIT
 *
 * Granules are small equal parts of a memory out of which blocks of any number are cut, two at least; a heap's have 16 bytes.
 * One bit for each says all there is to know. A free granule has a 1. A live block is a 1 for its first granule and a 0 for
 * each further one. Behind the last granule stand a 1 and a 0:
 *
 *     granule   0 1 2 3 4 5 6 7 8 9
 *     block     A A A . . . B B . .           . is free
 *     bits      1 0 0 1 1 1 1 0 1 1 | 1 0
 *
 * So the ones of a free stretch run on into the first bit of the block behind it: a run of r ones is r - 1 free granules and
 * the beginning of a block, or the end. Nothing is stored in a granule.
 *
 * An index finds a place without a look at every bit. Free stretches are of classes by their length, four to a doubling, as in
 * TLSF (M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", 2004). Each class has a row of bits,
 * one for each window of the memory, that says whether a stretch of the class begins in that window. Stretches of a word
 * of granules and more have windows that are no longer than they are. So only one begins in a window, and it holds the window's
 * last granule, from which it is found. Shorter stretches have windows of one word of bits, and are found by shifts of that
 * word. A request is served from the smallest class that has a stretch for it, at the lowest address. Every call takes a
 * bounded number of steps, whatever the blocks are.
 *
 *   R1 the bits are as above: no block has a single granule, and the end is where it belongs
 *   R2 a row has a bit for each window in which a free stretch of its class begins, and no other; `classes` has one for each
 *      row that is not empty
 *   R3 `used` has a bit for each page in which a granule is live
 *   R4 `live` is the number of live granules, `blocks` that of live blocks
 *   R5 a kept block is a block of the length that it is kept for, and is not live; the lengths that are noted have one
 *
 * They hold between calls. The owner has a lock. */
#ifndef BASE_GRANULES_H
#define BASE_GRANULES_H

#include "base/bits.h"

enum {
  GRANULES_LEAST = 2, /* of a block */
  GRANULE_PAGE = 256  /* granules */
};
#define GRANULES_NONE SIZE_MAX
#define GRANULES_MOST ((size_t)1 << 19)

typedef struct granules {
  word_t *map, *used, *rows;
  uint64_t classes;
  uint32_t count, words; /* of the map, but for its end */
  uint32_t live, blocks;
  uint32_t taken_end;       /* no granule at or beyond it was ever taken */
  uint16_t row_bytes;       /* of the classes of short stretches */
  uint16_t longer_rows_end; /* the first class whose row is a word at most */
} granules_t;

/* How many bytes the index takes for `count` granules. `index` is aligned to 8. All granules are free at first. */
size_t granules_index_bytes(size_t count);
void granules_init(granules_t *g, void *index, size_t count);

/* All granules are free again. Where the index is does not change, so it can be read meanwhile. */
void granules_clear(granules_t *g);

/* A place for a block, and the free stretch that it is cut from. */
typedef struct granule_fit {
  size_t at, count;
  size_t from, to;
  unsigned size_class; /* of the stretch */
  bool alone;          /* no other one of the class begins in its word */
} granule_fit_t;

/* Pages: which one a granule is in, where it ends, and how many granules would be used from now on if it were. */
static inline size_t granules_page(size_t i) { return i / GRANULE_PAGE; }
static inline size_t granules_page_end(const granules_t *g, size_t page)
{
  return min_size((page + 1) * GRANULE_PAGE, g->count);
}
static inline size_t granules_page_price(const granules_t *g, size_t page)
{
  return bit_test(g->used, page) ? 0 : granules_page_end(g, page) - page * GRANULE_PAGE;
}

/* Finds a place for `count` granules, at least GRANULES_LEAST; false: there is none. Nothing is taken yet. */
bool granules_find(const granules_t *g, size_t count, granule_fit_t *fit);

/* The same at a multiple of `alignment`, a power of two, where granule 0 is `first` behind one. A stretch of `count` +
 * `alignment` - 1 is always found. Of shorter ones 8 windows of the request's own class are looked at, and 32 of those above,
 * so an aligned hole may be missed among many that are not. */
bool granules_find_aligned(const granules_t *g, size_t count, size_t alignment, size_t first, granule_fit_t *fit);

/* The longest request that granules_find() finds a place for. */
size_t granules_longest(const granules_t *g);

/* These two are for an owner who can pay for no more than `room` granules of pages that are not used yet. They look at each
 * free stretch, and the first at its lowest and its highest place. */
bool granules_find_within(const granules_t *g, size_t count, size_t alignment, size_t first, size_t room, granule_fit_t *fit);
size_t granules_longest_within(const granules_t *g, size_t room);

/* Returns the longest free stretch, for a reader who has no lock: it reads each word of bits once. Kept blocks are blocks here,
 * and while the owner goes on the answer is close. */
size_t granules_longest_beside(const granules_t *g);

/* Returns how many granules the pages have that would be used from now on. */
size_t granules_unused(const granules_t *g, size_t from, size_t to);

void granules_take(granules_t *g, const granule_fit_t *fit);

/* Finds a place and takes it; GRANULES_NONE: none was found at the first look, or not for its owner. Then granules_find() may
 * find one. The owner is asked before pages are used that were not. */
typedef bool granules_open_fn(void *context, size_t from, size_t to);
size_t granules_cut(granules_t *g, size_t count, granules_open_fn *open, void *context);

/* These return how many granules the pages have that are not used any more. */
size_t granules_give(granules_t *g, size_t from, size_t to);
size_t granules_shorten(granules_t *g, size_t to, size_t new_to);

/* Returns how many free granules there are from `to` on, where a block ends; and lets that block have some of them. */
size_t granules_behind(const granules_t *g, size_t to);
void granules_lengthen(granules_t *g, size_t to, size_t new_to);

/* Whether a live block begins at `i`, and where it ends. */
static inline bool granules_begins(const granules_t *g, size_t i)
{
  return i < g->count && bit_test(g->map, i) && !bit_test(g->map, i + 1);
}

/* The first 0 at or behind `i`. */
size_t granules_next_zero(const granules_t *g, size_t i);

/* The bits from `i` on: a word of them, out of two. */
static inline word_t granules_bits(const granules_t *g, size_t i)
{
  const word_t *word = g->map + i / WORD_BITS;
  return word[0] >> i % WORD_BITS | word[1] << 1 << (WORD_BITS - 1 - i % WORD_BITS);
}

static inline size_t granules_end(const granules_t *g, size_t from)
{
  word_t bits = granules_bits(g, from + 1);
  return likely(bits) ? from + 1 + lowest_bit(bits) : bits_next_set(g->map, from + 1 + WORD_BITS, g->count + 1);
}

/* Returns where the live block begins that granule `i` is in; GRANULES_NONE: it is free. */
size_t granules_around(const granules_t *g, size_t i);

/* The same, and where the block ends, for a reader who has no lock. It is right about a block that is live all the time. A kept
 * block is none. */
size_t granules_around_beside(const granules_t *g, size_t i, size_t *end);

/* Returns where the first live block at or behind `i` begins; GRANULES_NONE: none does. */
size_t granules_next(const granules_t *g, size_t i);

/* For checks: the row of a class, and in which class and window a free stretch is; GRANULES_NONE: it is too short for any. */
typedef struct granule_row {
  const char *bits;    /* words, maybe not aligned; NULL: there is no such class */
  const word_t *parts; /* NULL: the row is a word at most */
  size_t windows;
  unsigned part_log2;
} granule_row_t;
enum { GRANULE_CLASSES = 64 };
granule_row_t granules_row(const granules_t *g, unsigned c);
word_t granules_row_word(const granule_row_t *row, size_t w);
size_t granules_window(size_t from, size_t to, unsigned *c);

#endif
