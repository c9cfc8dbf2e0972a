/* SPDX-License-Identifier: MIT
 *
 * Free objects are taken and returned: in an array by its bits, or as the hot object by two bits of a word in the pool. The hot
 * object counts as taken in its array, free or live, until it cools.
 *
 * The pool's lock is held, except for live_count(). The hot object needs no lock while the process has one thread. */
#ifndef HOT_H
#define HOT_H

#include "object_pool/array.h"

/* The state of the hot object: one bit allows the next get, another the next put. The number of its puts is above them.
 *
 *     | puts | HOT_LIVE | HOT_FREE | 0000 |        its uses are its puts, and one more while it is live
 *
 * Adding HOT_GET turns the free bit into the live one. Adding HOT_PUT turns it back and carries into the count. If there is no
 * hot object, both bits are clear, so no get or put matches. No address could stand for "none": a program might put it. Both
 * bits are also clear in zeroed memory and in the fill of checked heaps and pools (0x1deadb0b, 0xcd). */
enum { HOT_FREE = 1 << 4, HOT_LIVE = 1 << 5, HOT_GET = HOT_LIVE - HOT_FREE, HOT_PUT = HOT_LIVE + HOT_FREE, HOT_PUTS_SHIFT = 6 };

static inline uint64_t hot_state(const hot_t *hot) { return __atomic_load_n(&hot->state, __ATOMIC_RELAXED); }
static inline bool hot_is_free(const hot_t *hot) { return HAS_HOT_OBJECTS && hot_state(hot) & HOT_FREE; }
static inline bool hot_is_live(const hot_t *hot) { return HAS_HOT_OBJECTS && hot_state(hot) & HOT_LIVE; }
static inline uint32_t hot_uses(const hot_t *hot) { return (uint32_t)(hot_state(hot) >> HOT_PUTS_SHIFT) + hot_is_live(hot); }

/* Two instructions on the word in memory, where gcc would emit a load and a store more. Other threads read the word for
 * figures, so it is stored at once. Sanitizers see the other form. */
#if defined __x86_64__ && defined __GCC_ASM_FLAG_OUTPUTS__ && !defined UNDER_SANITIZER
#define HOT_HAS(hot, bit) \
  (__extension__({ \
    bool has_; \
    __asm__("testb %2, %1" : "=@ccnz"(has_), "+m"((hot)->state) : "i"(bit)); \
    has_; \
  }))
#define HOT_MOVE(hot, by) __asm__("addq %1, %0" : "+m"((hot)->state) : "i"(by) : "cc")
#else
#define HOT_HAS(hot, bit) ((LOAD((hot)->state) & (bit)) != 0)
#define HOT_MOVE(hot, by) STORE((hot)->state, (hot)->state + (by))
#endif

/* Called for an object whose free bit is clear. */
static inline bool is_in_cache(const object_array_t *array, size_t i) { return has_laps(array) && !is_in_use(array->uses + i); }

/* Returns the free objects in caches of threads, without a lock. The figure is exact while no thread gets or puts. */
size_t caches_count(const object_pool_t *pool);

static inline bool is_hot(const object_pool_t *pool, const void *object)
{
  return HAS_HOT_OBJECTS && object == pool->hot->object;
}

static inline bool is_live(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  if (bit_tree_test(&array->free, i) || (busy_of(array) && bit_test(busy_of(array), i)) || is_in_cache(array, i))
    return false;
  return !is_hot(pool, object_at(pool, array, i)) || hot_is_live(pool->hot);
}

/* Returns how often a live object was got, modulo 2^32. */
static inline uint32_t live_gets(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  return is_hot(pool, object_at(pool, array, i)) ? hot_uses(pool->hot) : gets_of(array, i);
}

/* Needs no lock. The figure is exact while no thread gets or puts, and close otherwise. It is never negative. */
static inline size_t live_count(const object_pool_t *pool)
{
  size_t taken = LOAD(pool->taken),
         not_live = LOAD(pool->busy) + hot_is_free(pool->hot) + (HAS_SYSTEM ? caches_count(pool) : 0);
  return taken > not_live ? taken - not_live : 0;
}

/* Returns the hot object to its array. */
COLD void hot_cool(object_pool_t *pool);

/* Called when the array has no taken object. The hot object cools, because its get does not look at the clock. */
COLD void hot_array_to_unused(object_pool_t *pool, object_array_t *array);

/* Sets the bit of an object. Returns true if its array has no taken object left. */
static inline bool put_bit(object_pool_t *pool, object_array_t *array, size_t i)
{
  STORE(pool->walked_bytes, 0);
  bit_tree_set(&array->free, i);
  ADD(pool->taken, -(size_t)1);
  if (unlikely(!pool->current || array->age < pool->current->age))
    pool->current = array;
  return unlikely(--array->taken == 0);
}

static inline void object_to_free(object_pool_t *pool, object_array_t *array, size_t i)
{
  if (put_bit(pool, array, i))
    hot_array_to_unused(pool, array);
}

