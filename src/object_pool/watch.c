/* SPDX-License-Identifier: MIT
 *
 * There is no tool without a system. */
#include "object_pool/watch.h"

/* The watched bytes of an array begin behind a record in front, or with its own block. */
static const char *first_byte(const object_array_t *array)
{
  return array->is_outside ? array->objects : array->objects - watch_zone();
}

static size_t closed_bytes(const object_pool_t *pool, const object_array_t *array)
{
  return (size_t)(array->objects - first_byte(array)) + array->capacity * pool->stride;
}

void watch_begin_array(const object_pool_t *pool, const object_array_t *array)
{
  os_tool_leave_order(array);
  os_tool_close(first_byte(array), closed_bytes(pool, array));
}

void watch_end_array(const object_pool_t *pool, const object_array_t *array)
{
  os_tool_meet_order(array);
  os_tool_meet_order(pool);
  os_tool_open(first_byte(array), closed_bytes(pool, array));
}

/* The order of an object has an address in the array's record, because the program may have a lock at the object's own. */
static const void *order_of(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  return array->uses + (size_t)((const char *)object - array->objects) / pool->stride;
}

static void meet_done(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  os_tool_meet_order(array);
  os_tool_meet_order(order_of(pool, array, object));
}

static void leave_done(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  os_tool_leave_order(order_of(pool, array, object));
  os_tool_leave_order(pool);
}

static bool keeps_content(const object_pool_t *pool) { return pool->construct || pool->reset || pool->destruct; }

void watch_take(const object_pool_t *pool, const object_array_t *array, const void *object, bool used)
{
  meet_done(pool, array, object);
  bool keeps = used && keeps_content(pool) && !is_checked(pool);
  os_tool_begin_block(pool, object, pool->object_size);
  if (!keeps)
    os_tool_forget(object, pool->object_size);
  if (is_checked(pool) || keeps)
    os_tool_open(object, pool->object_size);
}

void watch_ready(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  os_tool_leave_order(order_of(pool, array, object));
}

void watch_come_back(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  meet_done(pool, array, object);
}

void watch_give(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  leave_done(pool, array, object);
  os_tool_end_block(pool, object, pool->object_size);
}

void watch_open(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  meet_done(pool, array, object);
  os_tool_open(object, pool->object_size);
}

void watch_close(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  leave_done(pool, array, object);
  os_tool_close(object, pool->object_size);
}
