/* SPDX-License-Identifier: MIT
 *
 * The capacity of a pool. A full pool grows by an array, if that is its policy. An array leaves when it had no live object for
 * the heap's purge delay. The array that was created with the pool stays.
 *
 * Called with no lock held: the heap may call the program, and hooks run before an array leaves. A thread that creates an array
 * holds pool->growth, which comes before every other lock, unless the heap may call the program. */
#ifndef CAPACITY_H
#define CAPACITY_H

#include "object_pool/hooks.h"

/* Returns true if the pool has room or may have it, so that the caller tries again. If the heap calls no callback, threads wait
 * for the one that creates an array: they would otherwise fail for lack of the memory that is about to become room. No thread
 * waits for one that may be in on_exhausted. That callback may wait for others in turn, or leave by longjmp(). */
COLD bool capacity_grow(object_pool_t *pool);

/* Called after the pool has grown. The new array is unused if its maker took an object that became free in another array. */
COLD void capacity_note_unused(object_pool_t *pool);

/* Lets arrays leave that have been unused for long enough. Room for `keep` objects is left. */
COLD void capacity_shrink_if_due(object_pool_t *pool, size_t keep);

static inline void look_at_clock(object_pool_t *pool)
{
  if (unlikely(may_have_unused(pool)))
    capacity_shrink_if_due(pool, 0);
}

/* Called before a get takes an object, because a hook may leave by longjmp() here. The room that the get needs stays. */
static inline void look_at_clock_first(object_pool_t *pool, size_t count)
{
  if (unlikely(may_have_unused(pool)))
    capacity_shrink_if_due(pool, LOAD(pool->taken) + min_size(count, UINT32_MAX));
}

#endif
