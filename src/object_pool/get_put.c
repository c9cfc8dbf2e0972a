/* SPDX-License-Identifier: MIT
 *
 * A get returns the hot object, by a test and an addition; or one of the thread's cache; or the lowest free one; or what the
 * policy of a full pool provides. A put makes the object hot, puts it into the cache, or sets its bit. All paths beyond the hot
 * object are tail calls, so no register is saved for it. Firmware has no caches and goes along the chain at once. */
#include "base/fill.h"
#include "object_pool/cache.h"
#include "object_pool/operations.h"
#include "os/tool.h"

/* ---- eviction ----
 *
 * The program chooses a live object, which is taken from its user and given to the next. A batch is never given one of its own
 * objects again. A pool that evicts has one array, and a batch that evicts has a map there, with a bit for each of its objects.
 * The map is updated only when it is needed. No lock is held here: a hook or the chooser may leave by longjmp(). The pool's
 * lock protects the maps. */

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

static word_t *map_of(const batch_t *batch)
{
  const object_array_t *array = batch->evicts->arrays[0];
  return array->in_batch + batch->map * bits_words(array->capacity);
}

static void map_clear(const batch_t *batch)
{
  shared_clear(map_of(batch), bits_words(batch->evicts->arrays[0]->capacity) * sizeof(word_t));
}

/* Gives the batch an empty map and has it mark all its objects again. Unused maps are empty. */
static void batch_take_map(object_pool_t *pool, batch_t *batch)
{
  batch->number = batch->number ? batch->number : ++pool->batches;
  batch->marked = batch->bits = 0;
  batch->evicts = pool;
  batch->map = choose_map(pool);
  if (pool->batch_at[batch->map])
    map_clear(batch);
  pool->batch_at[batch->map] = batch->number;
}

/* Changes the bit of an object of the batch. Returns false if it was so already, or the object is of another pool. */
static bool map_set(const batch_t *batch, const void *object, bool set)
{
  const object_array_t *array = batch->evicts->arrays[0];
  size_t i = object_position(batch->evicts, array, object);
  if (i >= array->capacity || bit_test(map_of(batch), i) == set)
    return false;
  map_of(batch)[i / WORD_BITS] ^= bit_of(i);
  return true;
}

/* Returns whether the batch has the object, under the lock. It marks only what it got since the last call. */
static bool batch_has(object_pool_t *pool, size_t i, batch_t *batch)
{
  if (!batch->number || batch->number != pool->batch_at[batch->map])
    batch_take_map(pool, batch);
  for (; batch->marked < batch->got; batch->marked++)
    batch->bits += map_set(batch, batch->objects[batch->marked], true);
  return bit_test(map_of(batch), i);
}

/* Clears the batch's map bit by bit. Another batch may have taken the map. If an object is no longer where it was, its bit
 * remains, so all words are cleared. */
static void batch_end(const batch_t *batch)
{
  object_pool_t *pool = batch->evicts;
  if (!pool)
    return;
  size_t left = batch->bits;
  LOCKED(&pool->lock);
  if (pool->batch_at[batch->map] != batch->number)
    return;
  for (size_t k = 0; k < batch->marked; k++)
    left -= map_set(batch, batch->objects[k], false);
  if (left)
    map_clear(batch);
  pool->batch_at[batch->map] = 0;
}

typedef enum evicted { EVICTED, EVICTED_NOT_LIVE, EVICTED_OWN } evicted_t;

/* Takes the lock and gives a live object, not of the batch, to a new user; its handles end. *object is as in hooks_take(). */
static evicted_t evict(object_pool_t *pool, void *victim, batch_t *batch, void **object)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = array_of(pool, victim, &i);
  bool live = array && is_live(pool, array, i), own = live && batch && batch_has(pool, i, batch);
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
  return array && batch_has(pool, i, batch);
}

/* Evicts a live object. Returns false if none was chosen, or none that could be taken. *object is as in hooks_take(). `batch`
 * is NULL for a single get. A victim that is not live was just put, so an object may be free. A victim of the batch itself ends
 * the batch. */
COLD static bool get_evicting(object_pool_t *pool, batch_t *batch, void **object)
{
  for (int attempt = 0; attempt < EVICT_ATTEMPTS; attempt++) {
    int error = errno;
    void *victim = pool->choose_victim(pool, pool->context);
    errno = error;
    if (!victim)
      break;
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

/* Gets an object from the pool or those that it overflows to, or by the policy of the last. NULL: ENOMEM. It looks at the clock
 * first, because a hook may leave by longjmp() there. */
NOINLINE static void *get_along(object_pool_t *pool, batch_t *batch)
{
  void *object;
  for (;; pool = overflow_of(pool)) {
    must_be_live(pool, "object_pool_get");
    look_at_clock(pool, 1);
    if (home_of(pool) ? (object = caches_get(pool)) != NULL : try_get(pool, &object))
      return object;
    if (!overflow_of(pool) || pool->ending)
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

/* Gets the hot object of a single-threaded pool, or that of the thread's cache. The cache of slot 0, which pools without caches
 * use, never has one. */
void *object_pool_get(object_pool_t *pool)
{
  if (unlikely(!pool))
    return misuse_no_pool("object_pool_get");
  if (!HAS_CACHES)
    return get_along(pool, NULL);
  if (likely(HOT_HAS(&pool->hot_single, HOT_FREE))) {
    HOT_MOVE(&pool->hot_single, HOT_GET);
    return pool->hot_single.object;
  }
  object_cache_t *cache = cache_of_pool(pool);
  claim_set_busy(&cache->busy);
  if (unlikely(cache_slot_is_empty(pool) || !cache_has_hot(cache)))
    return get_cached(pool, cache);
  start_use(cache->uses);
  void *object = cache->hot;
  cache_leave(cache, false);
  return object;
}

/* ---- put ---- */

/* Puts an object if it is live in this pool; otherwise returns false. */
static bool put_own(object_pool_t *pool, void *object)
{
  bool done = is_hooked(pool) ? hooks_give(pool, object) : give_locked(pool, object);
  look_at_clock(pool, 0);
  return done;
}

/* Puts an object into the pool `at` or one that it overflows to. A message names `pool`, the argument of the call. */
NOINLINE static void put_along(object_pool_t *pool, void *object, const char *call)
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
    array_put_all(pool, pool->arrays[k]);
  pool->current = array_with_room(pool);
  lock_release(&pool->lock);
  look_at_clock(pool, 0);
}

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

/* The hot object of a single-threaded pool comes first: its put is a test and an addition. That of the thread's cache is known
 * by its address, because no other pool uses the slot. */
void object_pool_put(object_pool_t *pool, void *object)
{
  if (unlikely(!pool)) {
    misuse_no_pool("object_pool_put");
  } else if (!HAS_CACHES) {
    put_along(pool, object, "object_pool_put");
  } else if (likely(object == pool->hot_single.object && HOT_HAS(&pool->hot_single, HOT_LIVE))) {
    HOT_MOVE(&pool->hot_single, HOT_PUT);
  } else {
    object_cache_t *cache = cache_of_pool(pool);
    if (unlikely(object != cache->hot || !end_use(cache->uses)))
      put_cached(pool, object, cache);
    else
      cache_hot_is_free(cache);
  }
}
