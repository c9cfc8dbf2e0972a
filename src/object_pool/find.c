/* SPDX-License-Identifier: MIT
 *
 * Objects are found: by a walk, by their address, or by a handle. The state of a walk is the previous object's address, so
 * objects and arrays may come and go between two calls.
 *
 * A handle is an index and the number of gets of the object. There is no table. Indices begin at 1 and continue through the
 * chain of overflow pools. Only its last pool may grow, and it must leave room for all indices. Locks are taken in turn. */
#include "object_pool/operations.h"

enum { RUN_WORDS = 16 }; /* words that a walk looks ahead */

/* The array of the object may leave at any moment, so the lock is taken. */
bool object_pool_in_use(const object_pool_t *pool, const void *object)
{
  if (!is_given(pool, "object_pool_in_use"))
    return false;
  size_t i;
  lock_t *lock = &asked(pool)->lock;
  LOCKED(lock);
  const object_array_t *array = array_of(pool, object, &i);
  return array && is_live(pool, array, i);
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

/* Takes the lock, except in a pool with a single array that stays: bits may be read while other threads get and put. */
NOINLINE static void *next_slow(const object_pool_t *pool, const void *previous)
{
  if (LOAD(pool->only))
    return next_in_arrays(pool, previous);
  LOCKED(&asked(pool)->lock);
  return next_in_arrays(pool, previous);
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

size_t object_pool_live(const object_pool_t *pool) { return is_given(pool, "object_pool_live") ? live_count(pool) : 0; }

/* ---- handles ---- */

/* Returns how often a live object was got, modulo 2^32, beyond the uses of earlier arrays. */
static uint32_t generation_of(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  uint32_t gets = is_hot(pool, object_at(pool, array, i)) ? hot_uses(pool->hot) : gets_of(array, i);
  return (uint32_t)(array->first_generation + gets);
}

/* Returns the handle of a live object of this pool, behind `before` indices, or index 0. */
static object_pool_handle_t handle_in(const object_pool_t *pool, const void *object, size_t before)
{
  size_t i;
  must_be_live(pool, "object_pool_handle");
  LOCKED(&asked(pool)->lock);
  const object_array_t *array = array_of(pool, object, &i);
  if (!array || !is_live(pool, array, i))
    return (object_pool_handle_t){0, 0};
  return (object_pool_handle_t){(uint32_t)(before + array->first_index + i + 1), generation_of(pool, array, i)};
}

/* Indices continue through the chain. Only its last pool may grow. */
object_pool_handle_t object_pool_handle(const object_pool_t *pool, const void *object)
{
  object_pool_handle_t handle = {0, 0};
  if (!is_given(pool, "object_pool_handle"))
    return handle;
  for (size_t before = 0; pool && !handle.index; before += LOAD(pool->capacity), pool = overflow_of(pool))
    handle = handle_in(pool, object, before);
  return handle;
}

/* An object that was got again has another generation, so an old handle resolves to nothing. */
static void *resolve_in(const object_pool_t *pool, object_pool_handle_t handle)
{
  void *object = NULL;
  LOCKED(&asked(pool)->lock);
  for (uint32_t k = 0; k < pool->array_count && !object; k++) {
    const object_array_t *array = pool->arrays[k];
    size_t i = (size_t)handle.index - 1 - array->first_index;
    if (i < array->capacity && is_live(pool, array, i) && generation_of(pool, array, i) == handle.generation)
      object = object_at(pool, array, i);
  }
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
  LOCKED(&pool->lock);
  for (uint32_t k = 0; k < pool->array_count; k++)
    end = max_size(end, (uint64_t)pool->arrays[k]->first_index + pool->arrays[k]->capacity);
  bool fits = objects + end <= UINT32_MAX;
  if (fits && stays)
    pool->indices_before = (uint32_t)max_size(pool->indices_before, objects);
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
