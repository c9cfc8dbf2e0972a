/* SPDX-License-Identifier: MIT
 *
 * Stocks stay with their pool: when a thread ends its stock waits for the next thread that comes to the pool. So the list of
 * them is read without a lock as long as the pool lives. */
#include "object_pool/cache.h"
#include "heap/heap.h"
#include "space/metadata.h"
#include <string.h>

enum {
  STOCK_PART = 16,          /* a stock is at most this part of the home array */
  REFILL_PART = 4,          /* a refill takes at most this part of what is free */
  GETS_WITHOUT_CACHE = 1000 /* after a reach, so that its cost is shared by many */
};

object_cache_t no_caches[OBJECT_SLOTS];
THREAD_LOCAL object_cache_t *object_caches = no_caches;
lock_t object_caches_lock;

static uint32_t never_used; /* the uses of a hot object that is none: a put of it is no put of a live object */
static uint64_t slots_taken[OBJECT_SLOTS / WORD_BITS];
static object_stock_t *unused_stocks; /* under object_caches_lock, as the next two */
static object_cache_t *unused_blocks; /* linked by `hot` of their first cache */
static metadata_kind_t stock_records = {.size = sizeof(object_stock_t), .alignment = METADATA_ALIGNMENT};

static void cache_reset(object_cache_t *cache) { *cache = (object_cache_t){.uses = &never_used}; }

/* Says whether the cache is in the calling thread's block. */
static bool is_own(const object_cache_t *cache) { return (uintptr_t)cache - (uintptr_t)object_caches < sizeof no_caches; }

static void block_reset(object_cache_t *block)
{
  for (size_t i = 0; i < OBJECT_SLOTS; i++)
    cache_reset(&block[i]);
}

/* ---- what the owner does ---- */

void cache_begin_lap(object_pool_t *pool, const uint32_t *uses)
{
  lock_acquire(&pool->lock);
  begin_lap(pool->home, (size_t)(uses - pool->home->uses));
  lock_release(&pool->lock);
}

/* Gives free objects back to the home array, under the pool's lock. */
static void give_positions(object_pool_t *pool, const uint32_t *positions, size_t count)
{
  for (size_t k = 0; k < count; k++)
    put_bit(pool, pool->home, positions[k]);
}

static void give_positions_locked(object_pool_t *pool, const uint32_t *positions, size_t count)
{
  lock_acquire(&pool->lock);
  give_positions(pool, positions, count);
  lock_release(&pool->lock);
}

/* Half of the stock goes back, the half that has been in it for longer. The owner is not busy while it waits for the lock,
 * since another may wait for it meanwhile. */
static void spill(object_pool_t *pool, object_cache_t *cache)
{
  object_stock_t *stock = cache->stock;
  uint32_t positions[OBJECT_STOCK], half = 0;
  cache_become_busy(cache);
  if (!cache_is_claimed(cache)) {
    half = (stock->count + 1) / 2;
    memcpy(positions, stock->positions, half * sizeof *positions);
    STORE(stock->count, stock->count - half);
    memmove(stock->positions, stock->positions + half, stock->count * sizeof *positions);
  }
  cache_leave_hot(cache);
  give_positions_locked(pool, positions, half);
}

/* The thread's cache of the pool as one that can hold something. NULL: the thread ends, or there is no memory, or the pool has
 * no slot just now. */
static object_cache_t *cache_with_stock(object_pool_t *pool);

bool cache_put_rare(object_pool_t *pool, size_t i)
{
  object_cache_t *cache = cache_with_stock(pool);
  if (!cache || !USES_ARE_ODD(pool->home->uses + i))
    return false;
  if (cache->stock->count && cache->stock->count == cache->stock->most)
    spill(pool, cache);
  return cache_put(pool, cache, i);
}

/* Takes more free objects of the home array, from the lowest on. Under the lock. */
static size_t take_positions(object_pool_t *pool, uint32_t *positions, size_t most)
{
  object_array_t *home = pool->home;
  size_t count = min_size(most, (home->capacity - home->taken) / REFILL_PART);
  for (size_t k = 0; k < count;) {
    size_t w = bit_tree_lowest(&home->free) / WORD_BITS;
    uint64_t word = bit_tree_word(&home->free, w), rest = word;
    for (; rest && k < count; rest &= rest - 1)
      positions[k++] = (uint32_t)(w * WORD_BITS + (size_t)__builtin_ctzll(rest));
    bit_tree_clear_bits(&home->free, w, word ^ rest);
  }
  home->taken += (uint32_t)count;
  ADD(pool->taken, count);
  return count;
}

