/* SPDX-License-Identifier: MIT
 *
 * A bin is everything that serves one size class of one heap: its slabs and its depots of spare magazines, under one lock.
 *
 * A magazine is MAGAZINE_WORDS pointers, aligned to its size. Word 0 belongs to whoever has the magazine put away; entries
 * grow upwards to the last word from a NULL that ends them:
 *
 *     word   0      1 ...  63-k     64-k    ...    63
 *           link             NULL   entry 1 ...  entry k        top -> the highest entry
 *
 * So "empty" is the same test as reading an entry, "full" is whether the next word's address is a multiple of the size, and
 * a magazine of any k up to MAGAZINE_CAPACITY_MOST is handled by the same code.
 *
 * A thread keeps a small stock of full magazines to itself. What is over goes back to the bitmaps, since a refill from there
 * is in address order and puts the objects of a user together again (Lua: 3.7 s where half the class could stay in
 * magazines, 2.2 with a 64th); except where blocks are given by one thread and taken by another: for those the depot takes
 * whole magazines, last in first out. There is one for each shard of threads, so that a thread gets its own back first, with
 * blocks that its core has in its cache, and other threads' only where those have more than they need.
 *
 *   B1 out == blocks of all slabs that are neither free bits nor fresh: with callers, in magazines, in the depot
 *   B2 a slab is in the list that its free count says: slab_list_of(); only `current` and slabs whose blocks are all fresh, in the
 *      list SLAB_RESET, have fresh blocks
 *   B3 depot_count == the magazines of all depots, each with an entry at least; count of one: low <= count <= high
 *   B4 idle == free blocks of all slabs that are not purged, where the bin purges */
#ifndef BIN_H
#define BIN_H

#include "space/budget.h"
#include "size_class.h"
#include "bin/slab.h"

enum {
  MAGAZINE_WORDS = 64,
  MAGAZINE_BYTES = MAGAZINE_WORDS * 8,
  MAGAZINE_CAPACITY_MOST = MAGAZINE_WORDS - 2,
  DEPOT_SHARDS = 8
};

/* Slabs by how many of their blocks are free: the fullest are taken from first, so that the emptiest become unused. */
enum { SLAB_FULL, SLAB_PARTIAL_1, SLAB_PARTIAL_2, SLAB_PARTIAL_3, SLAB_PARTIAL_4, SLAB_RESET, SLAB_LISTS };

/* Spare magazines of the threads of one shard. */
typedef struct depot {
  void   **newest;     /* magazine with entries, or NULL */
  void   **empties;    /* magazines without entries */
  uint32_t count;      /* of those with entries */
  uint32_t low, high;  /* the fewest since the last tick; the most since then, less those that other shards took */
  uint32_t need;       /* the most that the shard's own threads lately took in a row: so many are left to them */
} depot_t;

typedef struct pool {
  /* What is read without the lock is in a line of its own. */
  uint32_t  block_size;
  uint32_t  slab_bytes;       /* wanted for one slab, whole units */
  uint8_t   size_class;
  uint8_t   magazine_capacity;    /* blocks a magazine of this class may hold */
  bool      cached;           /* threads keep magazines of it */
  uint8_t   stock_most;       /* full magazines a thread may keep beside the loaded one */
  uint8_t   plane;            /* POOL_PLANE_*: where the class map says its class */
  bool      purges;           /* the pages of free blocks, one by one: they are large */
  uint64_t  inverse;
  space_t  *space;
  budget_t *budget;
  struct pool_heap *heap;     /* whose bin it is; nothing here looks into it */
  depot_t  *depots;           /* one for each shard; NULL: no thread has magazines of this class */

  size_t    capacity;         /* blocks of all slabs: seldom changed */

  lock_t    lock;
  uint32_t  depot_count;      /* magazines with entries in all depots */
  uint32_t  depot_bound;      /* how many they may hold: grows while blocks wander from thread to thread */
  run_t    *current;          /* the slab with fresh blocks */
  run_t    *slabs[SLAB_LISTS];
  uint32_t  partial_count;    /* slabs in the partial lists */
  size_t    slab_count;
  size_t    outstanding;
  size_t    held_bytes;       /* by the slabs */
  size_t    idle;             /* where it purges: blocks free in slabs that hold memory */
  size_t    taken_again;      /* blocks taken lately that had been used before; halved at a tick */

  bool         due, ended;    /* in the list of bins that a tick has to look at; never again */
  struct pool *due_next, *due_previous;
} bin_t;

_Static_assert(BLOCK_ALIGNMENT == 1 << ALIGNMENT_LOG2, "the class map counts in steps of the alignment");

enum { BIN_PLANE_NONE, BIN_PLANE_DEFAULT, BIN_PLANE_HEAP };

/* How many threads there are, for the size of a magazine. */
extern INTERNAL uint32_t bin_threads;
extern lock_t bin_magazines_lock;

typedef struct bin_make {
  unsigned          size_class;
  size_t            block_size;
  struct pool_heap *heap;
  space_t          *space;
  budget_t         *budget;
  uint8_t           plane;
  bool              single_thread;  /* no lock */
  bool              tight;          /* slabs are as long as leaves little over, as bin_units_for() reckons */
  bool              purges;         /* may give back the memory of blocks while others of their slab are in use */
  depot_t          *depots;         /* DEPOT_SHARDS of them, zeroed; NULL: no thread may keep magazines of it */
} bin_make_t;
void bin_init(bin_t *bin, const bin_make_t *make);

