/* SPDX-License-Identifier: MIT
 *
 * Granules are small equal parts of a memory, from which blocks of two or more granules are cut. A heap's granules have 16
 * bytes. One bit for each granule is the whole state. It is a 1 if the granule is in the same block as the one before it. So a
 * free granule and the first of a block are 0, and zeroed memory is a map without a block. A 0 and ones follow the last
 * granule:
 *
 *     granule   0 1 2 3 4 5 6 7 8 9
 *     block     A A A . . . B B . .           . is free
 *     bits      0 1 1 0 0 0 0 1 0 0 | 0 1 1
 *
 * The zeros of a free stretch continue into the first bit of the next block: a run of r zeros is r - 1 free granules and the
 * beginning of a block, or the end. Nothing is stored in a granule.
 *
 * An index finds a place without reading every bit. Free stretches are classed by length, with four classes in each doubling,
 * as in TLSF (M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", 2004). Each class has a row of
 * bits, one for each window of the memory, which says whether a stretch of the class begins in that window.
 *
 * - A stretch of at least a word of granules is no shorter than the windows of its class. So only one begins in a window, and
 * it holds the window's last granule, from which it is found.
 * - Shorter stretches have windows of one word of bits, and are found by shifts of that word.
 *
 * A request is served from the smallest class that has a stretch for it, at the lowest address. Every call takes a bounded
 * number of steps, whatever the blocks are.
 *
 *   R1 the bits are as above: no block has a single granule, and the end is where it belongs
 *   R2 a row has a bit for each window in which a free stretch of its class begins, and no other; `classes` has one for each
 *      row that is not empty
 *   R3 `used` has a bit for each page in which a granule is live
 *   R4 `live` is the number of live granules, `blocks` that of live blocks
 *   R5 a kept block is a block of the length that it is kept for, and is not live; the lengths that are noted have one
 *
 * The invariants hold between calls. The owner serializes calls by a lock. */
#ifndef BASE_GRANULES_H
#define BASE_GRANULES_H

#include "base/bits.h"
#include "base/machine.h"

enum {
  GRANULES_LEAST = 2, /* in a block */
  GRANULE_PAGE = 256  /* granules */
};
#define GRANULES_NONE SIZE_MAX
#define GRANULES_MOST ((size_t)1 << 19)

typedef struct granules {
  word_t *map, *used, *rows;
  uint64_t classes;
  uint32_t count, words; /* of the map, without its end */
  uint32_t live, blocks;
  uint32_t taken_end;       /* no granule at or beyond this one was ever taken */
  uint16_t row_bytes;       /* for each class of short stretches */
  uint16_t longer_rows_end; /* the first class whose row is at most one word */
} granules_t;

/* Returns the bytes of the index for `count` granules. granules_init() takes an 8-byte aligned index that is zeroed. */
size_t granules_index_bytes(size_t count);
void granules_init(granules_t *g, void *index, size_t count);

/* Returns the most granules of 1 << `log2` bytes that `bytes` have room for, with their index. */
size_t granules_count_for(size_t bytes, unsigned log2);

/* Frees all granules. The index keeps its place, so other threads may read it meanwhile. */
void granules_clear(granules_t *g);

/* A place for a block, and the free stretch around it. */
typedef struct granule_fit {
  size_t at, count;
  size_t from, to;
  unsigned size_class; /* of the stretch */
  bool alone;          /* no other stretch of the class begins in its word */
} granule_fit_t;

/* Pages: the page of a granule, its end, and how many granules become used if the page becomes used. */
static inline size_t granules_page(size_t i) { return i / GRANULE_PAGE; }
static inline size_t granules_page_end(const granules_t *g, size_t page)
{
  return min_size((page + 1) * GRANULE_PAGE, g->count);
}
static inline size_t granules_page_price(const granules_t *g, size_t page)
{
  return bit_test(g->used, page) ? 0 : granules_page_end(g, page) - page * GRANULE_PAGE;
}

/* Finds a place for `count` granules, at least GRANULES_LEAST, and takes nothing. Returns false if there is no place. */
bool granules_find(const granules_t *g, size_t count, granule_fit_t *fit);

/* Finds a place at a multiple of `alignment`, a power of two; granule 0 is `first` granules behind a multiple. A stretch of
 * `count` + `alignment` - 1 granules is always found. For shorter ones the search is bounded: it tries 8 windows of the
 * request's own class and 32 of higher classes, and may miss an aligned hole among many that are not. */
bool granules_find_aligned(const granules_t *g, size_t count, size_t alignment, size_t first, granule_fit_t *fit);

size_t granules_longest(const granules_t *g);

/* For an owner that can pay for `room` granules of unused pages. Visit every free stretch, the first at both of its ends. */
bool granules_find_within(const granules_t *g, size_t count, size_t alignment, size_t first, size_t room, granule_fit_t *fit);
size_t granules_longest_within(const granules_t *g, size_t room);

/* Returns the longest free stretch, for a reader without a lock: it reads each word of the map once. Kept blocks count as
 * blocks. The result is approximate while the owner changes the map. */
size_t granules_longest_beside(const granules_t *g);

/* Returns how many granules become used if a block takes [from, to). */
size_t granules_unused(const granules_t *g, size_t from, size_t to);

void granules_take(granules_t *g, const granule_fit_t *fit);

/* Finds a place and takes it. Calls `open` before it uses unused pages. Returns GRANULES_NONE if `open` refuses, or if the
 * first attempt finds no place. granules_find() may find one even then. */
typedef bool granules_open_fn(void *context, size_t from, size_t to);
size_t granules_cut(granules_t *g, size_t count, granules_open_fn *open, void *context);

/* These return how many granules the pages have that become unused. */
size_t granules_give(granules_t *g, size_t from, size_t to);
size_t granules_shorten(granules_t *g, size_t to, size_t new_to);

