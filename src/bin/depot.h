/* SPDX-License-Identifier: MIT
 *
 * The spare magazines of one bin. There is a depot for each shard of threads, so that a thread gets its own magazines back
 * first, with blocks that its core has in its cache, and other threads' only where those have more than they need.
 *
 *   D1 depots.count == the magazines of all depots, each with an entry at least; count of one: low <= count <= high
 *
 * Functions are called under the lock of the bin. D1 holds whenever it is free. */
#ifndef DEPOT_H
#define DEPOT_H

#include "bin/magazine.h"

enum { DEPOT_SHARDS = 8 };

typedef struct depot {
  void **newest;      /* magazine with entries, or NULL */
  void **empties;     /* magazines without entries */
  uint32_t count;     /* of those with entries */
  uint32_t low, high; /* the fewest since the last tick; the most since then, less those that other shards took */
  uint32_t need;      /* the most that the shard's own threads lately took in a row: so many are left to them */
} depot_t;

typedef struct depots {
  depot_t *of;    /* one for each shard; NULL: no thread has magazines of this class */
  uint32_t count; /* magazines with entries in all of them */
  uint32_t bound; /* how many they may hold: grows while blocks wander from thread to thread */
} depots_t;

/* Magazines of bins that ended. */
extern lock_t bin_magazines_lock;

/* Returns where the depots end. A bin without magazines has no depots to walk. */
static inline depot_t *depots_end(const depots_t *depots) { return depots->of ? depots->of + DEPOT_SHARDS : NULL; }

/* Returns an empty magazine: one of the shard, else of another shard, of a bin that ended, or a new one. NULL: no memory. */
void **depots_take_empty(depots_t *depots, unsigned shard);
static inline void depot_put_empty(depot_t *depot, void **magazine)
{
  magazine_link(magazine, depot->empties, 0);
  depot->empties = magazine;
}

/* Puts a magazine with entries up to `top` into the depot. */
void depot_push(depots_t *depots, depot_t *depot, void **top);

/* Takes the newest magazine, and returns its top entry. The depot is not empty. depot_pop_own() is called for a thread of the
 * depot's shard, and notes what the shard needs. */
void **depot_pop(depots_t *depots, depot_t *depot);
void **depot_pop_own(depots_t *depots, depot_t *depot);

/* Takes a magazine of another shard that has more than it needs; with `needed_too` of any other shard. NULL: there is none. */
void **depots_steal(depots_t *depots, unsigned shard, bool needed_too);

/* Says whether the depots have room for one more magazine. */
bool depots_have_room(depots_t *depots);

/* Begins an epoch: both marks begin at the present count, and the need fades. */
void depot_begin_epoch(depot_t *depot);
uint32_t depots_need(const depots_t *depots);

/* Empties all magazines; their blocks have ended with a reset. */
void depots_forget_entries(depots_t *depots);

/* For a bin that ends: the magazines are emptied and serve other bins. */
void depots_destroy(depots_t *depots);

/* Returns how many blocks are in the depots; *found is set if `wanted` is one of them. */
size_t depots_count(const depots_t *depots, const void *wanted, bool *found);

#endif
