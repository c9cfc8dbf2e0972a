/* SPDX-License-Identifier: MIT
 *
 * Which objects are live: one after the other, this one, how many. A walk takes the lock, but where the pool has one array that
 * stays: there it reads the bits beside those who get and put. */
#ifndef WALK_H
#define WALK_H

#include "object_pool/hot.h"

/* object_pool_next, for the library itself: a program may have a function of that name. */
NOINLINE void *walk_next(const object_pool_t *pool, const void *previous);

#endif
