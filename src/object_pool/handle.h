/* SPDX-License-Identifier: MIT
 *
 * A handle is an index and the number of gets of the object. Indices begin at 1 and continue through the chain of overflow
 * pools. Only the last pool may grow, and the chain must leave room for all indices. Locks are taken in turn. */
#ifndef HANDLE_H
#define HANDLE_H

#include "object_pool/types.h"

/* Returns whether `objects` more indices fit in front of those of this pool and its overflow pools. `stays` reserves them. */
bool handles_stand_behind(object_pool_t *pool, size_t objects, bool stays);

#endif
