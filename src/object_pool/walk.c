/* SPDX-License-Identifier: MIT
 *
 * The state of a walk is the previous object's address, so objects and arrays may come and go between two calls. */
#include "object_pool/walk.h"
#include "object_pool/object_misuse.h"

enum { RUN_WORDS = 16 }; /* words that a walk looks ahead */

/* Returns word `w` of the live objects. The hot object is in it, live or not. */
static inline word_t live_word(const object_array_t *array, size_t w)
{
  word_t not_live = bit_tree_word(&array->free, w) | (array->busy ? LOAD(array->busy[w]) : 0);
  return ~not_live & bits_of_word(array->capacity, w);
}

/* The array of the object may leave at any moment, so the lock is taken. */
bool object_pool_in_use(const object_pool_t *pool, const void *object)
{
  if (!is_given(pool, "object_pool_in_use"))
    return false;
  size_t i;
  lock_t *lock = &asked(pool)->lock;
  lock_acquire(lock);
  const object_array_t *array = array_of(pool, object, &i);
  bool live = array && is_live(pool, array, i);
  lock_release(lock);
  return live;
}

/* Called for an object whose free bit is clear. */
static inline bool is_free_though_taken(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  bool hot = unlikely(object_at(pool, array, i) == LOAD(pool->hot->object)) && hot_is_free(pool->hot);
  return hot || is_in_cache(array, i);
}

/* Notes how far live objects follow word `w` of a single-threaded pool, which are all live: the walk needs no bits (O7). */
static void note_walked(object_pool_t *pool, const object_array_t *array, size_t w)
{
  size_t whole = array->capacity / WORD_BITS, end = w;
  while (end < min_size(whole, w + RUN_WORDS) && live_word(array, end) == ~(word_t)0)
    end++;
  pool->walked = object_at(pool, array, w * WORD_BITS);
  pool->walked_bytes = ((end - w) * WORD_BITS - 1) * pool->stride;
}

/* Returns the first live object at or behind position `i`, or NULL. */
static void *next_in_array(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  while (i < array->capacity) {
    size_t w = i / WORD_BITS, words = bits_words(array->capacity);
    word_t word = live_word(array, w) & ~(word_t)0 << i % WORD_BITS;
    while (!word && ++w < words)
      word = live_word(array, w);
    if (!word)
      return NULL;
    i = w * WORD_BITS + lowest_bit(word);
    if (!is_free_though_taken(pool, array, i)) {
      if (pool->single_thread && word == ~(word_t)0)
        note_walked(asked(pool), array, w);
      return object_at(pool, array, i);
    }
    i++;
  }
  return NULL;
}

/* Returns where the walk goes on in an array that ends behind `previous`, which is no object if its array has left. */
static size_t position_behind(const object_pool_t *pool, const object_array_t *array, const void *previous)
{
  size_t i = object_position(pool, array, previous);
  if (likely(i < array->capacity))
    return i + 1;
  bool inside = (uintptr_t)previous >= (uintptr_t)array->objects;
  return inside ? (size_t)((const char *)previous - array->objects) / pool->stride + 1 : 0;
}

static void *next_in_arrays(const object_pool_t *pool, const void *previous)
{
  void *object = NULL;
  for (uint32_t k = previous ? array_behind(pool, previous) : 0; k < pool->array_count && !object; k++)
    object = next_in_array(pool, pool->arrays[k], position_behind(pool, pool->arrays[k], previous));
  return object;
}

/* A pool with a single array that stays needs no lock (walk.h). */
NOINLINE static void *next_slow(const object_pool_t *pool, const void *previous)
{
  if (LOAD(pool->only))
    return next_in_arrays(pool, previous);
  lock_acquire(&asked(pool)->lock);
  void *object = next_in_arrays(pool, previous);
  lock_release(&asked(pool)->lock);
  return object;
}

/* The fast path, within a word of objects. If all of them are live, the next address depends on no bit. Otherwise no branch
 * depends on a single bit, since those of a half full pool are unpredictable. */
void *walk_next(const object_pool_t *pool, const void *previous)
{
  must_be_live(pool, "object_pool_next");
  const object_array_t *only = LOAD(pool->only);
  size_t i = only ? object_position(pool, only, previous) : 0;
  if (unlikely(!only || i >= only->capacity))
    return next_slow(pool, previous);
  word_t not_live = bit_tree_word(&only->free, i / WORD_BITS) | (busy_of(only) ? LOAD(busy_of(only)[i / WORD_BITS]) : 0);
  /* Two shifts, because a single one by a whole word is undefined. */
  word_t rest = ~not_live >> i % WORD_BITS >> 1;
  size_t steps = likely(!not_live) ? 1 : rest ? 1 + lowest_bit(rest) : 1;
  void *next = (void *)((uintptr_t)previous + steps * pool->stride);
  if (unlikely(!rest || i + steps >= only->capacity || next == LOAD(pool->hot->object) || is_in_cache(only, i + steps)))
    return next_slow(pool, previous);
  return next;
}

/* Every object within `walked` is live (O7), except that the hot one may be free. */
void *object_pool_next(const object_pool_t *pool, const void *previous)
{
  if (unlikely(!pool))
    return misuse_no_pool("object_pool_next");
  void *next = (void *)((uintptr_t)previous + pool->stride);
  if (likely((uintptr_t)previous - (uintptr_t)pool->walked < LOAD(pool->walked_bytes) && next != pool->hot_single.object))
    return next;
  return walk_next(pool, previous);
}

/* The figure may be old once the caller has it, so no lock is taken. */
size_t object_pool_live(const object_pool_t *pool)
{
  if (!is_given(pool, "object_pool_live"))
    return 0;
  return live_count(pool);
}
