/* SPDX-License-Identifier: MIT
 *
 * Object pools under a tool that looks at memory (os/tool.h). Objects stand in arrays, so none of them can be a block of
 * malloc: the tool is told what becomes of each. A free object is closed, and so are the bytes between two. A watched pool
 * counts as hooked, so every get and put comes by: it keeps nothing in threads, and has no hot object. */
#ifndef OBJECT_WATCH_H
#define OBJECT_WATCH_H

#include "object_pool/types.h"
#include "os/tool.h"

/* Where a search for leaks goes through the memory of the manager, arrays are there, and objects are what a report tells of.
 * Elsewhere they are blocks of malloc, through which a search comes to what objects lead to. */
static inline bool watch_keeps_arrays(void) { return HAS_SYSTEM && os_tool.sees_all; }

/* There the records of pools and arrays are, too, or the search would end at the pool. */
static inline bool watch_keeps_records(void) { return HAS_SYSTEM && os_tool.allocates && !os_tool.sees_all; }

/* There is a tool that wants to know. */
static inline bool objects_are_watched(void) { return HAS_SYSTEM && (os_tool.sees_bytes || os_tool.sees_orders); }

/* So many bytes are between two objects, or in front of the first in the block of its record. */
static inline size_t watch_zone(void) { return HAS_SYSTEM && os_tool.sees_bytes ? OS_TOOL_ZONE : 0; }

static inline bool is_watched(const object_pool_t *pool) { return HAS_SYSTEM && unlikely(pool->watched); }

/* The objects belong together by their pool, from its beginning to its end. */
static inline void watch_begin(const object_pool_t *pool)
{
  if (is_watched(pool))
    os_tool_begin_blocks(pool, !pool->is_apart);
}
static inline void watch_end(const object_pool_t *pool)
{
  if (is_watched(pool))
    os_tool_end_blocks(pool, !pool->is_apart);
}

/* A block of this heap is an array. */
static inline void watch_array_block(const heap_t *heap, const void *block)
{
  if (HAS_SYSTEM && unlikely(heap->marked))
    os_tool_leave_block(heap, block);
}

/* What follows is for a watched pool alone; a get or put of another asks no more than that.
 *
 * The objects of an array are free, or it is about to end. */
void watch_begin_array(const object_pool_t *pool, const object_array_t *array);
void watch_end_array(const object_pool_t *pool, const object_array_t *array);

/* An object goes to a user: `used`, from another one, as that has left it, if there are hooks; else as new. It comes back.
 *
 * What was done to an object is left there, for whoever has it next; by whoever made the array, there; and all that was done to
 * objects at their pool, for whoever ends an array. */
void watch_take(const object_pool_t *pool, const object_array_t *array, const void *object, bool used);
void watch_give(const object_pool_t *pool, const object_array_t *array, const void *object);

/* A hook has made it ready; and another thread may have it put before it comes back (object_pool_put_all, an eviction). */
void watch_ready(const object_pool_t *pool, const object_array_t *array, const void *object);
void watch_come_back(const object_pool_t *pool, const object_array_t *array, const void *object);

/* A hook runs on an object that has no user, from the first call to the second. */
void watch_open(const object_pool_t *pool, const object_array_t *array, const void *object);
void watch_close(const object_pool_t *pool, const object_array_t *array, const void *object);

/* What was put is no live object. */
static inline void watch_report(const object_pool_t *pool, const void *object)
{
  if (is_watched(pool))
    os_tool_report_block(pool, object);
}

#endif
