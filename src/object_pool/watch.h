/* SPDX-License-Identifier: MIT
 *
 * Object pools under a memory tool (os/tool.h). Objects are parts of an array, so they cannot be blocks of malloc. The tool is
 * told of each get and put. Free objects and the bytes between objects are closed. A watched pool counts as hooked, so it has
 * neither caches nor a hot object. */
#ifndef OBJECT_WATCH_H
#define OBJECT_WATCH_H

#include "object_pool/types.h"
#include "os/tool.h"

/* If a leak search covers the manager's memory, arrays stay there and reports name objects. Otherwise arrays are blocks of
 * malloc, through which the search finds what objects refer to. */
static inline bool watch_keeps_arrays(void) { return os_tool.sees_all; }

/* A leak search that covers only malloc's memory needs the records of pools and arrays there too, or it ends at the pool. */
static inline bool watch_keeps_records(void) { return os_tool.allocates && !os_tool.sees_all; }

static inline bool objects_are_watched(void) { return os_tool.sees_bytes || os_tool.sees_orders; }

/* Returns the bytes between two objects, and in front of the first one behind a record. */
static inline size_t watch_zone(void) { return os_tool.sees_bytes ? OS_TOOL_ZONE : 0; }

static inline bool is_watched(const object_pool_t *pool) { return HAS_TOOLS && unlikely(pool->watched); }

/* Objects belong to their pool, from its beginning to its end. */
static inline void watch_begin(const object_pool_t *pool)
{
  if (is_watched(pool))
    os_tool_begin_blocks(pool, !pool->is_outside);
}
static inline void watch_end(const object_pool_t *pool)
{
  if (is_watched(pool))
    os_tool_end_blocks(pool, !pool->is_outside);
}

/* Tells the tool that a block of this heap is an array. */
static inline void watch_array_block(const heap_t *heap, const void *block)
{
  if (heap_is_marked(heap))
    os_tool_leave_block(heap, block);
}

/* The following functions are only for watched pools. The objects of an array are free, or it is about to end. */
void watch_begin_array(const object_pool_t *pool, const object_array_t *array);
void watch_end_array(const object_pool_t *pool, const object_array_t *array);

/* An object goes to a user, and comes back. `used`: it had a user before. It then keeps its content if the pool has hooks and
 * is not checked. Otherwise its content is undefined.
 *
 * A thread that leaves an object passes its order to the object's next user; the maker of an array, to all users; and every
 * user, by the pool, to the thread that ends an array. */
void watch_take(const object_pool_t *pool, const object_array_t *array, const void *object, bool used);
void watch_give(const object_pool_t *pool, const object_array_t *array, const void *object);

/* A hook has made the object ready; it is put, maybe by a thread that did not get it (object_pool_put_all(), an eviction). */
void watch_ready(const object_pool_t *pool, const object_array_t *array, const void *object);
void watch_come_back(const object_pool_t *pool, const object_array_t *array, const void *object);

/* watch_open() and watch_close() enclose a hook on an object without a user. */
void watch_open(const object_pool_t *pool, const object_array_t *array, const void *object);
void watch_close(const object_pool_t *pool, const object_array_t *array, const void *object);

/* Reports a put of an object that is not live. */
static inline void watch_report(const object_pool_t *pool, const void *object)
{
  if (is_watched(pool))
    os_tool_report_block(pool, object);
}

#endif