/* A block ends at `to`. granules_behind() counts the free granules behind it; granules_lengthen() adds some of them to it. */
size_t granules_behind(const granules_t *g, size_t to);
void granules_lengthen(granules_t *g, size_t to, size_t new_to);

static inline bool granules_begins(const granules_t *g, size_t i)
{
  return i < g->count && !bit_test(g->map, i) && bit_test(g->map, i + 1);
}

size_t granules_next_one(const granules_t *g, size_t i);

/* Returns WORD_BITS bits from `i` on, out of two words. */
static inline word_t granules_bits(const granules_t *g, size_t i)
{
  const word_t *word = g->map + i / WORD_BITS;
  return word[0] >> i % WORD_BITS | word[1] << 1 << (WORD_BITS - 1 - i % WORD_BITS);
}

static inline size_t granules_end(const granules_t *g, size_t from)
{
  word_t zeros = ~granules_bits(g, from + 1);
  return likely(zeros) ? from + 1 + lowest_bit(zeros) : bits_next_clear(g->map, from + 1 + WORD_BITS, g->count + 1);
}

/* Returns the beginning of the block that granule `i` is in, and its end; GRANULES_NONE if the granule is free. A kept block
 * counts as free. The caller needs no lock: the result is right if the block stays live during the call. */
size_t granules_around(const granules_t *g, size_t i, size_t *end);

/* Returns the beginning of the first live block at or behind `i`; GRANULES_NONE if there is none. */
size_t granules_next(const granules_t *g, size_t i);

/* For checks: the row of a class, and the class and window of a free stretch; GRANULES_NONE if the stretch is too short. */
typedef struct granule_row {
  const char *bits;    /* words, maybe not aligned; NULL if the class does not exist */
  const word_t *parts; /* NULL if the row is at most one word */
  size_t windows;
  unsigned part_log2;
} granule_row_t;
enum { GRANULE_CLASSES = 64 };
granule_row_t granules_row(const granules_t *g, unsigned c);
word_t granules_row_word(const granule_row_t *row, size_t w);
size_t granules_window(size_t from, size_t to, unsigned *c);

/* ---- kept blocks ----
 *
 * A freed length is often requested again soon. So one block of each short length may be kept as it is: its bits are those of a
 * block, but it is neither live nor free. The functions above assume that no block is kept, so the owner gives kept blocks
 * first (granules_take_any_kept()). An array in front of the map has the beginning of each length's block, plus one, and
 * a bitmap of the lengths that have one.
 *
 * A small memory keeps none, because free stretches beside kept blocks do not merge. Of a million requests for 8 to 4096 bytes
 * in 256 KiB, 128 failed without kept blocks and 1,529 with them. In 1 MiB none failed. */

enum {
  KEPT_LONGEST = 32,  /* in granules */
  KEPT_COUNT = 32000, /* granules of the smallest memory that keeps blocks: 500 KiB */
  KEPT_LENGTHS = 0,   /* index of the bitmap of lengths, since no block has length 0 */
  KEPT_WORDS = ((KEPT_LONGEST + 1) * sizeof(uint32_t) + sizeof(word_t) - 1) / sizeof(word_t)
};

static inline bool granules_count_can_keep(size_t count) { return HAS_SPEED && count >= KEPT_COUNT; }
static inline bool granules_can_keep(const granules_t *g) { return granules_count_can_keep(g->count); }
static inline uint32_t *granules_kept_of(const granules_t *g) { return (uint32_t *)(g->map - 1 - KEPT_WORDS); }

static inline bool granules_is_kept(const granules_t *g, size_t from, size_t to)
{
  return to - from <= KEPT_LONGEST && granules_can_keep(g) && granules_kept_of(g)[to - from] == from + 1;
}

/* Keeps a live block. If it returns false, the caller gives the block. */
static inline bool granules_keep(granules_t *g, size_t from, size_t to)
{
  size_t length = to - from;
  uint32_t *kept = granules_kept_of(g);
  if (length > KEPT_LONGEST || !granules_can_keep(g) || kept[length])
    return false;
  kept[length] = (uint32_t)from + 1;
  kept[KEPT_LENGTHS] |= (uint32_t)1 << (length - 1);
  g->live -= (uint32_t)length;
  g->blocks--;
  return true;
}

/* Takes the kept block of exactly this length; GRANULES_NONE if there is none. */
static inline size_t granules_take_kept(granules_t *g, size_t length)
{
  uint32_t *kept = granules_kept_of(g);
  if (length > KEPT_LONGEST || !granules_can_keep(g) || !kept[length])
    return GRANULES_NONE;
  size_t at = kept[length] - 1;
  kept[length] = 0;
  kept[KEPT_LENGTHS] &= ~((uint32_t)1 << (length - 1));
  g->live += (uint32_t)length;
  g->blocks++;
  return at;
}

/* Makes one kept block live again, for the owner to give it; GRANULES_NONE if there is none. */
static inline size_t granules_take_any_kept(granules_t *g)
{
  const uint32_t *kept = granules_kept_of(g);
  return granules_can_keep(g) && kept[KEPT_LENGTHS] ? granules_take_kept(g, lowest_bit(kept[KEPT_LENGTHS]) + 1u)
                                                    : GRANULES_NONE;
}

/* Returns the longest piece [from, to) without a live block: kept blocks count as free. Changes nothing. */
typedef struct granule_piece {
  size_t from, to; /* equal if there is none */
} granule_piece_t;
granule_piece_t granules_longest_piece(const granules_t *g);

static inline void *granules_index(const granules_t *g) { return g->map - 1 - (granules_can_keep(g) ? KEPT_WORDS : 0); }

#endif
