/* SPDX-License-Identifier: MIT
 *
 * Gets and puts that look at every pool of a chain: a pool that is full, and a put that the pool itself refuses. */
#ifndef OBJECT_ALONG_H
#define OBJECT_ALONG_H

#include "object_pool/types.h"

/* Gets an object from the pool or those that it overflows to, or by the policy of the last. NULL: ENOMEM. `batch` is NULL for a
 * single get. */
struct batch;
void *get_along(object_pool_t *pool, struct batch *batch);

/* Puts an object into the pool or one that it overflows to. The call is named if no pool of them has the object. */
void put_along(object_pool_t *pool, void *object, const char *call);

#endif
