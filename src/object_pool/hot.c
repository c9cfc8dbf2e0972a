/* SPDX-License-Identifier: MIT
 *
 * The hot object cools when it would hide something from its array. */
#include "object_pool/hot.h"
#include "option.h"

/* Notes when the array became unused. Returns false if it never leaves the pool. */
static bool become_unused(object_pool_t *pool, object_array_t *array)
{
  if (!HAS_GROWTH || array->permanent || pool->purge_delay_ms == PURGE_NEVER)
    return false;
  array->unused = true;
  array->unused_since_ms = os_now_ms();
  STORE(pool->unused_count, pool->unused_count + 1);
  STORE(pool->slot, 0);
  return true;
}

/* A free hot object counts as taken until now, so its array may become unused. */
void hot_cool(object_pool_t *pool)
{
  if (!HAS_HOT_OBJECTS)
    return;
  hot_t was = *pool->hot;
  if (!was.object)
    return;
  STORE(pool->hot->object, NULL);
  STORE(pool->hot->state, 0);
  was.array->uses[was.position] = hot_uses(&was);
  if (hot_is_free(&was) && put_bit(pool, was.array, was.position))
    become_unused(pool, was.array);
}

void hot_array_to_unused(object_pool_t *pool, object_array_t *array)
{
  if (become_unused(pool, array))
    hot_cool(pool);
}
