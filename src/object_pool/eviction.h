/* SPDX-License-Identifier: MIT
 *
 * A full pool that evicts: the program chooses a live object, which is taken from its user and given out anew. What a batch has
 * got itself is not taken from it again. To know that without looking at all of it each time, a batch has a map of its own in
 * each array, with a bit for each object that it has, and takes one when it comes here for the first time.
 *
 * Called with no lock held; a hook or the choice may never come back. Maps and their owners are under the pool's lock. */
#ifndef EVICTION_H
#define EVICTION_H

#include "object_pool/hooks.h"

/* The objects that a batch has so far, and what it has marked in the pool that evicts. */
typedef struct batch {
  void **objects;
  size_t got, marked;    /* how many there are, and how many of them were looked at for its map */
  size_t bits;           /* how many bits are set in its map */
  uint64_t number;       /* the map is still the batch's while it has this number there. 0: the batch has had no map */
  object_pool_t *evicts; /* the pool of the map */
  uint32_t map;
} batch_t;

/* Takes a live object from its user. NULL, with ENOMEM: nothing was chosen, or nothing that could be had. `batch` is NULL for a
 * get of a single object. */
COLD void *eviction_get(object_pool_t *pool, batch_t *batch);

/* Leaves the batch's map without a bit set, in as many steps as it has set; in more if a hook has changed what the batch
 * had. */
void batch_end(const batch_t *batch);

#endif
