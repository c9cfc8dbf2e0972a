/* SPDX-License-Identifier: MIT
 *
 * A put makes the object hot or sets its bit. Putting all objects fills whole words of bits. Putting what is no live object of
 * the pool or its overflow pools ends the program. */
#include "object_pool/cache.h"
#include "object_pool/capacity.h"
#include "object_pool/object_misuse.h"
#include "object_pool/walk.h"
#include "object_pool/watch.h"

/* Puts an object if it is live in this pool; otherwise returns false. */
static bool put_own(object_pool_t *pool, void *object)
{
  bool done;
  if (is_hooked(pool)) {
    done = hooks_give(pool, object);
  } else {
    lock_acquire(&pool->lock);
    done = give_plain(pool, object);
    lock_release(&pool->lock);
  }
  look_at_clock(pool);
  return done;
}

/* Puts an object into the pool `at` or one that it overflows to. A message names `pool`, the argument of the call. */
COLD static void put_anywhere(object_pool_t *at, const object_pool_t *pool, void *object, const char *call)
{
  for (; at; at = overflow_of(at)) {
    must_be_live(at, call);
    if (put_own(at, object))
      return;
  }
  watch_report(pool, object);
  misuse_not_live(pool, object, call);
}

/* Called if the object is not the pool's own, or an array is unused. */
COLD static void put_rare(object_pool_t *pool, void *object, bool done)
{
  look_at_clock(pool);
  if (!done)
    put_anywhere(overflow_of(pool), pool, object, "object_pool_put");
}

/* The lock is held on entry and not on return. */
NOINLINE static void put_locked(object_pool_t *pool, void *object)
{
  bool done = give_plain(pool, object);
  lock_release(&pool->lock);
  if (unlikely(!done || may_have_unused(pool)))
    put_rare(pool, object, done);
}

NOINLINE static void put_alone(object_pool_t *pool, void *object)
{
  bool done = give_plain(pool, object);
  if (unlikely(!done || has_unused(pool)))
    put_rare(pool, object, done);
}

/* Serves all but shared pools without hooks in a process with threads. */
NOINLINE static void put_other(object_pool_t *pool, void *object)
{
  must_be_live(pool, "object_pool_put");
  if (is_hooked(pool))
    put_anywhere(pool, pool, object, "object_pool_put");
  else
    put_alone(pool, object);
}

COLD static void put_waiting(object_pool_t *pool, void *object)
{
  lock_wait(&pool->lock);
  put_locked(pool, object);
}

/* Puts the hot object, which changes only its state. The lock is split as in get.c. */
NOINLINE static void put_shared(object_pool_t *pool, void *object)
{
  hot_t *hot = &pool->hot_shared;
  caches_be_apart();
  if (os_single_threaded()) {
    if (unlikely(object != hot->object || !HOT_HAS(hot, HOT_LIVE)))
      put_other(pool, object);
    else
      hot->state += HOT_PUT;
    return;
  }
  /* Only a live shared pool without hooks has this path. */
  if (unlikely(pool->path != PATH_SHARED)) {
    put_other(pool, object);
    return;
  }
  if (!lock_try(&pool->lock)) {
    put_waiting(pool, object);
    return;
  }
  if (unlikely(object != hot->object || !(hot->state & HOT_LIVE))) {
    put_locked(pool, object);
    return;
  }
  STORE(hot->state, hot->state + HOT_PUT);
  if (lock_open(&pool->lock))
    os_wake(&pool->lock.word);
}

/* An object outside the home array, or one that is not live, needs the lock. */
NOINLINE static void put_uncached(object_pool_t *pool, void *object)
{
  size_t i = object_position(pool, pool->home, object);
  if (i >= pool->home->capacity || !cache_put_rare(pool, i))
    put_shared(pool, object);
}

