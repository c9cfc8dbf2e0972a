/* SPDX-License-Identifier: MIT
 *
 * A get returns the hot object, by a test and an addition; or one of the thread's cache; or the lowest free one; or what the
 * policy of a full pool provides. All paths beyond the hot object are tail calls, so no register is saved for it. */
#include "object_pool/cache.h"
#include "object_pool/capacity.h"
#include "object_pool/eviction.h"
#include "object_pool/object_misuse.h"
#include "os/probe.h"

/* Applies the policy of a full pool. A pool that overflows has moved on to the next one. `batch` is NULL for a single get. */
COLD static void *get_when_full(object_pool_t *pool, batch_t *batch)
{
  void *object;
  if (!pool->ending && may_evict(pool))
    return eviction_get(pool, batch);
  while (!pool->ending && may_grow(pool) && capacity_grow(pool)) {
    bool got = try_get(pool, &object);
    capacity_note_unused(pool);
    if (got)
      return object;
  }
  POOL_PROBE2(tidepool, object_pool_full, pool, pool->name);
  return full();
}

/* Gets an object from the pool or its chain. It looks at the clock first, because a hook may leave by longjmp() there. */
NOINLINE static void *get_along(object_pool_t *pool, batch_t *batch)
{
  void *object;
  for (;; pool = overflow_of(pool)) {
    must_be_live(pool, "object_pool_get");
    look_at_clock_first(pool, 1);
    if (likely(try_get(pool, &object)) || (HAS_SYSTEM && pool->home && (object = caches_get(pool)) != NULL))
      return object;
    if (!may_overflow(pool) || pool->ending)
      return get_when_full(pool, batch);
  }
}

/* Called if a pool has no free object (`object` is NULL), or has an unused array, or is hooked or has ended. */
COLD static void *get_rare(object_pool_t *pool, void *object)
{
  if (!object)
    return get_along(pool, NULL);
  look_at_clock(pool);
  return object;
}

/* The caller is the only thread that uses the pool. The hot object is not free. */
NOINLINE static void *get_single(object_pool_t *pool)
{
  size_t i;
  object_array_t *array = take_object(pool, &i);
  if (unlikely(!array || has_unused(pool)))
    return get_rare(pool, array ? object_at(pool, array, i) : NULL);
  return object_at(pool, array, i);
}

/* Threads that share no_caches write to one line, so each takes a block, whatever the pool. */
NOINLINE static void *get_shared(object_pool_t *pool)
{
  caches_be_apart();
  if (unlikely(pool->path != PATH_SHARED))
    return get_along(pool, NULL);
  object_cache_t *cache = LOAD(pool->slot) ? cache_with_stock(pool) : NULL;
  pool_acquire(pool);
  void *object = take_plain(pool);
  if (unlikely(cache && object && pool->current == pool->home))
    cache_refill(pool, cache, object);
  pool_release(pool);
  return likely(object && !may_have_unused(pool)) ? object : get_rare(pool, object);
}

/* Gets an object of the stock. */
NOINLINE static void *get_cached(object_pool_t *pool, object_cache_t *cache)
{
  if (unlikely(!cache->stock)) {
    cache_leave_hot(cache);
    return pool->path == PATH_SINGLE && object_caches != no_caches ? get_single(pool) : get_shared(pool);
  }
  void *object = cache_get(pool, cache);
  return likely(object) ? object : get_shared(pool);
}

/* Gets the hot object of the thread's cache. The cache of slot 0, which pools without caches use, never has one. */
static inline void *get_own_hot(object_pool_t *pool)
{
  object_cache_t *cache = cache_of_pool(pool);
  cache_become_busy(cache);
  if (unlikely(cache_is_claimed(cache) || !cache_has_hot(cache)))
    return get_cached(pool, cache);
  start_use(cache->uses);
  void *object = cache->hot;
  cache_leave(cache, false);
  return object;
}

/* A library without threads has no caches, and small code matters more to it than instructions. */
void *object_pool_get(object_pool_t *pool)
{
  if (unlikely(!pool))
    return misuse_no_pool("object_pool_get");
  if (!HAS_SYSTEM)
    return get_along(pool, NULL);
  if (unlikely(!HOT_HAS(&pool->hot_single, HOT_FREE)))
    return get_own_hot(pool);
  HOT_MOVE(&pool->hot_single, HOT_GET);
  return pool->hot_single.object;
}

/* Takes up to `count` objects of one word of bits. 0: there is no free object. */
static size_t take_word(object_pool_t *pool, void **objects, size_t count)
{
  object_array_t *array = array_to_take_from(pool);
  if (!array)
    return 0;
  size_t got = 0, w = bit_tree_lowest(&array->free) / WORD_BITS;
  word_t word = bit_tree_word(&array->free, w), rest = word;
  for (; rest && got < count; rest &= rest - 1) {
    size_t i = w * WORD_BITS + lowest_bit(rest);
    count_get(array, i);
    objects[got++] = object_at(pool, array, i);
  }
  bit_tree_clear_bits(&array->free, w, word ^ rest);
  array->taken += (uint32_t)got;
  ADD(pool->taken, got);
  if (unlikely(is_unused(array)))
    array_become_used(pool, array);
  return got;
}

/* A pool without hooks serves the whole batch under one lock. The hot object comes first. */
static size_t get_plain_batch(object_pool_t *pool, void **objects, size_t count)
{
  size_t got = 0, more;
  lock_acquire(&pool->lock);
  if (count && hot_is_free(pool->hot))
    objects[got++] = take_plain(pool);
  while (got < count && (more = take_word(pool, objects + got, count - got)) > 0)
    got += more;
  count_gets_without_cache(pool, got);
  lock_release(&pool->lock);
  return got;
}

/* Gets all free objects under one lock, and the rest one by one, by the policy. */
size_t object_pool_get_batch(object_pool_t *pool, void **objects, size_t count)
{
  if (!is_given(pool, "object_pool_get_batch"))
    return 0;
  look_at_clock_first(pool, count);
  batch_t batch = {.objects = objects, .got = is_hooked(pool) ? 0 : get_plain_batch(pool, objects, count)};
  void *object;
  while (batch.got < count && (object = get_along(pool, &batch)) != NULL) {
    objects[batch.got++] = object;
    if (!is_hooked(pool) && may_grow(pool)) /* growth may have added more than one */
      batch.got += get_plain_batch(pool, objects + batch.got, count - batch.got);
  }
  if (HAS_EVICTION)
    batch_end(&batch);
  return batch.got;
}
