/* SPDX-License-Identifier: MIT
 *
 * The spare magazines of one bin. There is a depot for each shard of threads, so that a thread gets its own magazines back first,
 * with blocks that its core has in its cache, and other threads' only where those have more than they need.
 *
 *   D1 depots.count == the magazines of all depots, each with an entry at least; count of one: low <= count <= high
 *
 * Called under the lock of the bin. */
#ifndef DEPOT_H
#define DEPOT_H

#include "bin/magazine.h"

enum { DEPOT_SHARDS = 8 };

typedef struct depot {
  void   **newest;     /* magazine with entries, or NULL */
  void   **empties;    /* magazines without entries */
  uint32_t count;      /* of those with entries */
  uint32_t low, high;  /* the fewest since the last tick; the most since then, less those that other shards took */
  uint32_t need;       /* the most that the shard's own threads lately took in a row: so many are left to them */
} depot_t;

typedef struct depots {
  depot_t *of;         /* one for each shard; NULL: no thread has magazines of this class */
  uint32_t count;      /* magazines with entries in all of them */
  uint32_t bound;      /* how many they may hold: grows while blocks wander from thread to thread */
} depots_t;

/* Magazines of bins that ended. */
extern lock_t bin_magazines_lock;

/* Where there are none, there is nothing to walk. */
static inline depot_t *depots_end(const depots_t *depots) { return depots->of ? depots->of + DEPOT_SHARDS : NULL; }

/* An empty magazine: the shard's own, another's, one of a bin that ended, a new one. NULL: no memory. */
void **depots_take_empty(depots_t *depots, unsigned shard);
static inline void depot_put_empty(depot_t *depot, void **magazine)
{
  magazine_link(magazine, depot->empties, 0);
  depot->empties = magazine;
}

/* A magazine with entries up to `top`. */
void depot_push(depots_t *depots, depot_t *depot, void **top);

/* The top of the newest, of which there is one. The second is for a thread of the depot's shard. */
void **depot_pop(depots_t *depots, depot_t *depot);
void **depot_pop_own(depots_t *depots, depot_t *depot);

/* One of another shard, which has more than it needs; with `needed_too`, any. NULL: there is none. */
void **depots_steal(depots_t *depots, unsigned shard, bool needed_too);

/* Room for one more? */
bool depots_have_room(depots_t *depots);

/* What was low and high is over; what is needed fades. */
void     depot_begin_epoch(depot_t *depot);
uint32_t depots_need(const depots_t *depots);

/* All entries are gone, the magazines are empty. */
void depots_forget_entries(depots_t *depots);

/* So are those of a bin that ends, and they are for whoever needs one next. */
void depots_destroy(depots_t *depots);

/* How many blocks are in them; *found is set if `wanted` is one. */
size_t depots_count(const depots_t *depots, const void *wanted, bool *found);

#endif
