/* SPDX-License-Identifier: MIT
 *
 * Stocks stay with their pool. When a thread ends, its stock waits for the next thread that uses the pool. So the list of
 * stocks can be read without a lock as long as the pool lives. */
#include "object_pool/cache.h"
#include "base/list.h"
#include "heap/heap.h"
#include "space/metadata.h"
#include <string.h>

enum {
  STOCK_PART = 16,           /* the home array divided by the most objects of a stock */
  REFILL_PART = 4,           /* the free objects divided by the most that a refill takes */
  GETS_WITHOUT_CACHE = 1000, /* after a collection, to amortize its cost */
  PATIENCE = 100             /* sleeps until the owner of a busy cache is given up: one second */
};

object_cache_t no_caches[OBJECT_SLOTS];
THREAD_LOCAL object_cache_t *object_caches = no_caches;
lock_t object_caches_lock;

static uint32_t never_used; /* the uses of a cache without a hot object: a put of it finds no live object */
static word_t slots_taken[OBJECT_SLOTS / WORD_BITS];
/* All this is under object_caches_lock. Blocks are never freed. The first cache of a block, that of slot 0, stores its links:
 * `hot` links all blocks, and `stock` those without a thread. A block without a thread has no `uses`. */
static object_cache_t *all_blocks, *unused_blocks;
static metadata_kind_t stock_records = {
  .size = sizeof(object_stock_t), .alignment = METADATA_ALIGNMENT, .link = offsetof(object_stock_t, next)};

/* caches_count() may read the cache at the same time, for the pool that had it before. */
static void cache_reset(object_cache_t *cache)
{
  cache_leave(cache, false);
  cache->hot = NULL;
  cache->uses = &never_used;
  cache->stock = NULL;
}

static bool is_own(const object_cache_t *cache) { return (uintptr_t)cache - (uintptr_t)object_caches < sizeof no_caches; }

/* Resets all caches of a block, but keeps it in the list of all blocks. */
static void block_reset(object_cache_t *block)
{
  void *next = block->hot;
  for (size_t i = 0; i < OBJECT_SLOTS; i++)
    cache_reset(&block[i]);
  block->hot = next;
}

/* block_take() and block_give() are called under object_caches_lock. */
static object_cache_t *block_take(void)
{
  object_cache_t *block = unused_blocks;
  if (block) {
    unused_blocks = (object_cache_t *)block->stock;
  } else {
    block = metadata_take(sizeof no_caches, METADATA_ALIGNMENT);
    if (!block)
      return NULL;
    block->hot = all_blocks;
    all_blocks = block;
  }
  block_reset(block);
  return block;
}

static void block_give(object_cache_t *block)
{
  block->stock = (object_stock_t *)unused_blocks;
  block->uses = NULL;
  unused_blocks = block;
}

/* ---- the owner ---- */

/* Returns free objects to the home array, under the pool's lock. */
static void give_positions(object_pool_t *pool, const uint32_t *positions, size_t count)
{
  for (size_t k = 0; k < count; k++)
    put_bit(pool, pool->home, positions[k]);
}

/* Returns the older half of the stock to the array, all under the lock: an object is always in the cache or in the array. */
static void spill(object_pool_t *pool, object_cache_t *cache)
{
  object_stock_t *stock = cache->stock;
  pool_acquire(pool);
  claim_set_busy(&cache->busy);
  if (!cache_slot_is_empty(pool)) {
    uint32_t half = (stock->count + 1) / 2;
    give_positions(pool, stock->positions, half);
    STORE(stock->count, stock->count - half);
    memmove(stock->positions, stock->positions + half, stock->count * sizeof *stock->positions);
  }
  cache_leave_hot(cache);
  lock_release(&pool->lock);
}

bool cache_put_rare(object_pool_t *pool, const void *object)
{
  size_t i = object_position(pool, pool->home, object);
  object_cache_t *cache = i < pool->home->capacity ? cache_with_stock(pool) : NULL;
  if (!cache || !is_in_use(pool->home->uses + i))
    return false;
  if (LOAD(cache->stock->count) && LOAD(cache->stock->count) == cache->stock->most)
    spill(pool, cache);
  return cache_put(pool, cache, i);
}

/* Returns the stretch of USES_TOGETHER bytes that has the uses of an object. */
static size_t stretch_of(size_t i) { return i / (USES_TOGETHER / sizeof(uint32_t)); }

/* Moves free objects of the home array into the stock, the lowest on top. It takes half of the stock's capacity, and then goes
 * on to the end of a stretch if there is room, so that no other thread gets objects from there. The object at `last` was just
 * taken. Called under the lock. */