/* The lowest is got first. If another thread reaches for the cache, or a signal handler has filled it meanwhile, they go
 * back. */
static void stock_up(object_pool_t *pool, object_cache_t *cache, const uint32_t *positions, size_t count)
{
  cache_become_busy(cache);
  object_stock_t *stock = cache->stock;
  bool fits = !cache_is_claimed(cache) && !stock->count;
  if (fits) {
    for (size_t k = 0; k < count; k++)
      stock->positions[k] = positions[count - 1 - k];
    STORE(stock->count, (uint32_t)count);
  }
  cache_leave_hot(cache);
  if (!fits)
    give_positions_locked(pool, positions, count);
}

/* The lock of a shared pool, without a look at it first: that would fetch its line twice from the processor that has it. */
static void acquire_contended(lock_t *lock)
{
  if (os_single_threaded())
    lock->word = 1;
  else if (!lock_try(lock))
    lock_wait(lock);
}

void *cache_refill(object_pool_t *pool)
{
  size_t i = 0, count = 0;
  uint32_t positions[OBJECT_STOCK];
  object_cache_t *cache = cache_with_stock(pool);
  acquire_contended(&pool->lock);
  object_array_t *array = take(pool, &i);
  if (cache && array == pool->home)
    count = take_positions(pool, positions, (cache->stock->most + 1) / 2);
  lock_release(&pool->lock);
  if (count)
    stock_up(pool, cache, positions, count);
  return likely(array) ? object_at(pool, array, i) : NULL;
}

/* ---- threads and pools get caches, and lose them ---- */

/* A thread's block comes back at its end, of which it is told only if the heaps know the thread. */
void caches_take_block(void)
{
  if (!heap_reaches_threads() || !heap_watches_thread())
    return;
  lock_acquire(&object_caches_lock);
  object_cache_t *block = unused_blocks;
  if (block)
    unused_blocks = block->hot;
  else
    block = metadata_take(sizeof no_caches, METADATA_ALIGNMENT);
  lock_release(&object_caches_lock);
  if (!block)
    return;
  block_reset(block);
  object_caches = block;
}

/* A stock that waits in the pool's list comes before a new one. It is complete before it enters the list. */
static void stock_make(object_pool_t *pool, object_cache_t *cache)
{
  lock_acquire(&object_caches_lock);
  object_stock_t *stock = pool->stocks;
  while (stock && stock->cache)
    stock = stock->next;
  bool is_new = !stock;
  if (is_new) {
    stock = unused_stocks;
    if (stock)
      unused_stocks = stock->next;
    else
      stock = metadata_take_kind(&stock_records);
  }
  if (stock) {
    stock->most = (uint32_t)min_size(OBJECT_STOCK, pool->home->capacity / STOCK_PART);
    stock->pool = pool;
    STORE(stock->count, 0);
    STORE(stock->cache, cache);
    cache->stock = stock;
  }
  if (stock && is_new) {
    stock->next = pool->stocks;
    __atomic_store_n(&pool->stocks, stock, __ATOMIC_RELEASE);
  }
  lock_release(&object_caches_lock);
}

static object_cache_t *cache_with_stock(object_pool_t *pool)
{
  if (unlikely(object_caches == no_caches))
    caches_take_block();
  object_cache_t *cache = cache_of_pool(pool);
  if (unlikely(object_caches == no_caches || cache == object_caches))
    return NULL;
  if (unlikely(!cache->stock))
    stock_make(pool, cache);
  return cache->stock ? cache : NULL;
}

