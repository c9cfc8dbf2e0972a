/* SPDX-License-Identifier: MIT
 *
 * A range of addresses that is mapped for one huge block, live or left for the next: its record, and the tree of all. */
#ifndef HUGE_RANGE_H
#define HUGE_RANGE_H

#include "base/range_tree.h"
#include "os/lock.h"
#include <stddef.h>

typedef struct huge {
  range_t range;      /* start and size: whole pages, all of them the block's, but of a block apart */
  void *owner;        /* its heap; NULL: it was left */
  bool is_region : 1; /* the heap lives in it */
  bool is_apart : 1;  /* it is the beginning of a huge_apart_t */
  bool hidden;
  bool clean;         /* left: it reads as zero and holds no memory */
  struct huge **link; /* what leads to it in the list that it is in: its owner's, or that of what was left */
  struct huge *older; /* there too; of unused records alone */
  void *entry;        /* live: its owner's to say; NULL: nothing is known of it */
} huge_t;

/* A block apart (heap/apart.h). Its record is of its own kind, so that those of mappings stay short. */
typedef struct huge_apart {
  huge_t huge;
  const struct apart_source *source; /* whose memory it is */
  size_t offset; /* from the start of its range to what its caller has: no address, which a search for leaks would follow, */
  size_t asked;  /* and how much of it */
  const struct os_stack *stack; /* while it is taken or given: where, if its source wants to know */
  uint8_t kind;                 /* its owner's to say, */
  uint32_t site;                /* and this: where it was taken */
} huge_apart_t;

extern lock_t huge_lock;

static inline char *huge_start(const huge_t *huge) { return (char *)huge->range.start; }
static inline size_t huge_size(const huge_t *huge) { return huge->range.size; }
static inline huge_apart_t *apart_of(const huge_t *huge) { return (huge_apart_t *)(uintptr_t)huge; }
static inline char *apart_block(const huge_apart_t *apart) { return huge_start(&apart->huge) + apart->offset; }
static inline char *huge_block(const huge_t *huge) { return huge->is_apart ? apart_block(apart_of(huge)) : huge_start(huge); }
static inline size_t huge_usable(const huge_t *huge) { return huge->is_apart ? apart_of(huge)->asked : huge_size(huge); }
static inline huge_t *huge_of(range_t *range) { return (huge_t *)range; }
_Static_assert(offsetof(huge_t, range) == 0, "a range is its huge block");

static inline bool range_touches(const range_t *range, uintptr_t border)
{
  return range && (range->start == border || range->start + range->size == border);
}

/* All that are live or left. What follows is under huge_lock. */
extern range_t *huge_ranges;

/* Records. NULL: no memory. */
huge_t *huge_record_take(void);
huge_apart_t *huge_apart_record_take(void);
void huge_record_give(huge_t *huge);

/* Cuts the range behind `size` bytes; the rest is a range of its own. NULL: no memory for another record, and nothing is
 * done. */
huge_t *huge_cut(huge_t *huge, size_t size);

#endif
