/* SPDX-License-Identifier: MIT
 *
 * A put makes the object hot or sets its bit. Putting all objects fills whole words of bits. Putting what is no live object of
 * the pool or its overflow pools ends the program. */
#include "object_pool/operations.h"

/* Puts an object if it is live in this pool; otherwise returns false. */
static bool put_own(object_pool_t *pool, void *object)
{
  bool done = is_hooked(pool) ? hooks_give(pool, object) : give_locked(pool, object);
  look_at_clock(pool, 0);
  return done;
}

/* Puts an object into the pool `at` or one that it overflows to. A message names `pool`, the argument of the call. */
NOINLINE void put_along(object_pool_t *pool, void *object, const char *call)
{
  for (object_pool_t *at = pool; at; at = overflow_of(at)) {
    must_be_live(at, call);
    if (likely(put_own(at, object)))
      return;
  }
  if (is_watched(pool))
    os_tool_report_block(pool, object);
  fatal_misuse_of_object(call, object, NOT_AN_OBJECT, pool->name);
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
    put_along(pool, objects[put], "object_pool_put_batch");
  look_at_clock(pool, 0);
}

/* Ends the use of these objects of a home array, but not of those in caches, which stay there: end_use() writes to the count of
 * such an object for a moment, which its owner may be changing. Returns the others. */
static word_t end_uses(object_array_t *array, size_t w, word_t taken)
{
  word_t live = 0;
  for (size_t i; taken; taken &= taken - 1)
    if (is_in_use(array->uses + (i = w * WORD_BITS + lowest_bit(taken))) && end_use_locked(array, i))
      live |= taken & -taken;
  return live;
}

/* Frees all live objects of an array by words. Busy ones are freed by their hooks. */
static void put_all_of(object_pool_t *pool, object_array_t *array)
{
  uint32_t before = array->taken;
  for (size_t w = 0; before && w < bits_words(array->capacity); w++) {
    word_t live = live_word(array, w);
    if (has_laps(array))
      live = end_uses(array, w, live);
    if (live)
      bit_tree_set_bits(&array->free, w, live);
    array->taken -= bits_set_in(live);
  }
  ADD(pool->taken, array->taken - (size_t)before);
  if (before && !array->taken)
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
  STORE(pool->walked_bytes, 0);
  for (uint32_t k = 0; k < pool->array_count; k++)
    put_all_of(pool, pool->arrays[k]);
  pool->current = array_with_room(pool);
  lock_release(&pool->lock);
  look_at_clock(pool, 0);
}