/* Slot 0 is that of all pools without one. */
void caches_enter_pool(object_pool_t *pool)
{
  static bool ready;
  if (!ready)
    block_reset(no_caches);
  no_caches[0].claimed = ready = true;
  bool fits =
    pool->path == PATH_SHARED && pool->array_count && pool->arrays[0]->permanent && pool->when_full != OBJECT_POOL_EVICT;
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

/* No other thread is in a call with the pool, but those that ask for figures may read the list of stocks (heaps_lock). */
void caches_leave_pool(object_pool_t *pool)
{
  if (!pool->home)
    return;
  lock_acquire(&object_caches_lock);
  for (object_stock_t *stock = pool->stocks, *next; stock; stock = next) {
    next = stock->next;
    if (stock->cache)
      cache_reset(stock->cache);
    stock->next = unused_stocks;
    unused_stocks = stock;
  }
  pool->stocks = NULL;
  lock_release(&object_caches_lock);
  STORE(pool->slot, 0);
  bit_clear(slots_taken, pool->own_slot / sizeof(object_cache_t));
}

/* ---- what is in caches comes back ---- */

size_t caches_count(const object_pool_t *pool)
{
  size_t count = 0;
  for (const object_stock_t *stock = __atomic_load_n(&pool->stocks, __ATOMIC_ACQUIRE); stock; stock = stock->next) {
    const object_cache_t *cache = LOAD(stock->cache);
    count += LOAD(stock->count) + (cache && LOAD(cache->hot_is) != CACHE_NONE);
  }
  return count;
}

/* Gives back what is in a cache whose owner is out of it; of the hot object, only if that is `hot_is`. */
static void flush(object_pool_t *pool, object_stock_t *stock, unsigned hot_is)
{
  object_cache_t *cache = stock->cache;
  lock_acquire(&pool->lock);
  give_positions(pool, stock->positions, stock->count);
  if (LOAD(cache->hot_is) == hot_is) {
    put_bit(pool, pool->home, (size_t)(cache->uses - pool->home->uses));
    STORE(cache->hot_is, CACHE_NONE);
  }
  STORE(stock->count, 0);
  lock_release(&pool->lock);
}

static bool has_any(const object_stock_t *stock)
{
  return stock->cache && (LOAD(stock->count) || LOAD(stock->cache->hot_is) == CACHE_FREE);
}

/* The exchange finds the hot object free at one moment. If its owner was taking it just then, the owner's last store says so
 * (cache.h). */
static bool claim(const object_stock_t *stock)
{
  uint8_t is_free = CACHE_FREE;
  if (!has_any(stock))
    return false;
  __atomic_store_n(&stock->cache->claimed, true, __ATOMIC_SEQ_CST);
  __atomic_compare_exchange_n(&stock->cache->hot_is, &is_free, CACHE_CLAIMED, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return true;
}

/* The hot object that could not be taken is its owner's again, unless the owner has taken it meanwhile. */
static void unclaim(object_cache_t *cache)
{
  uint8_t claimed = CACHE_CLAIMED;
  __atomic_compare_exchange_n(&cache->hot_is, &claimed, CACHE_FREE, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  __atomic_store_n(&cache->claimed, false, __ATOMIC_RELEASE);
}

/* The slot is taken away first, so that little comes into the caches while they are emptied, and nothing soon after. */
static void suspend(object_pool_t *pool)
{
  lock_acquire(&pool->lock);
  pool->gets_without_cache = GETS_WITHOUT_CACHE;
  STORE(pool->slot, 0);
  lock_release(&pool->lock);
}

bool caches_reach(object_pool_t *pool)
{
  bool any = false, others = false;
  lock_acquire(&object_caches_lock);
  for (const object_stock_t *stock = pool->stocks; stock; stock = stock->next)
    if (claim(stock)) {
      any = true;
      others |= !is_own(stock->cache);
    }
  if (others)
    suspend(pool);
  bool fenced = any && (!others || os_fence_others());
  for (object_stock_t *stock = pool->stocks; stock; stock = stock->next) {
    if (!stock->cache || !cache_is_claimed(stock->cache))
      continue;
    if (fenced && lock_flag_clears(&stock->cache->busy))
      flush(pool, stock, CACHE_CLAIMED);
    unclaim(stock->cache);
  }
  lock_release(&object_caches_lock);
  return fenced;
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
    flush(stock->pool, stock, CACHE_FREE);
    STORE(stock->cache, NULL);
  }
  block->hot = unused_blocks;
  unused_blocks = block;
  lock_release(&object_caches_lock);
}

/* One of the lost threads may have had an object in its hands, in no cache and not live. So all objects are looked at, once the
 * thread's own are back. A fork from a handler that interrupted this thread's own get or put leaves them: nobody can say then
 * which of them that call still has. */
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
    flush(pool, own, CACHE_FREE);
  object_array_t *home = pool->home;
  for (size_t i = 0; i < home->capacity; i++)
    if (!bit_tree_test(&home->free, i) && !USES_ARE_ODD(home->uses + i))
      put_bit(pool, home, i);
}
