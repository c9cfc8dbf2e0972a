/* SPDX-License-Identifier: MIT
 *
 * A bin is everything that serves one size class of one heap: its slabs, under one lock, and its depots of spare magazines,
 * each under a lock of its own.
 *
 * A thread keeps a small stock of full magazines to itself. What is over goes back to the bitmaps, since a refill from there
 * is in address order and puts the objects of a user together again (Lua: 3.7 s where half the class could stay in
 * magazines, 2.2 with a 64th); except where blocks are given by one thread and taken by another: for those the depots take
 * whole magazines, last in first out.
 *
 *   B1 outstanding == blocks of all slabs that are neither free bits nor fresh: with callers, in magazines, in the depots
 *   B2 a slab is in the list that its free count says: slab_list_of(); only `current` and slabs whose blocks are all fresh, in
 *      the list SLAB_RESET, have fresh blocks
 *   B3 idle == idle blocks of all slabs, and returned_bytes == the length of their purged parts
 *
 *   D2 a bin with magazines in its depots is due, unless it is one thread's alone: ticks empty what nobody needs
 *   D3 a bin whose depots are in use (shards) is in the list for forks (bins_with_depots), unless it is one thread's alone; the
 *      others have nothing there
 *
 * They hold whenever the bin's lock is free, and D2 while those of its depots are too and no thread is in a call; of a bin of
 * one thread, which has no lock, between its calls. A magazine on the way from a depot to the bitmaps is in the hands of
 * whoever has the bin's lock. */
#ifndef BIN_TYPES_H
#define BIN_TYPES_H

#include "base/low_water.h"
#include "bin/depot.h"
#include "bin/slab.h"
#include "size_class.h"
#include "space/budget.h"

/* Slabs by how many of their blocks are free, in quarters: the fullest are taken from first, so that the emptiest become
 * unused. One in SLAB_NONE_FREE may still have fresh blocks, if it is the current one.
 *
 * Idle blocks are those that came back since a purge last looked at their slab, and are still free. A slab with free blocks of
 * which none is idle has settled: what could be purged of it is. It is taken from last. */
enum { SLAB_NONE_FREE, SLAB_PARTIAL_1, SLAB_PARTIAL_2, SLAB_PARTIAL_3, SLAB_PARTIAL_4, SLAB_SETTLED, SLAB_RESET, SLAB_LISTS };

typedef struct bin {
  /* What is read without the lock is in a line of its own. */
  uint32_t block_size;
  uint32_t slab_bytes; /* wanted for one slab, whole units */
  uint8_t size_class;
  uint8_t magazine_capacity; /* blocks a magazine of this class may hold */
  bool cached;               /* threads keep magazines of it */
  uint8_t stock_most;        /* full magazines a thread may keep beside the loaded one */
  uint8_t plane;             /* BIN_PLANE_*: where the class map says its class */
  bool purges;               /* free parts of its slabs */
  uint64_t inverse;
  space_t *space;
  budget_t *budget;
  struct pool_heap *heap; /* whose bin it is; nothing here looks into it */

  size_t capacity;      /* blocks of all slabs: seldom changed */
  struct bin *due_next; /* the same */

  lock_t lock;    /* of all that follows but the depots, which have their own */
  run_t *current; /* the slab with fresh blocks */
  run_t *slabs[SLAB_LISTS];

  uint32_t partial_count; /* slabs in the partial lists */
  uint32_t withheld;      /* outstanding blocks that are with no caller, of a checked heap (heap/quarantine.h); not under it */
  size_t slab_count;
  size_t outstanding;
  size_t held_bytes;     /* by the slabs */
  size_t idle;           /* blocks, of all slabs */
  size_t returned_bytes; /* the parts of slabs that are purged */
  low_water_t low_idle;  /* of `idle` */
  size_t unneeded;       /* idle blocks that this epoch still has to purge */
  bool purges_in_puts;   /* one thread's, or with a purge delay of 0 */
  uint8_t puts;          /* of one thread's: so many since the last look at the clock */
  bool purge_failed;     /* the system refused the last purge */
  uint64_t epoch_ms;     /* when the last epoch of low_idle ended */
  struct bin *due_previous;

  _Alignas(DEPOT_LINE) depots_t depots; /* none: no thread has magazines of this class */
  bool due, ended; /* in the list of bins that a tick has to look at; never again. Each exchange looks, and has this line */
  struct bin *with_depots_next, *with_depots_previous;
} bin_t;

/* Whether parts of its slabs go back, and whether threads keep magazines. */
static inline bool bin_purges(const bin_t *bin) { return HAS_SYSTEM && bin->purges; }
static inline bool bin_has_magazines(const bin_t *bin) { return HAS_SYSTEM && bin->cached; }

enum { BIN_PLANE_NONE, BIN_PLANE_DEFAULT, BIN_PLANE_HEAP };

_Static_assert(BLOCK_ALIGNMENT == 1 << ALIGNMENT_LOG2, "the class map counts in steps of the alignment");

/* How many threads have a record. The sizes of magazines follow it, and any value gives a correct one. */
extern INTERNAL uint32_t bin_threads;

/* What is known of the contents of blocks that are handed out. */
typedef enum block_past { BLOCK_USED, BLOCK_FRESH, BLOCK_ZEROED } block_past_t;

/* Figures are read by any thread without the lock, and a bin of one thread has none; so the store is atomic. */
static inline void set_figure(size_t *figure, size_t value) { __atomic_store_n(figure, value, __ATOMIC_RELAXED); }

#endif
