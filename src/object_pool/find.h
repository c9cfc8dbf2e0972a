/* SPDX-License-Identifier: MIT
 *
 * Finds live objects. A walk takes the lock, except in a pool with a single array that stays. There it reads the bits while
 * other threads get and put. */
#ifndef OBJECT_FIND_H
#define OBJECT_FIND_H

#include "object_pool/array.h"

/* The library calls this in place of object_pool_next(), a name that a program may define. */
NOINLINE void *walk_next(const object_pool_t *pool, const void *previous);

/* Returns whether `objects` more indices fit in front of those of this pool and its overflow pools. `stays` reserves them. */
bool handles_stand_behind(object_pool_t *pool, size_t objects, bool stays);

#endif
