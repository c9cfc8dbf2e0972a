/* SPDX-License-Identifier: MIT
 *
 * Each thread caches free objects of a shared pool, so that its next gets and puts need no lock. One of them is its hot object,
 * which it put last. The others are its stock.
 *
 * A pool has a slot, and a thread has a block with a cache for each slot. All cached objects belong to the pool's home array,
 * which was created with the pool and stays with it. They count as taken in the array. The uses of a taken object say whether
 * it is live. Only the thread that gets or puts it changes them.
 *
 * A get that finds no free object collects the caches of all threads (caches_get()): it claims them (os/lock.h) by emptying the
 * pool's slot, flushes them under the pool's lock, and takes an object for itself. After the claim, threads take free objects
 * only under that lock, and none while the collecting thread holds it. A get that fails has therefore seen a moment at which no
 * object was free.
 *
 * A put of the hot object needs neither `busy` nor a check. It frees an object where none was free, and other threads do not
 * touch that before. All other changes by the owner follow the protocol of a claim.
 *
 * While the pool's slot is 0, each call takes the lock. That is so for some gets after a collection, since the pool may soon be
 * exhausted again. It is also so while an array is unused, as every call then looks at the clock. */
#ifndef CACHE_H
#define CACHE_H

#include "object_pool/array.h"

/* The thread's block of caches. Threads without one have no_caches, which stay empty. */
extern INTERNAL THREAD_LOCAL object_cache_t *object_caches;
extern INTERNAL object_cache_t no_caches[OBJECT_SLOTS];

/* Taken before the lock of any pool and after heaps_lock. It protects blocks and stocks, and one thread at a time collects. */
extern lock_t object_caches_lock;

COLD void caches_take_block(void);
static inline void caches_be_apart(void)
{
  if (unlikely(object_caches == no_caches))
    caches_take_block();
}

/* Returns the calling thread's cache of the pool, which may be one that is always empty. */
static inline object_cache_t *cache_of_pool(const object_pool_t *pool)
{
  return (object_cache_t *)((char *)object_caches + LOAD(pool->slot));
}

/* Takes one instruction less than the compilers' code for an atomic load. */
#if defined __x86_64__ && defined __GCC_ASM_FLAG_OUTPUTS__ && !defined UNDER_SANITIZER
#define CACHE_WORD_IS_SET(compare, word) \
  (__extension__({ \
    bool set_; \
    __asm__ volatile(compare " $0, %1" : "=@ccne"(set_) : "m"(word) : "memory"); \
    set_; \
  }))
#else
#define CACHE_WORD_IS_SET(compare, word) (__atomic_load_n(&(word), __ATOMIC_SEQ_CST) != 0)
#endif
/* The owner must be busy before it asks. */
static inline bool cache_slot_is_empty(const object_pool_t *pool) { return !CACHE_WORD_IS_SET("cmpw", pool->slot); }
static inline bool cache_has_hot(const object_cache_t *cache) { return CACHE_WORD_IS_SET("cmpb", cache->hot_is_free); }

/* cache_leave() ends the owner's work and sets whether the hot object is free; cache_leave_hot() leaves that as it is. */
static inline void cache_leave(object_cache_t *cache, bool hot_is_free)
{
  object_cache_t left = {.busy = false, .hot_is_free = hot_is_free};
  __atomic_store_n(&cache->busy_and_hot, left.busy_and_hot, __ATOMIC_RELEASE);
}
static inline void cache_leave_hot(object_cache_t *cache) { claim_clear_busy(&cache->busy); }

/* Puts the hot object. */
static inline void cache_hot_is_free(object_cache_t *cache) { __atomic_store_n(&cache->hot_is_free, true, __ATOMIC_RELEASE); }

static inline void cache_set_hot(const object_pool_t *pool, object_cache_t *cache, size_t i)
{
  cache->hot = object_at(pool, pool->home, i);
  cache->uses = pool->home->uses + i;
}

/* Gets an object of the stock, which becomes the hot object, live, after no free hot object was found. The owner is busy on
 * entry and not on return. NULL: the stock is empty, or another thread collects. The slot is read first, then the cache. */
static inline void *cache_get(const object_pool_t *pool, object_cache_t *cache)
{
  object_stock_t *stock = cache->stock;
  uint32_t count;
  if (unlikely(cache_slot_is_empty(pool) || cache_has_hot(cache) || !(count = LOAD(stock->count)))) {
    cache_leave_hot(cache);
    return NULL;
  }
  STORE(stock->count, count - 1);
  cache_set_hot(pool, cache, stock->positions[count - 1]);
  start_use(cache->uses);
  void *object = cache->hot;
  cache_leave(cache, false);
  return object;
}

/* Puts the object at position `i` of the home array. It becomes the hot object, and the former one goes to the stock. False:
 * nothing has changed, because the object is not live, there is no room, or another thread collects. What was read before the
 * cache became busy may have changed, so the slot is read first. */
static inline bool cache_put(object_pool_t *pool, object_cache_t *cache, size_t i)
{
  claim_set_busy(&cache->busy);
  object_stock_t *stock = cache->stock;
  bool pushes = false;
  if (unlikely(!stock || cache_slot_is_empty(pool) || ((pushes = cache_has_hot(cache)) && LOAD(stock->count) == stock->most) ||
               !end_use(pool->home->uses + i))) {
    cache_leave_hot(cache);
    return false;
  }
  if (pushes) {
    stock->positions[stock->count] = (uint32_t)(cache->uses - pool->home->uses);
    STORE(stock->count, stock->count + 1);
  }
  cache_set_hot(pool, cache, i);
  cache_leave(cache, true);
  return true;
}

/* Gives the thread a cache, or empties half of its stock, and puts the object. False: nothing was put. */
bool cache_put_rare(object_pool_t *pool, const void *object);

/* Returns the thread's cache of the pool, with a stock. NULL: the slot is 0, the thread ends, or there is no memory. */
object_cache_t *cache_with_stock(object_pool_t *pool);

/* Takes more objects of the home array into the cache, after `object` was taken. Called under the pool's lock. */
void cache_refill(object_pool_t *pool, object_cache_t *cache, const void *object);

/* Gets an object of a pool with a home array, if need be after collecting the caches of all threads. NULL: none was free. A
 * thread that is busy for a second keeps its cache: a signal handler interrupted it, and waits. No lock is held. */
COLD void *caches_get(object_pool_t *pool);

/* Empties caches while an array is unused. Gets would otherwise use that array, not the cached objects of the home array. */
COLD void caches_empty(object_pool_t *pool);

/* Give a new pool a slot, if it can have one, and take back its slot and its caches. Called under heaps_lock. */
void caches_enter_pool(object_pool_t *pool);
void caches_leave_pool(object_pool_t *pool);

/* Called by each thread at its end, with no lock held. */
void caches_end_of_thread(void);

/* In the child of a fork, free the objects that other threads cached, and then their blocks. The locks have been reset. */
void caches_forget_others(object_pool_t *pool);
void caches_forget_blocks(void);

#endif
