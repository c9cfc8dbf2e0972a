/* SPDX-License-Identifier: MIT */
#include "object_pool/hot.h"
#include "option.h"

/* False: the array stays all the same, and nobody asks since when. */
static bool become_unused(object_pool_t *pool, object_array_t *array)
{
  if (array->permanent || pool->purge_delay_ms == PURGE_NEVER)
    return false;
  array->unused = true;
  array->unused_since_ms = os_now_ms();
  STORE(pool->unused_count, pool->unused_count + 1);
  return true;
}

void hot_cool(object_pool_t *pool)
{
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
