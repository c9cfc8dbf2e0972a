/* SPDX-License-Identifier: MIT
 *
 * Huge blocks are too large, or too strictly aligned, for an arena. Each is a mapping of its own. Resizing moves its pages
 * without copying, and freeing unmaps it at once. All are in a tree by address.
 *
 * A mapping that the system refuses to unmap is left for the next block, without its memory if possible. */
#ifndef HUGE_H
#define HUGE_H

#include "base/trees.h"
#include "os/lock.h"
#include <stddef.h>

typedef struct huge {
  range_t range;          /* start and size: whole pages, all the block's, except for a standalone block */
  void *owner;            /* its heap; NULL for a left range */
  bool is_region : 1;     /* it holds the granules of a heap */
  bool is_standalone : 1; /* the first field of a huge_standalone_t */
  bool hidden;
  bool clean;                 /* left ranges: reads as zero and holds no memory */
  struct huge **list;         /* the list that it is in: its owner's, or that of left ranges; NULL: none, it is a region */
  struct huge *older, *newer; /* in that list */
  void *entry;                /* live: belongs to its owner; NULL if it is unset */
} huge_t;

/* A standalone block (heap/large.h). It has its own kind of record, which keeps those of mappings short. */
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

/* All live and left ranges, under huge_lock. */
extern range_t *huge_ranges;

/* Enters the block at the head of its owner's list, which changes under huge_lock; without a list it is a region. *zeroed: it
 * holds no old data. Returns NULL if there is no memory. */
huge_t *huge_take(size_t size, size_t alignment, void *owner, huge_t **list, bool *zeroed);
void huge_give(huge_t *huge);

/* Hides the block from queries, or shows it. A region is hidden until its owner has initialized it. */
void huge_hide(huge_t *huge, bool hide);

/* Resizes the block and moves its pages if needed. If it returns false, nothing has changed. A block that shrinks may stay
 * longer than requested if the system refuses to unmap its end. */
bool huge_resize(huge_t *huge, size_t size, bool may_move);

/* Calls `ask` with the block that holds `address`, under the lock. Returns false if there is none. */
typedef void huge_ask_fn(huge_t *huge, void *context);
bool huge_ask(const void *address, huge_ask_fn *ask, void *context);

/* Returns the owner's block with the lowest address at or above `from`, or NULL. The owner must keep it alive. */
huge_t *huge_next(const void *owner, const void *from);

/* Standalone blocks (heap/large.h): only their records, and their places in the tree and the owners' lists, are kept
 * here. Their source manages their memory, none of which is kept. */
huge_standalone_t *huge_standalone_record(void); /* NULL: no memory; the caller sets range, source, offset and asked */
void huge_standalone_enter(huge_t *huge, void *owner, huge_t **list);
void huge_standalone_end(huge_t *huge); /* a record that did not enter, or has left */

void huge_standalone_note(const void *block, uint8_t kind, uint32_t site); /* of a live block */

/* Sets the entry of any live block, standalone or not; *before is the old one. Returns false if there is no such block. */
bool huge_note_entry(const void *block, void *entry, void **before);

/* Removes the record from tree and list, for one of several freeing threads. Returns NULL if it is not a live standalone block.
 */
huge_t *huge_standalone_leave(const void *block);

/* huge_unmap_left() retries the left ranges and returns how many bytes of memory the system took. huge_left_bytes() returns how
 * many bytes are left, huge_purged_bytes() how many were returned in total. */
size_t huge_unmap_left(void);
size_t huge_left_bytes(void);
uint64_t huge_purged_bytes(void);

/* Return the bytes mapped for huge blocks and left ranges, and the bytes of standalone blocks. */
size_t huge_mapped_bytes(void);
size_t huge_standalone_bytes(void);

size_t huge_bytes(size_t size);

/* Returns whether the system would refuse the request whatever is returned to it, so that nothing is given up for it. */
bool huge_is_hopeless(size_t size);

#endif
