/* SPDX-License-Identifier: MIT
 *
 * Huge blocks: those too large, or aligned too strictly, for an arena. Each is a mapping of its own, which grows and shrinks as a
 * whole: its pages change place without being read, and when it ends its memory, its addresses and what it was charged go
 * back. They stand in a tree by address.
 *
 * What a block leaves behind may be kept for the next one, since its pages are there already: as many bytes as were freed and asked for
 * again lately, at most as many as are live or 32 MiB, and for no longer than they are needed. Neighbours that are kept become
 * one, a new block takes the low end of the shortest that will do, and none of that asks the system. What the system refuses
 * to unmap is kept too, without its memory if that can be had, and so is what lies between others where they are very many: the
 * mappings that the system allows a process are not used up for holes. */
#ifndef HUGE_H
#define HUGE_H

#include "base/range_tree.h"
#include "os/lock.h"

typedef struct huge {
  range_t      range;              /* start and size: whole pages, all of them the block's */
  void        *owner;              /* its heap; NULL: it is kept */
  bool         is_region;          /* the heap lives in it */
  bool         hidden;
  bool         is_wiped;           /* its owner's to say: what it leaves behind where it moves is cleared */
  bool         clean;              /* kept: it reads as zero and holds no memory */
  uint32_t     age;                /* kept: the higher, the newer */
  union {
    struct huge  *newer;           /* kept: of about its size, by age */
    struct huge **link;            /* live: what leads to it in its owner's list */
  };
  struct huge *older;              /* there too; of unused records alone */
} huge_t;

extern lock_t huge_lock;

static inline char *huge_start(const huge_t *huge) { return (char *)huge->range.start; }
static inline size_t huge_size(const huge_t *huge) { return huge->range.size; }

/* It becomes the first of the list of its owner's blocks, which changes under huge_lock; without a list it is a region.
 * *zeroed: it holds no old data. NULL: no memory. */
huge_t *huge_take(size_t size, size_t alignment, void *owner, huge_t **list, bool *zeroed);
void    huge_give(huge_t *huge);

/* From now on nobody finds it, or everybody does. A region is hidden until its owner has made it one. */
void    huge_hide(huge_t *huge, bool hide);

/* Changes the size, moving the pages if need be. False: nothing changed. True: it has that size, or a larger one that the system
 * would not take anything of. */
bool huge_resize(huge_t *huge, size_t size, bool may_move);

/* Calls `ask` with the one that `address` is in, under the lock. False: it is in none. */
typedef void huge_ask_fn(huge_t *huge, void *context);
bool huge_ask(const void *address, huge_ask_fn *ask, void *context);

/* The block of an owner with the lowest address at or above `from`. NULL: none. It is the owner's to say how long it lives. */
huge_t *huge_next(const void *owner, const void *from);

/* What a block of this size will hold. */
size_t huge_bytes(size_t size);

/* What is kept, bytes of memory. */
size_t huge_kept_bytes(void);

/* What the system was given of mappings, in total: kept ones, and live ones when they ended or became smaller. */
uint64_t huge_given_bytes(void);

/* The system has refused so many bytes, and would whatever it got back: nothing is given up for them. */
bool huge_is_hopeless(size_t size);

/* Unmaps what is kept beyond `keep` bytes, the oldest first, and at 0 what holds no memory too; returns how many bytes of memory the
 * system took. */
size_t huge_release(size_t keep);

/* Once in a quarter of the purge delay. At every fourth, half of what was not needed since the last is unmapped, and what counts as
 * lately halves. */
void huge_tick(void);

#endif
