/* SPDX-License-Identifier: MIT
 *
 * A get returns the hot object, by a test and an addition; or one of the thread's cache; or the lowest free one. A put makes
 * the object hot, or puts it into the cache. All paths beyond the hot object are tail calls, so no register is saved for it.
 * Firmware has no caches and goes along the chain at once (embedded/objects.c). */
#include "object_pool/cache.h"
#include "object_pool/operations.h"

/* ---- get ---- */

/* Called if a pool has no free object (`object` is NULL), or has an unused array, or is hooked or has ended. */
COLD static void *get_rare(object_pool_t *pool, void *object)
{
  if (!object)
    return get_along(pool, NULL);
  look_at_clock(pool, 0);
  return object;
}

/* The caller is the only thread that uses the pool. The hot object is not free. */
NOINLINE static void *get_single(object_pool_t *pool)
{
  size_t i;
  object_array_t *array = take_object(pool, &i);
  if (unlikely(!array))
    return get_along(pool, NULL);
  array->uses[i]++;
  void *object = object_at(pool, array, i);
  return unlikely(has_unused(pool)) ? get_rare(pool, object) : object;
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
  claim_set_busy(&cache->busy);
  if (unlikely(cache_slot_is_empty(pool) || !cache_has_hot(cache)))
    return get_cached(pool, cache);
  start_use(cache->uses);
  void *object = cache->hot;
  cache_leave(cache, false);
  return object;
}

void *object_pool_get(object_pool_t *pool)
{
  if (unlikely(!pool))
    return misuse_no_pool("object_pool_get");
  if (unlikely(!HOT_HAS(&pool->hot_single, HOT_FREE)))
    return get_own_hot(pool);
  HOT_MOVE(&pool->hot_single, HOT_GET);
  return pool->hot_single.object;
}

/* ---- put ---- */

/* Puts an object into the arrays, or makes it the pool's hot object. */
NOINLINE static void put_uncached(object_pool_t *pool, void *object)
{
  if (likely(pool->path == PATH_SHARED)) {
    if (pool->home && cache_put_rare(pool, object))
      return;
    if (likely(give_locked(pool, object))) {
      look_at_clock(pool, 0);
      return;
    }
  }
  put_along(pool, object, "object_pool_put");
}

/* The caller is the only thread that uses the pool. */
NOINLINE static void put_single_rare(object_pool_t *pool, void *object)
{
  if (likely(give_plain(pool, object)))
    look_at_clock(pool, 0);
  else
    put_along(pool, object, "object_pool_put");
}

/* A put of another object usually finds the hot one live, and replaces it. In a pool with one array this takes few tests and
 * saves no register: two objects are taken, so the array does not become unused. */
static inline void put_single(object_pool_t *pool, void *object)
{
  hot_t *hot = &pool->hot_single;
  object_array_t *array = pool->only;
  if (unlikely(!array || !hot_is_live(hot))) {
    put_single_rare(pool, object);
    return;
  }
  size_t i = object_position(pool, array, object);
  if (unlikely(i >= array->capacity || bit_tree_test(&array->free, i)))
    put_single_rare(pool, object);
  else
    hot_replace(hot, array, i, object);
}

/* Puts an object into the stock. Objects outside the home array, and those that are not live, are not put into caches. */
NOINLINE static void put_cached(object_pool_t *pool, void *object, object_cache_t *cache)
{
  if (unlikely(!LOAD(pool->slot))) {
    if (likely(pool->path == PATH_SINGLE))
      put_single(pool, object);
    else
      put_uncached(pool, object);
    return;
  }
  size_t i = object_position(pool, pool->home, object);
  if (unlikely(i >= pool->home->capacity || !cache_put(pool, cache, i)))
    put_uncached(pool, object);
}

/* Puts the hot object of the thread's cache. Its address identifies it, because no other pool uses the slot. */
static inline void put_own_hot(object_pool_t *pool, void *object)
{
  object_cache_t *cache = cache_of_pool(pool);
  if (unlikely(object != cache->hot || !end_use(cache->uses)))
    put_cached(pool, object, cache);
  else
    cache_hot_is_free(cache);
}

/* The hot object of a single-threaded pool comes first: its put is a test and an addition. */
void object_pool_put(object_pool_t *pool, void *object)
{
  if (unlikely(!pool))
    misuse_no_pool("object_pool_put");
  else if (likely(object == pool->hot_single.object && HOT_HAS(&pool->hot_single, HOT_LIVE)))
    HOT_MOVE(&pool->hot_single, HOT_PUT);
  else
    put_own_hot(pool, object);
}
