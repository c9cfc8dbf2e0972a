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

/* The objects that a batch has so far. */
typedef struct batch {
  void   **objects;
  size_t   got, marked;     /* how many of them have been looked at for its map in the pool that evicts, */
  size_t   bits;            /* how many bits are set there, */
  uint64_t number;          /* if that map is the batch's still: it has this number there. 0: it has not come so far */
  object_pool_t *evicts;    /* that pool */
  uint32_t map;
} batch_t;

/* NULL, with ENOMEM: nothing was chosen, or nothing that could be had. `batch` is NULL for one object, which has none yet. */
COLD void *eviction_get(object_pool_t *pool, batch_t *batch);

/* Leaves its map without a bit set, in as many steps as it set; in more where a hook has changed what the batch had. */
void batch_end(const batch_t *batch);

#endif
