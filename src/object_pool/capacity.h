/* SPDX-License-Identifier: MIT
 *
 * How many objects a pool has room for. One that is full grows by an array, if that is its policy; an array that has been
 * without a live object for the heap's purge delay leaves it. The array made with the pool stays.
 *
 * Called with no lock held: the heap may call the program for memory, and hooks run before an array goes. Whoever makes an
 * array holds pool->growth, which comes before every other lock, but not where the program may be called. */
#ifndef CAPACITY_H
#define CAPACITY_H

#include "object_pool/hooks.h"

/* The pool got room, or may have got some: try again. False: it has none and gets none. Where only the manager runs the others
 * wait for the one that makes an array, so that none is refused for want of the very memory that becomes room in a moment.
 * Nobody waits for who may be in on_exhausted: that may wait for somebody in turn, and it may leave. */
COLD bool capacity_grow(object_pool_t *pool);

/* After it has grown. Whoever made an array may have been served by another, to which an object came back meanwhile. */
COLD void capacity_note_unused(object_pool_t *pool);

/* Lets those arrays go whose time has come; `keep` objects are left. */
COLD void capacity_shrink_if_due(object_pool_t *pool, size_t keep);

static inline void look_at_clock(object_pool_t *pool)
{
  if (unlikely(LOAD(pool->unused_count)))
    capacity_shrink_if_due(pool, 0);
}

/* Before a get, of which nothing may be in hand when a hook leaves. What it is about to take stays. */
static inline void look_at_clock_first(object_pool_t *pool, size_t count)
{
  if (unlikely(LOAD(pool->unused_count)))
    capacity_shrink_if_due(pool, LOAD(pool->taken) + min_size(count, UINT32_MAX));
}

#endif
