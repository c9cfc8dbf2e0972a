/* SPDX-License-Identifier: MIT
 *
 * A run is consecutive units of an arena: a slab, a large block, or the region or the records of a heap. Its descriptor is in
 * the arena's records, at the number of its first unit. It has 128 bytes: operations on a slab of large blocks touch both cache
 * lines, those on a slab with a long bitmap only the first. */
#ifndef RUN_H
#define RUN_H

#include "base/bits.h"
#include "space/class_map.h"

/* A spare is a large run that its owner has freed and a thread keeps for its next block of that length. */
typedef enum run_kind { RUN_NONE, RUN_SLAB, RUN_LARGE, RUN_SPARE, RUN_REGION } run_kind_t;

enum { SHORT_BITMAP_WORDS = 7 };

/* For each unit, since a slab of one unit may have more blocks than the short bitmap has bits. */
#define LONG_BITMAP_WORDS ((UNIT >> ALIGNMENT_LOG2) / WORD_BITS)

typedef struct run {
  uint8_t kind;       /* run_kind_t */
  uint8_t size_class; /* slab */
  uint8_t list;       /* slab: its list in the bin */
  uint8_t zeroed;     /* every byte beyond the fresh mark reads as zero */
  uint32_t units;
  uint32_t capacity;   /* slab: its blocks */
  uint32_t free_count; /* slab: set bits of its bitmap */
  uint32_t fresh;      /* slab: blocks from this one on were never handed out; large: units that were dirty when it was taken */
  uint16_t settled;    /* slab: free blocks that a purge has visited since they came back */
  uint8_t shard;       /* slab: of the threads that last freed blocks */
  char *start;
  void *owner; /* slab: its bin; large or spare: its heap */
  struct run *next, *previous;
  word_t
    *bitmap; /* slab: bit i set: block i is free and here. A reader without the lock may find it after the slab has ended */
  /* The size of a large run is exact while its block is live. Other threads only read it as a figure. */
  union {
    size_t size;   /* large: usable bytes */
    word_t purged; /* slab: bit i set: part i (slab.h) is free, and holds no memory */
  };
  union {
    word_t short_bitmap[SHORT_BITMAP_WORDS];
    void *entry; /* large: belongs to its owner; NULL if it is unset */
  };
} run_t;
_Static_assert(sizeof(run_t) <= 128, "two cache lines");

/* The kind is set last, with release. Walks and queries find foreign runs by address, and read the kind first, with acquire. */
static inline void run_become(run_t *run, run_kind_t kind, void *owner)
{
  __atomic_store_n(&run->owner, owner, __ATOMIC_RELAXED);
  __atomic_store_n(&run->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}
static inline run_kind_t run_kind(const run_t *run) { return __atomic_load_n(&run->kind, __ATOMIC_ACQUIRE); }
static inline void *run_owner(const run_t *run) { return __atomic_load_n(&run->owner, __ATOMIC_RELAXED); }

#endif