/* Returns the oldest array that has a free object, so that newer ones become unused and can leave. NULL: no object is free. */
static inline object_array_t *array_to_take_from(object_pool_t *pool)
{
  object_array_t *array = pool->current;
  if (unlikely(!array || array->taken == array->capacity))
    array = pool->current = array_with_room(pool);
  return array;
}

/* Takes the lowest free object of that array. */
static ALWAYS_INLINE object_array_t *take_object(object_pool_t *pool, size_t *position)
{
  object_array_t *array = array_to_take_from(pool);
  if (unlikely(!array))
    return NULL;
  size_t i = *position = bit_tree_lowest(&array->free);
  bit_tree_clear(&array->free, i);
  ADD(pool->taken, 1);
  array->taken++;
  count_get(array, i);
  if (unlikely(is_unused(array)))
    array_become_used(pool, array);
  return array;
}

static inline void hot_begin(hot_t *hot, const object_array_t *array, size_t i, void *object)
{
  hot->position = (uint32_t)i;
  STORE(hot->state, (uint64_t)array->uses[i] << HOT_PUTS_SHIFT | HOT_FREE);
  STORE(hot->object, object);
}

/* Makes an object hot in place of one that is live and in the same array. The next user writes to the object. Stores complete
 * in order, so one to a distant line delays the next. The prefetch saves a sixth of a put and get beyond the L1 cache. */
static inline void hot_replace(hot_t *hot, const object_array_t *array, size_t i, void *object)
{
  __builtin_prefetch(object, 1);
  array->uses[hot->position] = (uint32_t)(hot_state(hot) >> HOT_PUTS_SHIFT) + 1;
  hot_begin(hot, array, i, object);
}

/* Makes an object of any array the hot one, whether there was one before or not. */
static inline void warm(object_pool_t *pool, object_array_t *array, size_t i)
{
  hot_t *hot = pool->hot;
  if (hot->object)
    hot->array->uses[hot->position] = hot_uses(hot);
  hot->array = array;
  hot_begin(hot, array, i, object_at(pool, array, i));
}

/* Acquires the lock of a pool without reading it first, which would fetch the line twice from another processor. */
static inline void pool_acquire(object_pool_t *pool)
{
  if (pool->single_thread)
    return;
  if (!HAS_SYSTEM || os_single_threaded())
    lock_acquire(&pool->lock);
  else if (!lock_try(&pool->lock))
    lock_wait(&pool->lock);
}
static inline void pool_release(object_pool_t *pool)
{
  if (!pool->single_thread)
    lock_release(&pool->lock);
}

static inline void count_gets_without_cache(object_pool_t *pool, size_t gets)
{
  if (!HAS_SYSTEM || likely(!pool->gets_without_cache))
    return;
  pool->gets_without_cache -= (uint32_t)min_size(gets, pool->gets_without_cache);
  resume_caches(pool);
}

/* Takes an object from a pool without hooks, the hot one if it is free. NULL: no object is free. */
static ALWAYS_INLINE void *take_plain(object_pool_t *pool)
{
  hot_t *hot = pool->hot;
  if (HAS_HOT_OBJECTS && hot->state & HOT_FREE) {
    STORE(hot->state, hot->state + HOT_GET);
    return hot->object;
  }
  size_t i;
  object_array_t *array = take_object(pool, &i);
  count_gets_without_cache(pool, array != NULL);
  return likely(array) ? object_at(pool, array, i) : NULL;
}

/* Returns whether an object that is put may become the hot one. The last taken object of an array that may leave must not: as
 * the hot object it counts as taken, so the array would never be unused. The hot objects of a pool with caches are in these. */
static inline bool may_be_hot(const object_pool_t *pool, const object_array_t *array)
{
  return HAS_HOT_OBJECTS && !hot_is_free(pool->hot) && !has_unused(pool) && (array->permanent || array->taken > 1) &&
         !(HAS_SYSTEM && pool->home);
}

/* Puts an object into a pool without hooks; false if it is not live there. */
static ALWAYS_INLINE bool give_plain(object_pool_t *pool, void *object)
{
  size_t i;
  hot_t *hot = pool->hot;
  if (is_hot(pool, object)) {
    if (!(hot->state & HOT_LIVE))
      return false;
    STORE(hot->state, hot->state + HOT_PUT);
    return true;
  }
  object_array_t *array = array_of(pool, object, &i);
  if (unlikely(!array || bit_tree_test(&array->free, i) || (has_laps(array) && !end_use_locked(array, i))))
    return false;
  if (may_be_hot(pool, array)) {
    warm(pool, array, i);
    return true;
  }
  object_to_free(pool, array, i);
  if (unlikely(HAS_HOT_OBJECTS && array->taken == 1 && !array->permanent && hot->object && hot->array == array))
    hot_cool(pool);
  return true;
}

#endif