/* The caller is the only thread that uses the pool. */
NOINLINE static void put_single_rare(object_pool_t *pool, void *object)
{
  bool done = give_known(pool, object, true);
  if (unlikely(!done || has_unused(pool)))
    put_rare(pool, object, done);
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

NOINLINE static void put_without_cache(object_pool_t *pool, void *object)
{
  if (pool->path == PATH_HOOKED)
    put_anywhere(pool, pool, object, "object_pool_put");
  else
    put_shared(pool, object);
}

NOINLINE static void put_cached(object_pool_t *pool, void *object, object_cache_t *cache)
{
  if (unlikely(!LOAD(pool->slot))) {
    if (likely(pool->path == PATH_SINGLE))
      put_single(pool, object);
    else
      put_without_cache(pool, object);
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
  else if (!HAS_SYSTEM)
    put_anywhere(pool, pool, object, "object_pool_put");
  else if (likely(object == pool->hot_single.object && HOT_HAS(&pool->hot_single, HOT_LIVE)))
    HOT_MOVE(&pool->hot_single, HOT_PUT);
  else
    put_own_hot(pool, object);
}

/* Puts the pool's own objects under one lock. From the first other one on, each is looked for along the chain. */
void object_pool_put_batch(object_pool_t *pool, void **objects, size_t count)
{
  if (!is_given(pool, "object_pool_put_batch"))
    return;
  size_t put = 0;
  if (!is_hooked(pool)) {
    lock_acquire(&pool->lock);
    while (put < count && give_plain(pool, objects[put]))
      put++;
    lock_release(&pool->lock);
  }
  for (; put < count; put++)
    put_anywhere(pool, pool, objects[put], "object_pool_put_batch");
  look_at_clock(pool);
}

/* Frees all live objects of the home array. Objects in caches stay there. */
static void put_all_of_home(object_pool_t *pool)
{
  object_array_t *home = pool->home;
  uint32_t taken = home->taken;
  for (size_t w = 0; w < bits_words(home->capacity); w++) {
    word_t live = 0;
    for (word_t rest = ~bit_tree_word(&home->free, w) & bits_of_word(home->capacity, w); rest; rest &= rest - 1) {
      uint32_t *uses = home->uses + w * WORD_BITS + lowest_bit(rest);
      if (!is_in_use(uses))
        continue;
      end_use_locked(home, (size_t)(uses - home->uses));
      live |= rest & -rest;
      home->taken--;
    }
    if (live)
      bit_tree_set_bits(&home->free, w, live);
  }
  STORE(pool->walked_bytes, 0);
  ADD(pool->taken, -(size_t)(taken - home->taken));
}

/* Frees all objects of an array at once, except busy ones, which their hooks free. */
static void put_all_of(object_pool_t *pool, object_array_t *array)
{
  if (!array->taken)
    return;
  uint32_t busy = 0;
  STORE(pool->walked_bytes, 0);
  bit_tree_fill(&array->free, array->capacity);
  for (size_t w = 0; busy_of(array) && w < bits_words(array->capacity); w++)
    for (word_t word = busy_of(array)[w]; word; word &= word - 1, busy++)
      bit_tree_clear(&array->free, w * WORD_BITS + lowest_bit(word));
  ADD(pool->taken, busy - (size_t)array->taken);
  array->taken = busy;
  if (!busy)
    hot_array_to_unused(pool, array);
}

/* If a put runs a hook, a walk finds each object and puts it by itself, because hooks may get and put meanwhile. */
void object_pool_put_all(object_pool_t *pool)
{
  if (!is_given(pool, "object_pool_put_all") || pool->ending)
    return;
  if (has_work_on_put(pool)) {
    for (void *object = NULL; (object = walk_next(pool, object)) != NULL;)
      put_own(pool, object);
    return;
  }
  lock_acquire(&pool->lock);
  hot_cool(pool);
  for (uint32_t k = 0; k < pool->array_count; k++)
    if (HAS_SYSTEM && pool->arrays[k] == pool->home)
      put_all_of_home(pool);
    else
      put_all_of(pool, pool->arrays[k]);
  pool->current = array_with_room(pool);
  lock_release(&pool->lock);
  look_at_clock(pool);
}
