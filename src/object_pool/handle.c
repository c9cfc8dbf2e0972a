/* SPDX-License-Identifier: MIT
 *
 * A handle is valid if an array has its index, the object there is live, and the generations agree. There is no table. */
#include "object_pool/handle.h"
#include "object_pool/hot.h"
#include "object_pool/object_misuse.h"

static uint32_t generation_of(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  return (uint32_t)(array->first_generation + live_gets(pool, array, i));
}

/* Returns a handle with the index in this pool alone, or index 0. */
static object_pool_handle_t handle_in(const object_pool_t *pool, const void *object)
{
  object_pool_handle_t handle = {0, 0};
  size_t i;
  must_be_live(pool, "object_pool_handle");
  lock_acquire(&asked(pool)->lock);
  const object_array_t *array = array_of(pool, object, &i);
  if (array && is_live(pool, array, i))
    handle = (object_pool_handle_t){array->first_index + (uint32_t)i + 1, generation_of(pool, array, i)};
  lock_release(&asked(pool)->lock);
  return handle;
}

/* Indices continue through the chain. Only its last pool may grow. */
object_pool_handle_t object_pool_handle(const object_pool_t *pool, const void *object)
{
  size_t before = 0;
  if (!is_given(pool, "object_pool_handle"))
    return (object_pool_handle_t){0, 0};
  for (; pool; before += LOAD(pool->capacity), pool = overflow_of(pool)) {
    object_pool_handle_t handle = handle_in(pool, object);
    if (handle.index)
      return (object_pool_handle_t){handle.index + (uint32_t)before, handle.generation};
  }
  return (object_pool_handle_t){0, 0};
}

/* An object that was got again has another generation, so an old handle resolves to nothing. */
static void *resolve_in(const object_pool_t *pool, object_pool_handle_t handle)
{
  void *object = NULL;
  lock_acquire(&asked(pool)->lock);
  for (uint32_t k = 0; k < pool->array_count && !object; k++) {
    const object_array_t *array = pool->arrays[k];
    size_t i = (size_t)handle.index - 1 - array->first_index;
    if (i < array->capacity && is_live(pool, array, i) && generation_of(pool, array, i) == handle.generation)
      object = object_at(pool, array, i);
  }
  lock_release(&asked(pool)->lock);
  return object;
}

/* Each pool of the chain has the indices up to its capacity. The next pool has those beyond. */
void *object_pool_resolve(const object_pool_t *pool, object_pool_handle_t handle)
{
  if (!is_given(pool, "object_pool_resolve") || !handle.index)
    return NULL;
  while (overflow_of(pool) && handle.index > LOAD(pool->capacity)) {
    handle.index -= (uint32_t)LOAD(pool->capacity);
    pool = overflow_of(pool);
    must_be_live(pool, "object_pool_resolve");
  }
  return resolve_in(pool, handle);
}

static bool stand_behind(object_pool_t *pool, size_t objects, bool stays)
{
  uint64_t end = 0;
  lock_acquire(&pool->lock);
  for (uint32_t k = 0; k < pool->array_count; k++)
    end = max_size(end, (uint64_t)pool->arrays[k]->first_index + pool->arrays[k]->capacity);
  bool fits = objects + end <= UINT32_MAX;
  if (fits && stays)
    pool->indices_before = (uint32_t)max_size(pool->indices_before, objects);
  lock_release(&pool->lock);
  return fits;
}

/* The capacity of each pool adds to the objects in front of the next. */
bool handles_stand_behind(object_pool_t *pool, size_t objects, bool stays)
{
  bool fits = true;
  for (; pool && fits; objects += LOAD(pool->capacity), pool = overflow_of(pool))
    fits = stand_behind(pool, objects, stays);
  return fits;
}
