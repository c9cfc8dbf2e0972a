/* SPDX-License-Identifier: MIT
 *
 * What is given back is often asked for again soon. So one block of each of the shorter lengths may be kept as it is: it is a
 * block for the bits, and neither live nor free. All functions of granules.h are for a memory that keeps none, so its owner
 * gives kept blocks first (granules_take_any_kept()). In front of the map stand where the block of each length begins, plus
 * one, and which lengths there are.
 *
 * A small memory keeps none: free stretches beside kept blocks do not grow together. Of a million requests for 8 to 4096 bytes
 * 128 were refused in 256 KiB, and with kept blocks 1,529. In 1 MiB none was. */
#ifndef BASE_GRANULES_KEPT_H
#define BASE_GRANULES_KEPT_H

#include "base/granules.h"

enum {
  KEPT_LONGEST = 32,  /* granules */
  KEPT_COUNT = 32000, /* granules of a memory that keeps blocks: 500 KiB */
  KEPT_LENGTHS = 0,   /* stands where no length has its place */
  KEPT_WORDS = ((KEPT_LONGEST + 1) * sizeof(uint32_t) + sizeof(word_t) - 1) / sizeof(word_t)
};

static inline bool granules_count_can_keep(size_t count) { return count >= KEPT_COUNT; }
static inline bool granules_can_keep(const granules_t *g) { return g->count >= KEPT_COUNT; }
static inline uint32_t *granules_kept_of(const granules_t *g) { return (uint32_t *)(g->map - 1 - KEPT_WORDS); }

static inline bool granules_is_kept(const granules_t *g, size_t from, size_t to)
{
  return to - from <= KEPT_LONGEST && granules_can_keep(g) && granules_kept_of(g)[to - from] == from + 1;
}

/* Keeps a live block. False: it must be given. */
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

/* Takes a kept block of just so many granules; GRANULES_NONE: there is none. */
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

/* Makes one of the kept blocks live again, for the owner to give it; GRANULES_NONE: none is kept. */
static inline size_t granules_take_any_kept(granules_t *g)
{
  const uint32_t *kept = granules_kept_of(g);
  return granules_can_keep(g) && kept[KEPT_LENGTHS] ? granules_take_kept(g, lowest_bit(kept[KEPT_LENGTHS]) + 1u)
                                                    : GRANULES_NONE;
}

/* The longest piece that no live block has, [from, to): kept blocks count as free. Nothing changes. */
typedef struct granule_piece {
  size_t from, to; /* the same: there is none */
} granule_piece_t;
granule_piece_t granules_longest_piece(const granules_t *g);

/* Where the index begins that granules_init() was given. */
static inline void *granules_index(const granules_t *g) { return g->map - 1 - (granules_can_keep(g) ? KEPT_WORDS : 0); }

#endif
