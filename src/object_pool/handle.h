/* SPDX-License-Identifier: MIT
 *
 * Handles: an index and how often the object was got. Indices count on, from 1, through the pools that overflow leads to, whose
 * capacity is fixed but for the last; so a chain must leave room for those of all its pools. Takes the lock of each pool in
 * turn. */
#ifndef HANDLE_H
#define HANDLE_H

#include "object_pool/types.h"

/* Says whether there is room for the indices of so many more objects in front of those of this pool, and of all that it
 * overflows to. With `stays` that room is left for them. */
bool handles_stand_behind(object_pool_t *pool, size_t objects, bool stays);

#endif
