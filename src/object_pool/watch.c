/* SPDX-License-Identifier: MIT
 * Without a system there is no tool, and none of this. */
#include "object_pool/watch.h"

/* From behind the record, or the beginning of a block of their own, to the end. */
static const char *first_byte(const object_array_t *array)
{
  return array->place == ARRAY_IN_FRONT ? array->objects - watch_zone() : array->objects;
}

static size_t closed_bytes(const object_pool_t *pool, const object_array_t *array)
{
  return (size_t)(array->objects - first_byte(array)) + array->capacity * pool->stride;
}

void watch_close_array(const object_pool_t *pool, const object_array_t *array)
{
  if (is_watched(pool))
    os_tool_close(first_byte(array), closed_bytes(pool, array));
}

void watch_open_array(const object_pool_t *pool, const object_array_t *array)
{
  if (is_watched(pool))
    os_tool_open(first_byte(array), closed_bytes(pool, array));
}

static bool keeps_content(const object_pool_t *pool) { return pool->construct || pool->reset || pool->destruct; }

void watch_take(const object_pool_t *pool, const void *object, bool used)
{
  if (!is_watched(pool))
    return;
  if (used)
    os_tool_meet_order(object);
  os_tool_begin_block(pool, object, pool->object_size);
  if (pool->checked || (used && keeps_content(pool)))
    os_tool_open(object, pool->object_size);
}

void watch_give(const object_pool_t *pool, const void *object)
{
  if (!is_watched(pool))
    return;
  os_tool_leave_order(object);
  os_tool_end_block(pool, object, pool->object_size);
}
