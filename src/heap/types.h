/* SPDX-License-Identifier: MIT
 *
 * A heap is a manager: one bin for each size class, large blocks, a budget, counters. In this folder a request becomes a block
 * when the fast path cannot serve it, and a pointer is looked up that the class map does not know. The fast paths (in api/) pop
 * and push without this folder. Heaps that have none, and requests they pass on, have their magazines popped here.
 *
 * A heap takes its slabs and runs from the process's space, or from a region of its own: the caller's memory, what was
 * reserved at creation, or, for a small budget, as much as the budget allows. A small region has no room for slabs of many
 * classes. So it is of granules, from which blocks of any size are cut (granular.h), or cut into smaller units.
 *
 *   H1 a bin exists from the first request of its class on and stays as long as the heap
 *   H2 budget.held == head_bytes, the records, the slabs of all bins, the large and huge blocks, as far as they are not in
 *      a prepaid region, the used pages of granules, and what the heaps hold whose parent this is
 *   H3 the list of large runs holds exactly the heap's runs of the kinds RUN_LARGE and RUN_SPARE
 *
 * H2 does not hold inside calls that take memory or give it back: a charge comes before its memory, a discharge after it. H3
 * does not hold inside the gate of large blocks, where a run is linked before its kind is set. */
#ifndef HEAP_TYPES_H
#define HEAP_TYPES_H

#include "base/granules.h"
#include "space/huge.h"
#include "thread/thread.h"

enum { HEAP_NAME_SIZE = 32 };
#define HEAP_LIVE_MARK ((uint64_t)0x6c6f6f7065646974) /* "tidepool" in memory */

