/* SPDX-License-Identifier: MIT
 *
 * How many objects a pool has room for. One that is full grows by an array, if that is its policy; an array that has been
 * without a live object for the heap's purge delay leaves it. The array made with the pool stays.
 *
 * Called with no lock held: the heap may call the program for memory, and hooks run before an array goes. A thread that makes
 * an array holds pool->growth, which comes before every other lock; but not if the program may be called meanwhile. */
#ifndef CAPACITY_H
#define CAPACITY_H

#include "object_pool/hooks.h"

/* True: the pool has got room, or may have; the caller tries again. False: it has none and gets none. If the program is not
 * called for the memory, other threads wait for the one that makes an array, so that none is refused for want of the very
 * memory that becomes room in a moment. No thread waits for one that may be in on_exhausted: that callback may wait for others
 * in turn, or leave by longjmp(). */
COLD bool capacity_grow(object_pool_t *pool);

/* Called after the pool has grown. An array may be unused from the start: its maker may have been served from another one, to
 * which an object came back meanwhile. */
COLD void capacity_note_unused(object_pool_t *pool);

/* Lets those arrays go that have been unused for long enough. Room for `keep` objects is left. */
COLD void capacity_shrink_if_due(object_pool_t *pool, size_t keep);

static inline void look_at_clock(object_pool_t *pool)
{
  if (unlikely(may_have_unused(pool)))
    capacity_shrink_if_due(pool, 0);
}

/* Called before a get takes anything, because a hook may leave by longjmp() here, and what the get had would be lost. The room
 * that the get is about to use stays. */
static inline void look_at_clock_first(object_pool_t *pool, size_t count)
{
  if (unlikely(may_have_unused(pool)))
    capacity_shrink_if_due(pool, LOAD(pool->taken) + min_size(count, UINT32_MAX));
}

#endif