void cache_refill(object_pool_t *pool, object_cache_t *cache, const void *object)
{
  object_array_t *home = pool->home;
  object_stock_t *stock = cache->stock;
  size_t last = object_position(pool, home, object);
  claim_set_busy(&cache->busy);
  size_t most = min_size(stock->most, (home->capacity - home->taken) / REFILL_PART), half = (stock->most + 1) / 2, got = 0;
  if (!most || cache_slot_is_empty(pool) || LOAD(stock->count)) {
    cache_leave_hot(cache);
    return;
  }
  for (bool ends = false; got < most && !ends;) {
    size_t w = bit_tree_lowest(&home->free) / WORD_BITS;
    word_t word = bit_tree_word(&home->free, w), rest = word;
    for (; rest && got < most; rest &= rest - 1) {
      size_t i = w * WORD_BITS + lowest_bit(rest);
      ends = got >= half && stretch_of(i) != stretch_of(last);
      if (ends)
        break;
      stock->positions[most - ++got] = (uint32_t)(last = i);
    }
    bit_tree_clear_bits(&home->free, w, word ^ rest);
  }
  memmove(stock->positions, stock->positions + most - got, got * sizeof *stock->positions);
  home->taken += (uint32_t)got;
  ADD(pool->taken, got);
  STORE(stock->count, (uint32_t)got);
  cache_leave_hot(cache);
}

/* ---- threads and pools get and lose caches ---- */

/* Its end is noticed only if the heaps know the thread, so other threads get none. */
void caches_take_block(void)
{
  if (!heap_reaches_threads() || !heap_watches_thread())
    return;
  lock_acquire(&object_caches_lock);
  object_cache_t *block = block_take();
  lock_release(&object_caches_lock);
  if (block)
    object_caches = block;
}

/* Prefers a stock that waits in the pool's list. A new one is complete before it enters the list. */
static void stock_make(object_pool_t *pool, object_cache_t *cache)
{
  LOCKED(&object_caches_lock);
  object_stock_t *stock = pool->stocks;
  while (stock && stock->cache)
    stock = stock->next;
  bool is_new = !stock;
  if (is_new && !(stock = metadata_take_kind(&stock_records)))
    return;
  stock->most = (uint32_t)min_size(OBJECT_STOCK, pool->home->capacity / STOCK_PART);
  stock->pool = pool;
  STORE(stock->count, 0);
  STORE(stock->cache, cache);
  cache->stock = stock;
  if (is_new) {
    stock->next = pool->stocks;
    __atomic_store_n(&pool->stocks, stock, __ATOMIC_RELEASE);
  }
}

object_cache_t *cache_with_stock(object_pool_t *pool)
{
  caches_be_apart();
  object_cache_t *cache = cache_of_pool(pool);
  if (unlikely(object_caches == no_caches || cache == object_caches))
    return NULL;
  if (unlikely(!cache->stock))
    stock_make(pool, cache);
  return cache->stock ? cache : NULL;
}

/* All pools without caches share slot 0. */
void caches_enter_pool(object_pool_t *pool)
{
  if (!no_caches[0].uses)
    block_reset(no_caches);
  bool fits = !is_hooked(pool) && !pool->single_thread && pool->array_count && pool->arrays[0]->permanent &&
              pool->when_full != OBJECT_POOL_EVICT;
  size_t slot = 1;
  while (slot < OBJECT_SLOTS && bit_test(slots_taken, slot))
    slot++;
  if (!fits || slot == OBJECT_SLOTS || !heap_reaches_threads()) {
    if (pool->array_count)
      pool->arrays[0]->laps = NULL;
    return;
  }
  bit_set(slots_taken, slot);
  pool->home = pool->arrays[0];
  pool->own_slot = (uint16_t)(slot * sizeof(object_cache_t));
  STORE(pool->slot, pool->own_slot);
}

/* No other thread calls the pool, but one that reads figures may go through the list of stocks, under heaps_lock. */
void caches_leave_pool(object_pool_t *pool)
{
  if (!pool->home)
    return;
  lock_acquire(&object_caches_lock);
  for (object_stock_t *stock = pool->stocks, *next; stock; stock = next) {
    next = stock->next;
    if (stock->cache)
      cache_reset(stock->cache);
    metadata_give_kind(&stock_records, stock);
  }
  pool->stocks = NULL;
  lock_release(&object_caches_lock);
  STORE(pool->slot, 0);
  bit_clear(slots_taken, pool->own_slot / sizeof(object_cache_t));
}

/* ---- cached objects are collected ---- */

