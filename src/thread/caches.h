/* SPDX-License-Identifier: MIT
 *
 * The threads' caches of heaps other than the default one.
 *
 * Other threads can flush the magazines of a heap with a budget, so that a sleeping thread withholds nothing (claim.h). The
 * slots of such heaps are marked, and the owner declares itself busy before it checks that the heap is still in its slot. An
 * owner that finds its slot empty takes threads_lock, under which all claims are made, and fills the slot. */
#ifndef CACHES_H
#define CACHES_H

#include "thread/types.h"

/* Returns the thread's magazines of a heap, which are created if needed; NULL if there is no memory. With `in_slot` the fast
 * path will find them; with `reach` other threads may flush them. The thread is busy with them until thread_leave(). */
magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach);

/* Returns the thread's magazines of the heap; NULL if there are none. Called under threads_lock. */
magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap);

/* Returns the next cache of the thread, or the first if `cache` is NULL; NULL at the end. Called under threads_lock. */
heap_cache_t *thread_next_cache(const thread_t *thread, const heap_cache_t *cache);

/* Only caches that were entered since they were last found empty are due, because a thread may have used many heaps. A tick
 * visits all due caches, up to `most` in each call, under threads_lock. Only the thread itself calls these. */
typedef void threads_visit_fn(magazines_t *magazines, struct pool_heap *heap);
void thread_begin_tick(thread_t *thread);
static inline bool thread_tick_is_under_way(const thread_t *thread) { return thread->due_left != 0; }
void thread_tick_caches(thread_t *thread, unsigned most, threads_visit_fn *tick);

static inline void thread_set_busy(thread_t *thread) { claim_set_busy(&thread->busy); }
static inline void thread_leave(thread_t *thread) { claim_clear_busy(&thread->busy); }

/* Returns whether the heap's cache is in its slot. No other thread removes it while this thread is in a call with the heap. */
static inline bool thread_has_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return OWNER_LOAD(thread->heap_at[cache_slot_of(heap)]) == heap;
}

/* Returns whether the cache of a heap within reach is in its slot. The thread must be busy before the call. */
static inline bool thread_has_within_reach(const thread_t *thread, const struct pool_heap *heap)
{
  return __atomic_load_n(&thread->heap_at[cache_slot_of(heap)], CLAIM_ORDER) == within_reach(heap);
}

/* Returns whether the slot is the heap's in either way, and the thread does not count. Heaps without a cache slot never have
 * one. */
static inline bool thread_has_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return thread_has_in_slot(thread, heap) || thread_has_within_reach(thread, heap);
}

/* Empties all slots, so that the fast paths find no heap until it is entered again. */
void thread_empty_slots(thread_t *thread);

/* Flushes the heap's caches of all other threads by `flush`, whatever those threads do. A thread that stays busy is skipped.
 * The cost is proportional to the caches that may have blocks, so a heap that stays exhausted visits none again. */
void threads_reach(reach_list_t *reach, threads_visit_fn *flush);

/* Flushes the caches within reach of a list of threads that were not used during the last `looks` calls of this function.
 * Returns whether a cache with magazines is left. Called under threads_lock. */
bool threads_reach_unused_of(thread_t *first, unsigned looks, threads_visit_fn *flush);

/* The system has the fence that reaching into other threads needs. */
extern bool threads_can_be_reached;

/* These act on one thread, under threads_lock. thread_visit_cache() visits its magazines of the heap; with `forget` the heap
 * ends, and the cache is removed. thread_drop_cache() is for a lost thread, whose cached blocks of the heap no longer count.
 * thread_forget_caches() is for a thread that ends. */
void thread_visit_cache(thread_t *thread, struct pool_heap *heap, bool forget, threads_visit_fn *visit);
void thread_drop_cache(thread_t *thread, struct pool_heap *heap, bool forget);
void thread_forget_caches(thread_t *thread);

#endif
