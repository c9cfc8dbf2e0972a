/* SPDX-License-Identifier: MIT
 *
 * Finds live objects: the next one, a given one, and their number. A walk takes the lock, except in a pool with a single array
 * that stays. There it reads the bits while other threads get and put. */
#ifndef WALK_H
#define WALK_H

#include "object_pool/hot.h"

/* The library calls this in place of object_pool_next(), a name that a program may define. */
NOINLINE void *walk_next(const object_pool_t *pool, const void *previous);

#endif
