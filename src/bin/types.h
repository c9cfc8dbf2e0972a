/* SPDX-License-Identifier: MIT
 *
 * A bin serves one size class of one heap: its slabs and its depots of spare magazines. The slabs have a lock, and each depot.
 *
 * A thread keeps a small stock of full magazines. Further blocks go back to the bitmaps, because a refill from there is in
 * address order and reunites the objects of a user (Lua: 3.7 s if half the class may stay in magazines, 2.2 s with a 64th). The
 * exception is blocks that one thread frees and another allocates: the depots take whole magazines of them, last in first out.
 *
 *   B1 outstanding == blocks of all slabs that are neither free bits nor fresh: with callers, in magazines, in the depots
 *   B2 a slab is in the list that its free count says: slab_list_of(); only `current` and slabs whose blocks are all fresh, in
 *      the list SLAB_RESET, have fresh blocks
 *   B3 idle == idle blocks of all slabs, and returned_bytes == the length of their purged parts
 *   B4 a bin with a slab without an outstanding block says may_have_unused, unless a request has just opened that slab
 *
 *   D2 a bin with magazines in its depots is due, unless it is single-threaded: ticks empty what is not needed
 *   D3 a bin whose depots are in use (shards) is in the list for forks (bins_with_depots), unless it is single-threaded; the
 *      others have nothing there
 *
 * The invariants hold whenever the bin's lock is free; D2 also needs the depots' locks free and no thread in a call. For a
 * single-threaded bin, which has no lock, they hold between its calls. The holder of the bin's lock owns a magazine on the way
 * from a depot to the bitmaps. */
#ifndef BIN_TYPES_H
#define BIN_TYPES_H

#include "base/low_water.h"
#include "bin/depot.h"
#include "bin/slab.h"
#include "size_class.h"
#include "space/budget.h"

/* Lists of slabs by how many of their blocks are free, in quarters. Blocks are taken from the fullest, so that the emptiest
 * become unused. The current slab may be in SLAB_NONE_FREE and have fresh blocks.
 *
 * Idle blocks came back since a purge last visited their slab, and are still free. A slab that has free blocks but no idle ones
 * is settled: everything that could be purged is. Blocks are taken from it last. */
enum { SLAB_NONE_FREE, SLAB_PARTIAL_1, SLAB_PARTIAL_2, SLAB_PARTIAL_3, SLAB_PARTIAL_4, SLAB_SETTLED, SLAB_RESET, SLAB_LISTS };

typedef struct bin {
  /* Data read without the lock has its own cache line. */
  uint32_t block_size;
  uint32_t slab_bytes; /* preferred length of a slab, whole units */
  uint8_t size_class;
  uint8_t magazine_capacity; /* blocks that a magazine of this class may hold */
  uint8_t magazine_most;     /* the highest value that this ever had: no magazine of the bin holds more */
  bool cached;
  uint8_t stock_most; /* full magazines that a thread may keep beside the loaded one */
  uint8_t plane;      /* BIN_PLANE_*: the plane of the class map that has its class */
  bool purges;        /* free parts of its slabs are purged */
  uint64_t inverse;
  space_t *space;
  budget_t *budget;
  struct pool_heap *heap; /* the owner; bins never access it */

  size_t capacity; /* blocks of all slabs; seldom changes */
  struct bin *due_next;

  lock_t lock;    /* protects everything that follows, except the depots, which have their own locks */
  run_t *current; /* the slab with fresh blocks */
  run_t *slabs[SLAB_LISTS];

  uint32_t partial_count; /* slabs in the partial lists */
  uint32_t withheld;      /* outstanding blocks of a checked heap that no caller has (debug/quarantine.h); not under the lock */
  size_t slab_count;
  size_t outstanding;
  size_t held_bytes;
  size_t idle;           /* blocks, of all slabs */
  size_t returned_bytes; /* purged parts of slabs */
  low_water_t low_idle;
  size_t unneeded;     /* idle blocks that this epoch still has to purge */
  bool purges_in_puts; /* single-threaded, or with a purge delay of 0 */
  uint8_t puts;        /* single-threaded bins: puts since the last read of the clock */
  bool purge_failed;   /* the system refused the last purge */
  uint64_t epoch_ms;   /* the end of the last epoch of low_idle */
  struct bin *due_previous;
  bool goes_on; /* it is in the second queue of due.c */

  _Alignas(DEPOT_LINE) depots_t depots; /* empty if threads keep no magazines of this class */
  bool due,
    ended; /* in the list of bins that a tick visits; ended for good. Every exchange reads them, and has this line cached */
  bool may_have_unused; /* a slab may have become unused since all of them were last visited (B4) */
  struct bin *with_depots_next, *with_depots_previous;
} bin_t;

/* bin_purges(): free parts of slabs are purged. bin_has_magazines(): threads keep magazines. */
static inline bool bin_purges(const bin_t *bin) { return bin->purges; }
static inline bool bin_has_magazines(const bin_t *bin) { return bin->cached; }

enum { BIN_PLANE_NONE, BIN_PLANE_DEFAULT, BIN_PLANE_HEAP };

_Static_assert(BLOCK_ALIGNMENT == 1 << ALIGNMENT_LOG2, "the class map counts in steps of the alignment");

/* The number of threads with a record. Sizes of magazines depend on it, and are correct for any value. */
extern INTERNAL uint32_t bin_threads;

typedef enum block_past { BLOCK_USED, BLOCK_FRESH, BLOCK_ZEROED } block_past_t;

/* Any thread reads figures without the lock, and a single-threaded bin has none, so the store is atomic. */
static inline void set_figure(size_t *figure, size_t value) { __atomic_store_n(figure, value, __ATOMIC_RELAXED); }

#endif
