/* SPDX-License-Identifier: MIT
 *
 * What a thread keeps of a shared pool: free objects, for which its next gets and puts need no lock. One of them is its hot
 * object, the one that it put last; the others are its stock.
 *
 * A pool has a slot, and each thread a block with a cache for each slot. All objects in a cache are the pool's home array's,
 * the one that was made with it and stays with it. They count as taken in their array. Whether a taken object is live is said
 * by its uses; whoever gets or puts it changes them, and nobody else has it then.
 *
 * A pool without a free object looks for some in the caches of all threads (caches_get()). Their owners pay no fence for
 * that:
 *
 *     owner, who gets                              another thread, under object_caches_lock
 *     busy = true                                  all caches of the pool are claimed
 *     is the cache claimed?                        a fence in every thread (os_fence_others)
 *       no: an object is taken from it             wait until no owner is busy
 *     busy = false                                 under the pool's lock: flush all, take one for itself
 *                                                  no cache is claimed any more
 *
 * Either the owner's look comes after the fence and finds its cache claimed, or its `busy` came before it and is seen. So from
 * the end of the wait on nobody can take a free object but under the pool's lock, and while that is held nobody can at all. An
 * object that is free when it is taken is therefore found, and where none is, none was free at that moment.
 *
 * A put of the object that is hot needs neither `busy` nor a look: it makes an object free where there was none, and that is
 * not touched by others before. All else an owner does to its cache it does as a get.
 *
 * While the pool's slot is 0 no cache is looked at, and each call takes the lock: after a reach for some gets, since the pool
 * may well be exhausted again, and while an array is unused, because then every call has to look at the clock. */
#ifndef CACHE_H
#define CACHE_H

#include "object_pool/hot.h"

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
#if defined __x86_64__ && defined __GCC_ASM_FLAG_OUTPUTS__ && !defined UNDER_SANITIZER
#define CACHE_FLAG(flag) \
  (__extension__({ \
    bool set_; \
    __asm__ volatile("cmpb $0, %1" : "=@ccne"(set_) : "m"(flag) : "memory"); \
    set_; \
  }))
#else
#define CACHE_FLAG(flag) __atomic_load_n(&(flag), __ATOMIC_SEQ_CST)
#endif
static inline bool cache_is_claimed(const object_cache_t *cache) { return CACHE_FLAG(cache->claimed); }
static inline bool cache_has_hot(const object_cache_t *cache) { return CACHE_FLAG(cache->hot_is_free); }

/* The owner is not busy any more. The first says what has become of the hot object, the second leaves it as it is. */
static inline void cache_leave(object_cache_t *cache, bool hot_is_free)
{
  object_cache_t left = {.busy = false, .hot_is_free = hot_is_free};
  __atomic_store_n(&cache->busy_and_hot, left.busy_and_hot, __ATOMIC_RELEASE);
}
static inline void cache_leave_hot(object_cache_t *cache) { __atomic_store_n(&cache->busy, false, __ATOMIC_RELEASE); }

/* A put of the hot object. */
static inline void cache_hot_is_free(object_cache_t *cache) { __atomic_store_n(&cache->hot_is_free, true, __ATOMIC_RELEASE); }

static inline void cache_set_hot(const object_pool_t *pool, object_cache_t *cache, size_t i)
{
  cache->hot = object_at(pool, pool->home, i);
  cache->uses = pool->home->uses + i;
}

/* A get that has found no hot object: one of the stock, which becomes the hot one, but live. The owner is busy on entry, and no
 * more on return. NULL: the stock is empty, or another thread reaches for it. What is in the cache is looked at last. */
static inline void *cache_get(const object_pool_t *pool, object_cache_t *cache)
{
  object_stock_t *stock = cache->stock;
  uint32_t count;
  if (unlikely(cache_is_claimed(cache) || cache_has_hot(cache) || !(count = LOAD(stock->count)))) {
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

/* A put of an object at position `i` of the home array, which becomes the hot one; the one before goes to the stock. False:
 * nothing has changed, because the object is not live, there is no room, or another thread reaches for the cache. That is
 * asked first, as in a get: what was seen before may be gone. */
static inline bool cache_put(object_pool_t *pool, object_cache_t *cache, size_t i)
{
  cache_become_busy(cache);
  object_stock_t *stock = cache->stock;
  bool pushes = false;
  if (unlikely(!stock || cache_is_claimed(cache) || ((pushes = cache_has_hot(cache)) && LOAD(stock->count) == stock->most) ||
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

/* A put that found no room, or no cache: the thread gets a cache, or half of its stock goes back. False: the object cannot be
 * put there. */
bool cache_put_rare(object_pool_t *pool, size_t i);

/* Gets an object from the pool, and some more for the cache. NULL: there is no free one. */
void *cache_refill(object_pool_t *pool);

/* Takes an object of a pool with a home; if no array has a free one, all that threads have in caches comes back first. NULL:
 * none was free. A thread that does not come out of its cache for a second, because a signal handler has interrupted it there
 * and waits, keeps what it has. Called with no lock held. */
COLD void *caches_get(object_pool_t *pool);

/* Gives back what is in caches. While an array is unused: else gets would go to that, with free objects of the home array
 * in caches, and it would not stay unused. */
COLD void caches_empty(object_pool_t *pool);

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

/* In the child of a fork: what other threads had in caches is free again, and then their blocks are unused. The locks are
 * reset. */
void caches_forget_others(object_pool_t *pool);
void caches_forget_blocks(void);

#endif
