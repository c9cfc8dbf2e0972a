/* SPDX-License-Identifier: MIT
 * Mapped ranges of huge blocks, live or left for the next block: their records, and the tree of all ranges. */
#ifndef HUGE_RANGE_H
#define HUGE_RANGE_H

#include "base/range_tree.h"
#include "os/lock.h"
#include <stddef.h>

typedef struct huge {
  range_t range;          /* start and size: whole pages, all the block's, except for a standalone block */
  void *owner;            /* its heap; NULL for a left range */
  bool is_region : 1;     /* the heap lives in it */
  bool is_standalone : 1; /* the first field of a huge_standalone_t */
  bool hidden;
  bool clean;         /* left ranges: reads as zero and holds no memory */
  struct huge **link; /* pointer to this record in its list: the owner's, or the list of left ranges */
  struct huge *older; /* next in the list; unused records only use this */
  void *entry;        /* live: belongs to its owner; NULL if it is unset */
} huge_t;

/* A standalone block (heap/block_source.h). It has its own kind of record, which keeps those of mappings short. */
typedef struct huge_standalone {
  huge_t huge;
  const struct block_source *source; /* the source of its memory */
  size_t offset;                /* from the range to the caller's block: not an address, which a leak search would follow */
  size_t asked;                 /* the size of the caller's block */
  const struct os_stack *stack; /* during taking and giving: the call stack, if the source wants it */
  uint8_t kind;                 /* belongs to the owner */
  uint32_t site;                /* belongs to the owner: where it was allocated */
} huge_standalone_t;

extern lock_t huge_lock;

static inline char *huge_start(const huge_t *huge) { return (char *)huge->range.start; }
static inline size_t huge_size(const huge_t *huge) { return huge->range.size; }
static inline huge_standalone_t *standalone_of(const huge_t *huge) { return (huge_standalone_t *)(uintptr_t)huge; }
static inline char *standalone_block(const huge_standalone_t *of) { return huge_start(&of->huge) + of->offset; }
static inline char *huge_block(const huge_t *huge)
{
  return huge->is_standalone ? standalone_block(standalone_of(huge)) : huge_start(huge);
}
static inline size_t huge_usable(const huge_t *huge)
{
  return huge->is_standalone ? standalone_of(huge)->asked : huge_size(huge);
}
static inline huge_t *huge_of(range_t *range) { return (huge_t *)range; }
_Static_assert(offsetof(huge_t, range) == 0, "a range is its huge block");

static inline bool range_touches(const range_t *range, uintptr_t border)
{
  return range && (range->start == border || range->start + range->size == border);
}

/* All live and left ranges. huge_lock protects this and everything below. */
extern range_t *huge_ranges;

/* Records; NULL if there is no memory. */
huge_t *huge_record_take(void);
huge_standalone_t *huge_standalone_record_take(void);
void huge_record_give(huge_t *huge);

/* Cuts the range behind `size` bytes and returns the rest. Returns NULL, and does nothing, without memory for a record. */
huge_t *huge_cut(huge_t *huge, size_t size);

#endif
