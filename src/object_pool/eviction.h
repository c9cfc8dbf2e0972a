/* SPDX-License-Identifier: MIT
 *
 * A full pool that evicts. The program chooses a live object, which is taken from its user and given to the next. A batch is
 * never given one of its own objects again. A batch that evicts has a map in each array, with a bit for each of its objects.
 *
 * Called with no lock held: a hook or the chooser may leave by longjmp(). The pool's lock protects the maps. */
#ifndef EVICTION_H
#define EVICTION_H

#include "object_pool/hooks.h"

/* The objects of a batch, and its map in the pool that evicts. */
typedef struct batch {
  void **objects;
  size_t got, marked; /* the number of objects, and of those that its map already covers */
  size_t bits;        /* bits set in its map */
  uint64_t number;    /* its number in batch_at as long as it has the map; 0: it had no map yet */
  object_pool_t *evicts;
  uint32_t map;
} batch_t;

/* Evicts a live object. NULL, with ENOMEM: none was chosen, or none that could be taken. `batch` is NULL for a single get. */
COLD void *eviction_get(object_pool_t *pool, batch_t *batch);

/* Clears the batch's map bit by bit, or completely if a hook has changed the array of the batch's objects. */
void batch_end(const batch_t *batch);

#endif
