/* SPDX-License-Identifier: MIT
 * Counts anew what the pool keeps a count of. */
#include "check_object_pool.h"
#include "object_pool/cache.h"
#include "unit.h"

static size_t words_of(size_t bits) { return (bits + WORD_BITS - 1) / WORD_BITS; }

static void check_bits(const object_array_t *array)
{
  size_t bits = array->capacity, l = 0, free = bits_count(array->free.level[0], 0, bits);
  must(array->taken == array->capacity - free); /* O2 */
  must(bits_next_set(array->free.level[0], 0, array->free.lowest * (size_t)WORD_BITS) ==
       array->free.lowest * (size_t)WORD_BITS);
  for (;; l++) {
    size_t words = words_of(bits);
    must(bits_next_set(array->free.level[l], bits, words * WORD_BITS) == words * WORD_BITS);
    if (words == 1)
      break;
    for (size_t w = 0; w < words; w++)
      must(bit_test(array->free.level[l + 1], w) == (array->free.level[l][w] != 0)); /* O1 */
    bits = words;
  }
  must(l + 1 == array->free.levels);
  for (size_t w = 0; array->busy && w < words_of(array->capacity); w++)
    must(!(array->busy[w] & array->free.level[0][w])); /* O5 */
}

static void check_hot(const object_pool_t *pool)
{
  const hot_t *hot = pool->hot, *other = hot == &pool->hot_single ? &pool->hot_shared : &pool->hot_single;
  must(!other->object && !other->state);
  if (!hot->object) {
    must(!hot->state); /* O4 */
    return;
  }
  must(hot_is_free(hot) != hot_is_live(hot));
  must(!pool->hooked && !bit_test(hot->array->free.level[0], hot->position));
  must(hot->object == hot->array->objects + hot->position * pool->stride);
}

static void check_current(const object_pool_t *pool)
{
  const object_array_t *oldest = NULL;
  for (uint32_t k = 0; k < pool->array_count; k++) {
    const object_array_t *array = pool->arrays[k];
    if (array->taken < array->capacity && (!oldest || array->age < oldest->age))
      oldest = array;
  }
  must(!oldest || !pool->current || pool->current == oldest || pool->current->taken == pool->current->capacity); /* O3 */
}

static void check_run(const object_pool_t *pool)
{
  for (size_t at = 0; pool->walked_bytes && at <= pool->walked_bytes; at += pool->stride) {
    bool found = false;
    for (uint32_t k = 0; k < pool->array_count && !found; k++) {
      const object_array_t *array = pool->arrays[k];
      size_t i = object_position(pool, array, pool->walked + at);
      found = i < array->capacity;
      must(!found || (!bit_test(array->free.level[0], i) && !(array->busy && bit_test(array->busy, i)))); /* O7 */
    }
    must(found && pool->single_thread);
  }
}

static void check_arrays(const object_pool_t *pool)
{
  size_t capacity = 0, idle = 0, taken = 0, busy = 0;
  for (uint32_t k = 0; k < pool->array_count; k++) {
    const object_array_t *array = pool->arrays[k];
    capacity += array->capacity;
    taken += array->taken;
    busy += array->busy ? bits_count(array->busy, 0, array->capacity) : 0;
    idle += array->unused;
    must(!array->unused || !array->taken);
    must(array->unused || array->taken || array->permanent || pool->purge_delay_ms == POOL_PURGE_NEVER);
    must(k == 0 || pool->arrays[k - 1]->objects + pool->arrays[k - 1]->capacity * pool->stride <= array->objects); /* O6 */
    for (uint32_t j = 0; j < k; j++) {
      const object_array_t *other = pool->arrays[j];
      must(other->first_index + other->capacity <= array->first_index ||
           array->first_index + array->capacity <= other->first_index);
    }
    check_bits(array);
  }
  must(capacity == pool->capacity && idle == pool->unused_count); /* O8 */
  must(taken == pool->taken && busy == pool->busy);
}

/* O9. Each object of a cache is counted off in a bitmap of those that are taken and not live. */
static void check_caches(const object_pool_t *pool)
{
  const object_array_t *home = pool->home;
  must(home ? pool->own_slot != 0 : !pool->slot && !pool->stocks);
  must(!pool->claimed && pool->slot == (pool->gets_without_cache || pool->unused_count ? 0 : pool->own_slot));
  if (!home)
    return;
  size_t words = words_of(home->capacity), cached = 0;
  word_t *left = calloc(words, sizeof *left);
  for (size_t i = 0; i < home->capacity; i++) {
    bool live = is_in_use(home->uses + i), free = bit_test(home->free.level[0], i);
    must(!(free && live));
    if (!free && !live)
      bit_set(left, i);
  }
  for (const object_stock_t *stock = pool->stocks; stock; stock = stock->next) {
    const object_cache_t *cache = stock->cache;
    must(stock->pool == pool && stock->count <= stock->most && stock->most <= OBJECT_STOCK);
    must(cache || !stock->count);
    must(!cache || (cache->stock == stock && !cache->busy));
    for (uint32_t k = 0; k <= stock->count; k++) {
      if (k == stock->count && !(cache && cache->hot_is_free))
        break;
      size_t i = k < stock->count ? stock->positions[k] : (size_t)(cache->uses - home->uses);
      must(i < home->capacity && bit_test(left, i));
      must(k < stock->count || cache->hot == home->objects + i * pool->stride);
      bit_clear(left, i);
      cached++;
    }
  }
  must(bits_next_set(left, 0, words * WORD_BITS) == words * WORD_BITS);
  must(cached == caches_count(pool));
  free(left);
}

bool check_object_pool(const object_pool_t *pool)
{
  must(pool->mark == OBJECT_POOL_MARK);
  check_arrays(pool);
  check_hot(pool);
  check_run(pool);
  check_current(pool);
  check_caches(pool);
  return true;
}
