/* SPDX-License-Identifier: MIT
 *
 * A batch must not evict its own objects. One bit of its map tells, and the map is updated only when it is needed. */
#include "object_pool/eviction.h"
#include "base/shared.h"
#include "object_pool/object_misuse.h"
#include "os/probe.h"

enum { EVICT_ATTEMPTS = 64 }; /* victims that were put before they could be taken */

/* Returns an unused map, or takes that of another batch. It does not wait for a batch, because one whose chooser left by
 * longjmp() never ends. Too many batches at once lose their maps in turn, not each time. */
static uint32_t choose_map(object_pool_t *pool)
{
  enum { GOLDEN_RATIO = 0x9e3779b1u, BATCH_MAPS_LOG2 = 3 };
  _Static_assert(BATCH_MAPS == 1 << BATCH_MAPS_LOG2, "the top bits of a product choose one");
  for (uint32_t map = 0; map < BATCH_MAPS; map++)
    if (!pool->batch_at[map])
      return map;
  return ++pool->batch_maps_taken * GOLDEN_RATIO >> (32 - BATCH_MAPS_LOG2);
}

static word_t *map_of(const object_array_t *array, uint32_t map) { return array->in_batch + map * bits_words(array->capacity); }

/* Gives the batch an empty map and has it mark all its objects again. Unused maps are empty. */
static void batch_take_map(object_pool_t *pool, const object_array_t *array, batch_t *batch)
{
  batch->number = batch->number ? batch->number : ++pool->batches;
  batch->marked = batch->bits = 0;
  batch->evicts = pool;
  batch->map = choose_map(pool);
  if (pool->batch_at[batch->map])
    shared_clear(map_of(array, batch->map), bits_words(array->capacity) * sizeof(word_t));
  pool->batch_at[batch->map] = batch->number;
}

/* Returns whether the batch has the object, under the lock. It marks only what it got since the last call. */
static bool batch_has(object_pool_t *pool, object_array_t *array, size_t i, batch_t *batch)
{
  size_t k;
  if (!batch->number || batch->number != pool->batch_at[batch->map])
    batch_take_map(pool, array, batch);
  for (; batch->marked < batch->got; batch->marked++)
    if (array_of(pool, batch->objects[batch->marked], &k) == array && !bit_test(map_of(array, batch->map), k)) {
      bit_set(map_of(array, batch->map), k);
      batch->bits++;
    }
  return bit_test(map_of(array, batch->map), i);
}

/* Another batch may have taken the map. If an object is no longer where it was, its bit remains, so all words are cleared. */
void batch_end(const batch_t *batch)
{
  size_t i, left = batch->bits;
  object_pool_t *pool = batch->evicts;
  if (!pool)
    return;
  lock_acquire(&pool->lock);
  if (pool->batch_at[batch->map] == batch->number) {
    for (size_t k = 0; k < batch->marked; k++) {
      const object_array_t *array = array_of(pool, batch->objects[k], &i);
      left -= array && bit_test(map_of(array, batch->map), i);
      if (array)
        bit_clear(map_of(array, batch->map), i);
    }
    for (uint32_t k = 0; left && k < pool->array_count; k++)
      shared_clear(map_of(pool->arrays[k], batch->map), bits_words(pool->arrays[k]->capacity) * sizeof(word_t));
    pool->batch_at[batch->map] = 0;
  }
  lock_release(&pool->lock);
}

static void *choose_victim(object_pool_t *pool)
{
  int error = errno;
  void *victim = pool->choose_victim(pool, pool->context);
  errno = error;
  return victim;
}

typedef enum evicted { EVICTED, EVICTED_NOT_LIVE, EVICTED_OWN } evicted_t;

/* Takes the lock and gives a live object, not of the batch, to a new user; its handles end. *object is as in hooks_take(). */
static evicted_t evict(object_pool_t *pool, void *victim, batch_t *batch, void **object)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = array_of(pool, victim, &i);
  bool live = array && is_live(pool, array, i), own = live && batch && batch_has(pool, array, i, batch);
  /* A put and a get in one step: the hot object stays live, and its count grows. */
  if (live && !own && is_hot(pool, victim)) {
    STORE(pool->hot->state, pool->hot->state + HOT_PUT + HOT_GET);
  } else if (live && !own) {
    array->uses[i]++;
    if (is_hooked(pool))
      live_to_busy(pool, array, i);
  }
  lock_release(&pool->lock);
  if (!array)
    misuse_not_live(pool, victim, "object_pool_get: choose_victim");
  if (!live || own)
    return own ? EVICTED_OWN : EVICTED_NOT_LIVE;
  if (is_hooked(pool))
    hooks_on_put(pool, array, victim);
  *object = is_hooked(pool) ? hooks_hand_out(pool, array, i, true) : victim;
  return EVICTED;
}

/* Returns whether the batch had this object before: another thread has put it meanwhile. The batch keeps it, once. */
static bool is_in_batch(object_pool_t *pool, const void *object, batch_t *batch)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = batch ? array_of(pool, object, &i) : NULL;
  bool has = array && batch_has(pool, array, i, batch);
  lock_release(&pool->lock);
  return has;
}

/* A victim that is not live was just put, so an object may be free. A victim of the batch itself ends the batch. */
void *eviction_get(object_pool_t *pool, batch_t *batch)
{
  void *object, *victim;
  for (int attempt = 0; attempt < EVICT_ATTEMPTS && (victim = choose_victim(pool)) != NULL; attempt++) {
    evicted_t evicted = evict(pool, victim, batch, &object);
    if (evicted == EVICTED_OWN)
      break;
    if (evicted == EVICTED)
      return object;
    if (!try_get(pool, &object))
      continue;
    if (is_in_batch(pool, object, batch))
      break;
    return object;
  }
  POOL_PROBE2(tidepool, object_pool_full, pool, pool->name);
  return full();
}