typedef struct pool_heap heap_t;
typedef bool heap_exhausted_fn(heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

/* Where a heap's memory is. */
typedef enum region_kind {
  REGION_NONE,  /* in the process's space */
  REGION_GUEST, /* in the caller's memory, the heap itself and all records too */
  REGION_SMALL, /* in a run or a huge block, in small units */
  REGION_SLOTS  /* in slots of the window */
} region_kind_t;

/* Blocks that came back and are kept for a while (heap/quarantine.h). */
typedef struct quarantine {
  char *first, *last; /* the oldest comes first */
  uint32_t bytes;
  uint32_t blocks_apart; /* those that are of no bin */
} quarantine_t;

typedef struct heap_region {
  uint8_t kind;            /* region_kind_t; the rest is for a heap that has one */
  bool locked;             /* its pages stay in memory */
  uint32_t gives;          /* large frees so far; of a region of granules, frees that left a page unused */
  uint32_t purge_delay_ms; /* of a region of granules */
  char *start;             /* its units or granules, or the caller's memory */
  size_t size;
  range_t guest;       /* REGION_GUEST: the caller's memory among others' */
  heap_t *around;      /* in whose memory it is */
  granules_t granules; /* no map: it is of units */
  char *base;          /* granule 0 */
  /* A guest of granules ends here. */
  word_t *dirty,
    *idle; /* of granules in the system's memory: pages without a block that hold old data, and did so at the last tick */
  uint64_t ticked_ms, purged_bytes;
  uint32_t ticked_page; /* where a round over the idle pages goes on; 0: none is under way */
  run_t *run;           /* REGION_SMALL: one of the two */
  huge_t *huge;
  void *arena_records; /* REGION_SMALL */
  size_t arena_record_bytes;
  space_t space;          /* the region as a space */
  arena_t arena;          /* REGION_GUEST, REGION_SMALL */
  struct pool_heap *next; /* that has a region of units: for a fork, from its beginning to its end */
} heap_region_t;

struct pool_heap {
  /* What a fork looks at in each of thousands stands together. */
  uint64_t mark;       /* HEAP_LIVE_MARK until it is destroyed */
  lock_t lock;         /* the making of bins, the list of large runs, records */
  heap_t *next;        /* in the list of all heaps */
  unsigned bins_end;   /* beyond the highest class that has a bin; published after it */
  uint8_t class_count; /* classes of its own, 1 to class_count; 0: the built-in table */
  bool checked, zero_on_free;
  bool own_page; /* its record has one, which may be locked */
  budget_t budget;
  space_t *space;                   /* the process's, or its region's */
  bool cached;                      /* threads may keep magazines of its blocks */
  bool has_cache_slot;              /* and find them by the heap's address */
  bool budgeted;                    /* it or an ancestor had a budget when it was made */
  bool reached;                     /* what threads have cached of it is within reach of the others */
  uint8_t plane;                    /* BIN_PLANE_*, of its bins */
  bool apart;                       /* its blocks, or samples of them, are apart: see apart_source */
  bool headed;                      /* its blocks have heads (heap/heads.h): it is checked, or records sites */
  bool moves_blocks;                /* realloc() moves each, so that a use of the old address is found */
  bool guarded_unasked;             /* by an option of the process alone: not beside a budget */
  bool marked;                      /* a tool is told what may be touched of its memory: a guest that is checked */
  bool marked_inside;               /* and that memory is in a block of another such guest */
  bool plain_granules;              /* its region is of granules, whose blocks need neither guard nor wipe */
  bool has_lines;                   /* in a profile, and all that lead to this record are its own */
  uint32_t class_most;              /* larger requests take runs of their own: small units leave little slack */
  const uint32_t *class_sizes;      /* with class 0 */
  huge_t *huge;                     /* the newest of its mappings; under huge_lock */
  run_t *large;                     /* the newest of its large runs and spares */
  size_t large_blocks, large_bytes; /* live: how many, and their usable bytes; with huge ones */
  size_t large_held;                /* what these take, and what spares take */
  uint64_t exhausted_count, retried_count, overflowed_count;
  uint64_t purged_bytes; /* by its own trims, where it has no region to count them */
  heap_exhausted_fn *on_exhausted;
  void *context;
  union {
    reach_list_t reach;      /* if it is within reach, the caches that may have something in them */
    quarantine_t quarantine; /* if it is checked: then nobody has caches of it */
  };
  heap_t *parent, *overflow;
  heap_t *previous;                 /* in the list of all heaps */
  struct object_pool *object_pools; /* in it, the newest first; under heaps_lock */
  size_t users;                     /* heaps whose parent or overflow it is; under heaps_lock */

  size_t head_bytes;           /* held by the heap's own records from the start */
  size_t metadata_bytes;       /* of head_bytes: what is no block's */
  size_t metadata_shared;      /* of metadata_bytes: what is the process's metadata; fixed */
  size_t record_bytes;         /* charged for records since */
  size_t record_run_bytes;     /* a guest's, in runs of its region */
  char *records, *records_end; /* room for more records, paid for; a guest goes on in runs of its region */
  void *records_start;         /* the records of a reserve, reserve_records bytes of them */
  size_t reserve_records;
  char name[HEAP_NAME_SIZE];
  heap_region_t region;
  const struct apart_source *apart_source; /* where those are from (heap/apart.h); NULL: samples are drawn; only if `apart` */
  bin_t *bins[CLASS_COUNT];                /* NULL: no request of the class yet. Published with release, read with acquire */
};

/* What the record of a guest of granules takes: it has no bins, and no space of its own. The words of its index stand behind
 * it, and on machines of 32 bits they are longer than what it ends with. */
enum {
  HEAP_RECORD_END = offsetof(heap_t, region) + offsetof(heap_region_t, dirty),
  HEAP_RECORD_SHORT = (HEAP_RECORD_END + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t),
  HEAP_RECORD_SHORT_MOST = 512
};
_Static_assert(HEAP_RECORD_SHORT <= HEAP_RECORD_SHORT_MOST, "a heap in a small memory leaves it to the blocks");

/* A bin's record. */
typedef struct bin_record {
  bin_t bin;
  depot_t depots[DEPOT_SHARDS]; /* of cached classes alone */
} bin_record_t;

/* False of NULL, and of a heap that was destroyed: its record is used again for heaps alone. */
static inline bool heap_is_live(const heap_t *heap) { return heap && heap->mark == HEAP_LIVE_MARK; }

/* What may be left out of a firmware is asked for by these. A heap whose blocks have heads moves them, too. */
static inline bool heap_is_checked(const heap_t *heap) { return HAS_CHECKS && heap->checked; }
static inline bool heap_is_headed(const heap_t *heap) { return HAS_CHECKS && heap->headed; }
static inline bool heap_moves_blocks(const heap_t *heap) { return heap_is_headed(heap) || (HAS_SYSTEM && heap->moves_blocks); }
static inline heap_t *heap_overflow(const heap_t *heap) { return HAS_OVERFLOW ? heap->overflow : NULL; }

enum { GRANULE_LOG2 = 4 };
#define GRANULE ((size_t)1 << GRANULE_LOG2)

/* How many granules serve a request. */
static inline size_t granules_for(size_t size) { return max_size((size + GRANULE - 1) >> GRANULE_LOG2, GRANULES_LEAST); }

/* Its region is of granules. Firmware has no other heaps. */
static inline bool heap_has_granules(const heap_t *heap) { return !HAS_SYSTEM || heap->region.granules.map != NULL; }

/* What a heap's plain_granules says, once that is known. */
static inline bool heap_is_plain_granular(const heap_t *heap)
{
  return heap_has_granules(heap) && !heap_is_headed(heap) && !heap->zero_on_free;
}

/* The arena of its region; NULL: it has none, or one of granules. */
static inline arena_t *heap_own_arena(const heap_t *heap) { return heap_has_granules(heap) ? NULL : heap->region.space.fixed; }

/* A heap in the caller's memory has no other memory. */
static inline bool heap_is_guest(const heap_t *heap) { return !HAS_SYSTEM || heap->region.kind == REGION_GUEST; }

#endif
