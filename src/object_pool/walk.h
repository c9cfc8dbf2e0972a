/* SPDX-License-Identifier: MIT
 *
 * Which objects are live: one after the other, a given one, how many. A walk takes the lock, except in a pool with one array
 * that stays: there it reads the bits while other threads get and put. */
#ifndef WALK_H
#define WALK_H

#include "object_pool/hot.h"

/* object_pool_next, for the library itself: a program may have a function of that name. */
NOINLINE void *walk_next(const object_pool_t *pool, const void *previous);

#endif
