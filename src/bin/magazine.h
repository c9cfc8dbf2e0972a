/* SPDX-License-Identifier: MIT
 *
 * A magazine is MAGAZINE_WORDS pointers, aligned to its size. Word 0 links it into the list in which it is put away. Entries
 * grow upwards to the last word from a NULL that ends them. Here `n` is its capacity:
 *
 *     word      0        1 ...  63-n     64-n    ...    63
 *           link and n           NULL   entry 1 ...  entry n        top -> the highest entry
 *
 * A second NULL is below the first, or there is the link.
 *
 * So "empty" is the same test as reading an entry, "full" is whether the next word's address is a multiple of the size, and
 * a magazine of any capacity up to MAGAZINE_CAPACITY_MOST is handled by the same code. */
#ifndef MAGAZINE_H
#define MAGAZINE_H

#include "os/lock.h"

enum {
  MAGAZINE_WORDS = 64,
  MAGAZINE_BYTES = MAGAZINE_WORDS * (int)sizeof(void *),
  MAGAZINE_CAPACITY_MOST = MAGAZINE_WORDS - 2,
  MAGAZINE_LEAST = 2 /* blocks: a magazine that is loaded with a freed one has room for both */
};

/* The word for the NULL of an empty magazine, below its first entry. */
static inline void **magazine_floor(void **magazine, unsigned capacity) { return magazine + (MAGAZINE_WORDS - 1 - capacity); }
static inline void **magazine_of(void **top) { return (void **)round_down((uintptr_t)top, MAGAZINE_BYTES); }
static inline bool magazine_is_full_at(void **next) { return ((uintptr_t)next & (MAGAZINE_BYTES - 1)) == 0; }

/* Word 0 of a magazine that is put away says which one is below it in its list. In a depot it also says how many entries the
 * magazine may have, and so it does when it comes from the bin. The magazines that are put away are full to their last word, or
 * empty. */
static inline unsigned magazine_capacity(void **magazine) { return (unsigned)((uintptr_t)magazine[0] & (MAGAZINE_BYTES - 1)); }
static inline void **magazine_below(void **magazine) { return (void **)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES); }
static inline void **magazine_last(void **magazine) { return magazine + MAGAZINE_WORDS - 1; }
static inline void magazine_link(void **magazine, void **below, unsigned capacity)
{
  magazine[0] = (void *)((uintptr_t)below + capacity);
}

/* The same of a magazine that is empty. A reader beside the owner may come to it by a link, and begins at the last word: what
 * was in it once may be live now. */
static inline void magazine_link_empty(void **magazine, void **below)
{
  *magazine_last(magazine) = NULL;
  magazine_link(magazine, below, 0);
}

/* Entries end there. Who reads beside the owner may see the pointer of a magazine that has just been emptied with the top that
 * it had before. That leads to the word below, so entries end there too: what was in that word once may be live now. */
static inline void magazine_end_at(void **floor) { floor[0] = floor[-1] = NULL; }

static inline size_t magazine_entries(void *const *top)
{
  void *const *at = top;
  while (*at)
    at--;
  return (size_t)(top - at);
}

#endif