size_t caches_count(const object_pool_t *pool)
{
  size_t count = 0;
  for (const object_stock_t *stock = __atomic_load_n(&pool->stocks, __ATOMIC_ACQUIRE); stock; stock = stock->next) {
    const object_cache_t *cache = LOAD(stock->cache);
    count += LOAD(stock->count) + (cache && LOAD(cache->hot_is_free));
  }
  return count;
}

/* Empties a cache whose owner is not busy. Called under the pool's lock. */
static void flush(object_pool_t *pool, object_stock_t *stock)
{
  object_cache_t *cache = stock->cache;
  give_positions(pool, stock->positions, stock->count);
  STORE(stock->count, 0);
  if (!__atomic_load_n(&cache->hot_is_free, __ATOMIC_ACQUIRE))
    return;
  put_bit(pool, pool->home, (size_t)(cache->uses - pool->home->uses));
  STORE(cache->hot_is_free, false);
}

static void flush_with_lock(object_pool_t *pool, object_stock_t *stock)
{
  LOCKED(&pool->lock);
  flush(pool, stock);
}

/* The empty slot sends all owners to the pool's lock. The calling thread is busy if this signal handler interrupted its call.
 * Its cache then stays as it is. */
static void *collect(object_pool_t *pool, bool takes)
{
  object_stock_t *own = NULL;
  claim_t *others = NULL;
  LOCKED(&object_caches_lock);
  lock_acquire(&pool->lock);
  pool->claimed = true;
  __atomic_store_n(&pool->slot, 0, CLAIM_ORDER);
  lock_release(&pool->lock);
  for (object_stock_t *stock = pool->stocks; stock; stock = stock->next)
    if (stock->cache && is_own(stock->cache))
      own = stock;
    else if (stock->cache)
      claim_push(&others, &stock->claim, &stock->cache->busy);
  claim_t *claims = claims_settle(others, PATIENCE);
  if (own && !own->cache->busy)
    claim_push(&claims, &own->claim, &own->cache->busy);
  lock_acquire(&pool->lock);
  for (claim_t *claim = claims; claim; claim = claim->next)
    flush(pool, CONTAINER_OF(claim, object_stock_t, claim));
  void *object = takes ? take_plain(pool) : NULL;
  if (others)
    pool->gets_without_cache = GETS_WITHOUT_CACHE;
  pool->claimed = false;
  resume_caches(pool);
  lock_release(&pool->lock);
  return object;
}

/* Calls use no caches for a while after a collection. Only calls that began before still put objects into caches, and none
 * takes them out. So caches_count() then tells whether the pool is exhausted. */
void *caches_get(object_pool_t *pool)
{
  lock_acquire(&pool->lock);
  void *object = take_plain(pool);
  bool full = !object && pool->gets_without_cache && !caches_count(pool);
  lock_release(&pool->lock);
  return object || full ? object : collect(pool, true);
}

void caches_empty(object_pool_t *pool)
{
  if (pool->home && caches_count(pool))
    collect(pool, false);
}

void caches_end_of_thread(void)
{
  object_cache_t *block = object_caches;
  if (block == no_caches)
    return;
  object_caches = no_caches;
  lock_acquire(&object_caches_lock);
  for (size_t i = 0; i < OBJECT_SLOTS; i++) {
    object_stock_t *stock = block[i].stock;
    if (!stock)
      continue;
    flush_with_lock(stock->pool, stock);
    STORE(stock->cache, NULL);
  }
  block_give(block);
  lock_release(&object_caches_lock);
}

/* Called once the objects in the blocks of lost threads were returned, pool by pool. */
void caches_forget_blocks(void)
{
  for (object_cache_t *block = all_blocks; block; block = block->hot)
    if (block != object_caches && block->uses)
      block_give(block);
}

/* A lost thread may have been moving an object that was in no cache and not live. So this looks at all objects, after it has
 * returned the thread's own. A fork in a signal handler may have interrupted this thread's own get or put. Such a fork leaves
 * the objects alone, because it cannot tell which of them the interrupted call has. */
void caches_forget_others(object_pool_t *pool)
{
  object_stock_t *own = NULL;
  bool lost = false;
  for (object_stock_t *stock = pool->stocks; stock; stock = stock->next) {
    if (!stock->cache)
      continue;
    if (is_own(stock->cache)) {
      own = stock;
      continue;
    }
    cache_reset(stock->cache);
    stock->cache = NULL;
    stock->count = 0;
    lost = true;
  }
  if (!lost || (own && own->cache->busy))
    return;
  if (own)
    flush_with_lock(pool, own);
  object_array_t *home = pool->home;
  for (size_t i = 0; i < home->capacity; i++)
    if (!bit_tree_test(&home->free, i) && !is_in_use(home->uses + i))
      put_bit(pool, home, i);
}