/* The shortest slab of a class, in units of that length. */
size_t bin_slab_least(size_t block_size, unsigned unit_log2);

/* How many units of a region serve so many bytes of blocks of one size. */
size_t bin_units_for(size_t block_size, size_t bytes, unsigned unit_log2);

/* A bin without depots has none to walk. */
static inline depot_t *bin_depots_end(const bin_t *bin) { return bin->depots ? bin->depots + DEPOT_SHARDS : NULL; }

/* How many blocks are in the depots, and whether this one is; they walk them, under the lock. */
size_t bin_depot_blocks(bin_t *bin);
bool   bin_depot_holds(bin_t *bin, const void *block);


/* Word of the memory for entries of an empty magazine of size k: where its NULL stands. */
static inline void **magazine_floor(void **magazine, unsigned k) { return magazine + (MAGAZINE_WORDS - 1 - k); }
static inline void **magazine_of(void **top) { return (void **)round_down((uintptr_t)top, MAGAZINE_BYTES); }
static inline bool magazine_is_full_at(void **next) { return ((uintptr_t)next & (MAGAZINE_BYTES - 1)) == 0; }

/* Word 0 of a magazine put away: the one below it in its list, and how far its entries reach. */
static inline void **magazine_below(void **magazine) { return (void **)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES); }
static inline void **magazine_top(void **magazine) { return magazine + ((uintptr_t)magazine[0] & (MAGAZINE_BYTES - 1)); }
static inline void magazine_put_away(void **magazine, void **below, size_t top) { magazine[0] = (void *)((uintptr_t)below + top); }

/* An empty magazine (or NULL) for one with entries; returns its top entry. NULL: no memory, and the empty one is the
 * bin's. `k` is how many blocks are wanted if they come from slabs, `shard` is the calling thread's. */
void **bin_exchange_empty(bin_t *bin, void **empty, unsigned k, unsigned shard);

/* A magazine with entries up to `top` for an empty one of size k, whose floor is returned. Needs no memory: where there is
 * none for another magazine, the entries go back to the slabs and their own magazine is the empty one. */
void **bin_exchange_full(bin_t *bin, void **top, unsigned k, unsigned shard);

/* An empty magazine's floor, or NULL: no memory. */
void **bin_new_magazine(bin_t *bin, unsigned k, unsigned shard);

/* Takes entries and magazine for good; either may be absent (top at the floor). */
void bin_retire_magazine(bin_t *bin, void **top, unsigned shard);

/* Takes a magazine whose entries do not count any more. */
void bin_keep_magazine(bin_t *bin, void **top, unsigned shard);

/* Every block is back at once: the slabs are as if just opened, and stay. */
void bin_reset(bin_t *bin);

/* The heap ends: slabs go back to the space, magazines to whoever needs one next. A tick may look at it for as long as ticks are
 * not kept away. */
void bin_finish(bin_t *bin);

/* Blocks without magazines. take: the lowest is stored last; returns how many, possibly fewer than are to be had in several
 * calls; *past (NULL: not wanted) is what is known of what they hold. Of no shard: they count as the first one's. */
typedef enum block_past { BLOCK_USED, BLOCK_FRESH, BLOCK_ZEROED } block_past_t;
size_t bin_take(bin_t *bin, void **blocks, size_t want, block_past_t *past);
void   bin_put(bin_t *bin, void *const *blocks, size_t count);

/* One block, if a slab that is there already has one free. */
bool bin_take_free(bin_t *bin, void **block, block_past_t *past);

/* Which block of a slab an address is in, handed out or not; beyond the last: none. */
static inline size_t bin_block_index(const bin_t *bin, const run_t *slab, const void *address)
{
  return (size_t)((const char *)address - slab->start) * bin->inverse >> INVERSE_SHIFT;
}

/* Has the block around `address`, inside `slab`, been handed out, and is it not free in the slab (so it is with a caller, in a
 * magazine or in the depot)? *block: its start, in either case; NULL: it never was a block, or the slab is not the bin's any
 * more. For a bin of one thread under the lock of the slab's space, which keeps the slab as it is. */
bool bin_ask(bin_t *bin, const run_t *slab, const void *address, char **block);

/* Which of the blocks 64 * w and on of `slab`, a slab of the bin at `start`, are out of it: *live has a bit for each. False: there are
 * no more, or the slab is gone. */
bool bin_live_word(bin_t *bin, const run_t *slab, const char *start, size_t w, uint64_t *live);

/* Depot magazines that no one needed since the last call go back to the slabs, unused slabs to the space. */
void bin_tick(bin_t *bin);

/* Only bins that were used since their last tick, or have something left for the next, are due: a process may have very many.
 * bins_begin_tick() says that all of those have to be looked at, bins_tick() looks at some of them and returns how many. The
 * caller holds what keeps bins from ending. */
void     bins_begin_tick(void);
bool     bins_tick_is_under_way(void);
unsigned bins_tick(unsigned most, uint64_t now_ms);
extern lock_t bins_due_lock;

/* Everything that can go back does. */
void bin_drain(bin_t *bin);

/* So does the memory of free blocks in slabs that stay. Returns the bytes given. */
size_t bin_purge(bin_t *bin);

#endif
