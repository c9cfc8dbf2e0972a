/* SPDX-License-Identifier: MIT
 *
 * The caches that threads have of heaps other than the default one.
 *
 * The magazines of a heap with a budget can be reached while their owner does something else, so that a thread that sleeps
 * keeps nothing back from the others. Their slot says so, and only for them the owner says that it is busy before it looks
 * whether they are still there. It pays no fence for it:
 *
 *     owner                                        another thread, under threads_lock
 *     busy = true                                  the slot is empty, the cache claimed
 *     is the heap's cache in its slot?             a fence in every thread (os_fence_others)
 *       pop or push                                wait until the owner is not busy
 *     busy = false, with release                   flush; the cache is no longer claimed
 *
 * Either the owner's look comes after the fence and finds the slot empty, or its `busy` came before it and is seen. An owner
 * that finds nothing in its slot takes the slow path, and there the lock. (D. Dice, H. Huang, M. Yang, "Asymmetric Dekker
 * synchronization", 2001.) */
#ifndef CACHES_H
#define CACHES_H

#include "thread/types.h"

/* The thread's magazines of a heap, made if need be. NULL: no memory. With `in_slot`, the fast path will find them; with a list
 * others may reach for them. The thread is busy with them from here to thread_leave(). */
magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach);

/* Returns the thread's magazines of the heap. NULL: it has none. Under threads_lock. */
magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap);

/* All caches of the thread; `cache` NULL: the first. NULL: there are no more. Under threads_lock. */
heap_cache_t *thread_next_cache(const thread_t *thread, const heap_cache_t *cache);

/* Only caches that were entered since they were last found empty are due: a thread may have used very many heaps. A tick begins
 * with all of those; thread_tick_caches() calls `tick` with up to `most` of those that are left, under threads_lock. By their
 * thread. */
typedef void threads_visit_fn(magazines_t *magazines, struct pool_heap *heap);
void thread_begin_tick(thread_t *thread);
static inline bool thread_tick_is_under_way(const thread_t *thread) { return thread->due_left != 0; }
void thread_tick_caches(thread_t *thread, unsigned most, threads_visit_fn *tick);

/* The thread sanitizer does not know of the fence, so it is shown a stronger order. */
#ifdef UNDER_SANITIZER
#define BUSY_ORDER __ATOMIC_SEQ_CST
#else
#define BUSY_ORDER __ATOMIC_RELAXED
#endif
static inline void thread_set_busy(thread_t *thread)
{
  __atomic_store_n(&thread->busy, true, BUSY_ORDER);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void thread_leave(thread_t *thread) { __atomic_store_n(&thread->busy, false, __ATOMIC_RELEASE); }

/* Says whether the heap's cache is in its slot. Nobody takes it away while the thread is in a call with the heap. */
static inline bool thread_has_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return OWNER_LOAD(thread->heap_at[cache_slot_of(heap)]) == heap;
}

/* The same for a heap whose magazines others may reach for. The thread must be busy before it looks. */
static inline bool thread_has_within_reach(const thread_t *thread, const struct pool_heap *heap)
{
  return __atomic_load_n(&thread->heap_at[cache_slot_of(heap)], BUSY_ORDER) == within_reach(heap);
}

/* Says whether the slot is the heap's in either way, and the thread does not count. A heap of whose blocks more is to be known
 * than a magazine says has none.
 */
static inline bool thread_has_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return thread_has_in_slot(thread, heap) || thread_has_within_reach(thread, heap);
}

/* The fast paths find no heap in any slot from now on, until each was entered again. */
void thread_empty_slots(thread_t *thread);

/* Empties those of every other thread that may have something in them, whatever it does; one that does not come out of them
 * soon is left out. `flush` takes everything. It costs what there is to look at: a heap that stays exhausted looks at nothing
 * again. */
void threads_reach(reach_list_t *reach, threads_visit_fn *flush);

/* Flushes the caches within reach, of the threads of a list, that were not used during the last `looks` calls of this function.
 * Returns whether a cache with something in it is left. Under threads_lock. */
bool threads_reach_unused_of(thread_t *first, unsigned looks, threads_visit_fn *flush);

/* Says whether that can be done at all: the system may have no such fence. */
extern bool threads_can_be_reached;

/* These act on one thread, under threads_lock. thread_visit_cache() visits its magazines of the heap; with `forget` the heap
 * ends, and the cache goes. thread_drop_cache() is for a lost thread: what it has cached of the heap does not count any more.
 * thread_forget_caches() is for a thread that ends. */
void thread_visit_cache(thread_t *thread, struct pool_heap *heap, bool forget, threads_visit_fn *visit);
void thread_drop_cache(thread_t *thread, struct pool_heap *heap, bool forget);
void thread_forget_caches(thread_t *thread);

#endif
