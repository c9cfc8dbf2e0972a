/* SPDX-License-Identifier: MIT
 *
 * What a thread keeps of a shared pool: free objects, for which its next gets and puts need no lock. One of them is its hot
 * object, the one that it put last; the others are its stock.
 *
 * A pool has a slot, and each thread a block with a cache for each slot. All objects in a cache are the pool's home array's,
 * the one that was made with it and stays with it. They count as taken in their array. Whether a taken object is live is said
 * by its uses, which are odd while it is; whoever gets or puts it changes them, and nobody else has it then.
 *
 * A pool that is exhausted looks for its objects in the caches of others (caches_reach()). The owner pays no fence for that:
 *
 *     owner, in a get                              another thread, under object_caches_lock
 *     busy = 1                                     claimed = true, hot_is: CACHE_FREE becomes CACHE_CLAIMED
 *     is there a hot object that is free?          a fence in every thread (os_fence_others)
 *       it is taken                                wait until the owner is not busy
 *     busy = 0 and hot_is = CACHE_NONE             flush the stock, and the hot object if it is CACHE_CLAIMED still
 *                                                  claimed = false
 *
 * Either the owner's look comes after the fence and finds no hot object that is free, or its `busy` came before it and is seen;
 * then what it stores at its end tells that it took the object. A put of the object that is hot already needs no `busy`: it
 * finds it live, so no other thread wants it, and one that claims the stock does not touch it. What else an owner does with its
 * cache it does while it is busy, and not if the cache is claimed.
 *
 * While the pool's slot is 0 nobody finds a cache, and each call takes the lock: after a reach for some gets, since the pool
 * may well be exhausted again, and while an array is unused, because then every call has to look at the clock. */
#ifndef CACHE_H
#define CACHE_H

#include "object_pool/hot.h"

/* What object_cache_t.hot_is says of the hot object. */
enum { CACHE_NONE = 0, CACHE_FREE = 1, CACHE_CLAIMED = 2 };

/* The thread's block of caches. Threads without one find no_caches, in which nothing ever is. */
extern INTERNAL THREAD_LOCAL object_cache_t *object_caches;
extern INTERNAL object_cache_t no_caches[OBJECT_SLOTS];
COLD void caches_take_block(void);

/* Taken before the lock of any pool, and after heaps_lock. Under it threads get and lose caches, and one reaches for those of
 * others. */
extern lock_t object_caches_lock;

/* The calling thread's cache of the pool. It may be one that is always empty. */
static inline object_cache_t *cache_of_pool(const object_pool_t *pool)
{
  return (object_cache_t *)((char *)object_caches + LOAD(pool->slot));
}

