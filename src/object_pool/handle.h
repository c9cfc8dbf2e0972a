/* SPDX-License-Identifier: MIT
 *
 * A handle is an index and the number of gets of the object. Indices begin at 1 and continue through the chain of overflow
 * pools. Only the last pool of a chain may grow, so a chain must leave room for the indices of all. The functions take the lock
 * of one pool after the other. */
#ifndef HANDLE_H
#define HANDLE_H

#include "object_pool/types.h"

/* Returns whether the indices of `objects` more objects fit in front of those of this pool and of its overflow pools. `stays`
 * reserves them. */
bool handles_stand_behind(object_pool_t *pool, size_t objects, bool stays);

#endif
