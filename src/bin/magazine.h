/* SPDX-License-Identifier: MIT
 *
 * A magazine is MAGAZINE_WORDS pointers, aligned to its size. Word 0 links it into a list while it is put away. Entries grow
 * upwards to the last word from a NULL that ends them. `n` is the capacity:
 *
 *     word      0        1 ...  63-n     64-n    ...    63
 *           link and n           NULL   entry 1 ...  entry n        top -> the highest entry
 *
 * A second NULL is below the first, unless the link is there.
 *
 * The magazine is empty if the entry read is NULL, and full if the next word's address is a multiple of the size. So the same
 * code handles magazines of any capacity up to MAGAZINE_CAPACITY_MOST. */
#ifndef MAGAZINE_H
#define MAGAZINE_H

#include "os/lock.h"

enum {
  MAGAZINE_WORDS = 64,
  MAGAZINE_BYTES = MAGAZINE_WORDS * (int)sizeof(void *),
  MAGAZINE_CAPACITY_MOST = MAGAZINE_WORDS - 2,
  MAGAZINE_LEAST = 2 /* blocks: a magazine that is loaded with a freed block has room for another */
};

/* Returns the word for the NULL of an empty magazine, below its first entry. */
static inline void **magazine_floor(void **magazine, unsigned capacity) { return magazine + (MAGAZINE_WORDS - 1 - capacity); }
static inline void **magazine_of(void **top) { return (void **)round_down((uintptr_t)top, MAGAZINE_BYTES); }
static inline bool magazine_is_full_at(void **next) { return ((uintptr_t)next & (MAGAZINE_BYTES - 1)) == 0; }

/* Word 0 of a magazine that is put away links to the one below it in its list. In a depot, and when it comes from the bin, it
 * also has the capacity. Magazines that are put away are full to their last word, or empty. */
static inline unsigned magazine_capacity(void **magazine) { return (unsigned)((uintptr_t)magazine[0] & (MAGAZINE_BYTES - 1)); }
static inline void **magazine_below(void **magazine) { return (void **)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES); }
static inline void **magazine_last(void **magazine) { return magazine + MAGAZINE_WORDS - 1; }
static inline void magazine_link(void **magazine, void **below, unsigned capacity)
{
  magazine[0] = (void *)((uintptr_t)below + capacity);
}

/* Links an empty magazine. Lock-free readers begin at its last word, which must not show an old entry: it may be live now. */
static inline void magazine_link_empty(void **magazine, void **below)
{
  *magazine_last(magazine) = NULL;
  magazine_link(magazine, below, 0);
}

/* Ends the entries at `floor`. A lock-free reader may combine the pointer of an emptied magazine with its earlier top, which
 * leads to the word below. So that word ends the entries too: its old block may be live now. */
static inline void magazine_end_at(void **floor) { floor[0] = floor[-1] = NULL; }

static inline size_t magazine_entries(void *const *top)
{
  void *const *at = top;
  while (*at)
    at--;
  return (size_t)(top - at);
}

#endif
