/* SPDX-License-Identifier: MIT
 *
 * A get returns the hot object, by a test and an addition; or one of the thread's cache; or the lowest free one; or what the
 * policy of a full pool provides. All paths beyond the hot object are tail calls, so no register is saved for it. */
#include "base/fill.h"
#include "object_pool/cache.h"
#include "object_pool/operations.h"
#include "os/tool.h"

/* ---- eviction ----
 *
 * The program chooses a live object, which is taken from its user and given to the next. A batch is never given one of its own
 * objects again. A batch that evicts has a map in each array, with a bit for each of its objects. The map is updated only when
 * it is needed. No lock is held here: a hook or the chooser may leave by longjmp(). The pool's lock protects the maps. */

/* The objects of a batch, and its map in the pool that evicts. */
typedef struct batch {
  void **objects;
  size_t got, marked; /* the number of objects, and of those that its map already covers */
  size_t bits;        /* bits set in its map */
  uint64_t number;    /* its number in batch_at as long as it has the map; 0: it had no map yet */
  object_pool_t *evicts;
  uint32_t map;
} batch_t;

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

/* Clears the batch's map bit by bit. Another batch may have taken the map. If an object is no longer where it was, its bit
 * remains, so all words are cleared. */
static void batch_end(const batch_t *batch)
{
  size_t i, left = batch->bits;
  object_pool_t *pool = batch->evicts;
  if (!pool)
    return;
  LOCKED(&pool->lock);
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
    fatal_misuse_of_object("object_pool_get: choose_victim", victim, NOT_AN_OBJECT, pool->name);
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
  LOCKED(&pool->lock);
  object_array_t *array = batch ? array_of(pool, object, &i) : NULL;
  return array && batch_has(pool, array, i, batch);
}

/* Evicts a live object. Returns false if none was chosen, or none that could be taken. *object is as in hooks_take(). `batch`
 * is NULL for a single get. A victim that is not live was just put, so an object may be free. A victim of the batch itself ends
 * the batch. */
COLD static bool get_evicting(object_pool_t *pool, batch_t *batch, void **object)
{
  void *victim;
  for (int attempt = 0; attempt < EVICT_ATTEMPTS && (victim = choose_victim(pool)) != NULL; attempt++) {
    evicted_t evicted = evict(pool, victim, batch, object);
    if (evicted != EVICTED_NOT_LIVE)
      return evicted == EVICTED;
    if (try_get(pool, object))
      return !is_in_batch(pool, *object, batch);
  }
  return false;
}

/* ---- get ---- */

/* Applies the policy of a full pool. A pool that overflows has moved on to the next one. `batch` is NULL for a single get. */
COLD static void *get_when_full(object_pool_t *pool, batch_t *batch)
{
  void *object;
  if (!pool->ending && may_evict(pool) && get_evicting(pool, batch, &object))
    return object;
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
NOINLINE void *get_along(object_pool_t *pool, batch_t *batch)
{
  void *object;
  for (;; pool = overflow_of(pool)) {
    must_be_live(pool, "object_pool_get");
    look_at_clock(pool, 1);
    if (home_of(pool) ? (object = caches_get(pool)) != NULL : try_get(pool, &object))
      return object;
    if (!may_overflow(pool) || pool->ending)
      return get_when_full(pool, batch);
  }
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
  take_bits(pool, array, w, word ^ rest, got);
  return got;
}

/* A pool without hooks serves the whole batch under one lock. The hot object comes first. */
static size_t get_plain_batch(object_pool_t *pool, void **objects, size_t count)
{
  size_t got = 0, more;
  LOCKED(&pool->lock);
  if (count && hot_is_free(pool->hot))
    objects[got++] = take_plain(pool);
  while (got < count && (more = take_word(pool, objects + got, count - got)) > 0)
    got += more;
  count_gets_without_cache(pool, got);
  return got;
}

/* Gets all free objects under one lock, and the rest one by one, by the policy. */
size_t object_pool_get_batch(object_pool_t *pool, void **objects, size_t count)
{
  if (!is_given(pool, "object_pool_get_batch"))
    return 0;
  look_at_clock(pool, count);
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
