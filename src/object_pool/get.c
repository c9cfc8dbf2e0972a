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
static void *get_along(object_pool_t *pool, batch_t *batch)
{
  void *object;
  for (;; pool = overflow_of(pool)) {
    must_be_live(pool, "object_pool_get");
    look_at_clock_first(pool, 1);
    if (HAS_SYSTEM && pool->home ? (object = caches_get(pool)) != NULL : try_get(pool, &object))
      return object;
    if (!may_overflow(pool) || pool->ending)
      return get_when_full(pool, batch);
  }
}

/* Called if a pool without hooks has no free object (`object` is NULL) or an unused array. */
COLD static void *get_rare(object_pool_t *pool, void *object)
{
  if (!object)
    return get_along(pool, NULL);
  look_at_clock(pool);
  return object;
}

/* The lock is held on entry and not on return. */
NOINLINE static void *get_locked(object_pool_t *pool)
{
  void *object = take_plain(pool);
  lock_release(&pool->lock);
  return likely(object && !may_have_unused(pool)) ? object : get_rare(pool, object);
}

/* No other thread can be here, so no lock is taken. The hot object is not free. */
NOINLINE static void *get_alone(object_pool_t *pool)
{
  size_t i;
  object_array_t *array = take_object(pool, &i);
  count_gets_without_cache(pool, array != NULL);
  if (unlikely(!array || has_unused(pool)))
    return get_rare(pool, array ? object_at(pool, array, i) : NULL);
  return object_at(pool, array, i);
}

/* Serves all but shared pools without hooks in a process with threads. The hot object is not free, or the pool is destroyed. */
NOINLINE static void *get_other(object_pool_t *pool)
{
  must_be_live(pool, "object_pool_get");
  return is_hooked(pool) ? get_along(pool, NULL) : get_alone(pool);
}

/* The rare ends of locking are tail calls, so the path of the hot object saves no register. */
COLD static void *get_waiting(object_pool_t *pool)
{
  lock_wait(&pool->lock);
  return get_locked(pool);
}

/* Passes the object through, so that the call can be a tail call. */
COLD static void *wake_with(lock_t *lock, void *object)
{
  os_wake(&lock->word);
  return object;
}

/* Gets the hot object of a pool that is not single-threaded and uses no caches now. A process with one thread needs no lock. */
NOINLINE static void *get_shared(object_pool_t *pool)
{
  hot_t *hot = &pool->hot_shared;
  caches_be_apart();
  if (os_single_threaded()) {
    if (unlikely(!HOT_HAS(hot, HOT_FREE)))
      return get_other(pool);
    hot->state += HOT_GET;
    return hot->object;
  }
  /* Only a live shared pool without hooks has this path. */
  if (unlikely(pool->path != PATH_SHARED))
    return get_other(pool);
  if (!lock_try(&pool->lock))
    return get_waiting(pool);
  if (unlikely(!(hot->state & HOT_FREE)))
    return get_locked(pool);
  STORE(hot->state, hot->state + HOT_GET);
  void *object = hot->object;
  return lock_open(&pool->lock) ? wake_with(&pool->lock, object) : object;
}

/* The caller is the only thread that uses the pool. */
NOINLINE static void *get_single(object_pool_t *pool)
{
  size_t i;
  object_array_t *array = take_known(pool, &i, true);
  if (unlikely(!array || has_unused(pool)))
    return get_rare(pool, array ? object_at(pool, array, i) : NULL);
  return object_at(pool, array, i);
}

NOINLINE static void *get_without_cache(object_pool_t *pool, const object_cache_t *cache)
{
  if (likely(pool->path == PATH_SINGLE && cache_is_apart(cache)))
    return get_single(pool);
  return pool->path == PATH_HOOKED && cache_is_apart(cache) ? get_along(pool, NULL) : get_shared(pool);
}

NOINLINE static void *get_refilled(object_pool_t *pool)
{
  void *object = cache_refill(pool);
  return likely(object && !may_have_unused(pool)) ? object : get_rare(pool, object);
}

/* The cache of slot 0 has no stock. The pool's slot may have changed since it was read. */
NOINLINE static void *get_cached(object_pool_t *pool, object_cache_t *cache)
{
  if (unlikely(!cache->stock)) {
    cache_leave_hot(cache);
    return LOAD(pool->slot) ? get_refilled(pool) : get_without_cache(pool, cache);
  }
  void *object = cache_get(pool, cache);
  return likely(object) ? object : get_refilled(pool);
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
static void *get_without_system(object_pool_t *pool)
{
  must_be_live(pool, "object_pool_get");
  if (is_hooked(pool))
    return get_along(pool, NULL);
  lock_acquire(&pool->lock);
  return get_locked(pool);
}

void *object_pool_get(object_pool_t *pool)
{
  if (unlikely(!pool))
    return misuse_no_pool("object_pool_get");
  if (!HAS_SYSTEM)
    return get_without_system(pool);
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