static inline void cache_become_busy(object_cache_t *cache)
{
  __atomic_store_n(&cache->busy, true, BUSY_ORDER);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* One instruction less than what the compilers make of an atomic load. */
static inline bool cache_has_hot(const object_cache_t *cache)
{
#if defined __x86_64__ && defined __GCC_ASM_FLAG_OUTPUTS__ && !defined UNDER_SANITIZER
  bool has;
  __asm__ volatile("cmpb %2, %1" : "=@cce"(has) : "m"(cache->hot_is), "i"(CACHE_FREE));
  return has;
#else
  return __atomic_load_n(&cache->hot_is, BUSY_ORDER) == CACHE_FREE;
#endif
}

/* The owner is not busy any more. The first says what has become of the hot object, the second leaves it as it is. */
static inline void cache_leave(object_cache_t *cache, unsigned hot_is)
{
  object_cache_t left = {.busy = false, .hot_is = (uint8_t)hot_is};
  __atomic_store_n(&cache->busy_and_hot, left.busy_and_hot, __ATOMIC_RELEASE);
}
static inline void cache_leave_hot(object_cache_t *cache) { __atomic_store_n(&cache->busy, false, __ATOMIC_RELEASE); }

/* The uses of an object of the home array are 0 again: begin_lap() under the pool's lock. */
COLD void cache_begin_lap(object_pool_t *pool, const uint32_t *uses);

/* A put of the hot object. */
static inline void cache_hot_is_free(object_cache_t *cache) { __atomic_store_n(&cache->hot_is, CACHE_FREE, __ATOMIC_RELEASE); }

static inline bool cache_is_claimed(const object_cache_t *cache) { return __atomic_load_n(&cache->claimed, __ATOMIC_SEQ_CST); }
static inline unsigned cache_hot_is(const object_cache_t *cache) { return __atomic_load_n(&cache->hot_is, __ATOMIC_SEQ_CST); }

static inline void cache_set_hot(const object_pool_t *pool, object_cache_t *cache, size_t i)
{
  cache->hot = object_at(pool, pool->home, i);
  cache->uses = pool->home->uses + i;
}

/* A get that has found no hot object: one of the stock, which becomes the hot one, but live. The owner is busy on entry, and no
 * more on return. NULL: the stock is empty, or another thread reaches for it. A claim may have come to nothing, and the hot
 * object be free again; so what was not CACHE_FREE need not be CACHE_NONE. */
static inline void *cache_get(const object_pool_t *pool, object_cache_t *cache)
{
  object_stock_t *stock = cache->stock;
  if (unlikely(!stock || !stock->count || cache_hot_is(cache) != CACHE_NONE || cache_is_claimed(cache))) {
    cache_leave_hot(cache);
    return NULL;
  }
  STORE(stock->count, stock->count - 1);
  cache_set_hot(pool, cache, stock->positions[stock->count]);
  USES_STEP(cache->uses);
  void *object = cache->hot;
  cache_leave(cache, CACHE_NONE);
  return object;
}

/* A put of an object at position `i` of the home array, which becomes the hot one; the one before goes to the stock. False:
 * nothing has changed, because the object is not live, or there is no room. */
static inline bool cache_put(object_pool_t *pool, object_cache_t *cache, size_t i)
{
  cache_become_busy(cache);
  object_stock_t *stock = cache->stock;
  unsigned hot_is = cache_hot_is(cache);
  bool pushes = hot_is == CACHE_FREE;
  if (unlikely(!stock || hot_is == CACHE_CLAIMED || cache_is_claimed(cache) || !USES_ARE_ODD(pool->home->uses + i) ||
               (pushes && stock->count == stock->most))) {
    cache_leave_hot(cache);
    return false;
  }
  if (pushes) {
    stock->positions[stock->count] = (uint32_t)(cache->uses - pool->home->uses);
    STORE(stock->count, stock->count + 1);
  }
  cache_set_hot(pool, cache, i);
  bool lap = USES_STEP_TO_0(cache->uses);
  cache_leave(cache, CACHE_FREE);
  if (unlikely(lap))
    cache_begin_lap(pool, pool->home->uses + i);
  return true;
}

/* A put that found no room, or no cache: the thread gets a cache, or half of its stock goes back. False: the object cannot be
 * put there. */
bool cache_put_rare(object_pool_t *pool, size_t i);

/* Gets an object from the pool, and some more for the cache. NULL: there is no free one. */
void *cache_refill(object_pool_t *pool);

/* Gives all that threads have in caches back to the pool. False: that was nothing. A thread that stays busy, because a signal
 * handler has interrupted it and waits, keeps what it has. Called with no lock held. */
COLD bool caches_reach(object_pool_t *pool);

/* Gives the pool a slot, if it can have one, before another thread knows of it; and takes the slot away, with what is in
 * caches. Under heaps_lock. */
void caches_enter_pool(object_pool_t *pool);
void caches_leave_pool(object_pool_t *pool);

/* Gives a thread without a block one of its own. Otherwise those that use pools without caches would all write to the same line
 * of no_caches, whose first cache is claimed for ever. */
static inline void caches_be_apart(void)
{
  if (unlikely(object_caches == no_caches))
    caches_take_block();
}
static inline bool cache_is_apart(const object_cache_t *first) { return !first->claimed; }

/* Called at the end of each thread, by itself, with no lock held. */
void caches_end_of_thread(void);

/* In the child of a fork: what other threads had in caches is free again. The locks are held, or reset. */
void caches_forget_others(object_pool_t *pool);

#endif
