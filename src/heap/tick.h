/* SPDX-License-Identifier: MIT
 * Returns memory that is not needed: a little at a time by the clock, all of it when a heap is exhausted or trimmed. */
#ifndef TICK_H
#define TICK_H

#include "heap/heap.h"

/* Called after a thread has used its bins. Looks at the clock now and then, and continues a purge that is under way. */
enum { SLOW_PATHS_PER_LOOK = 8 };
void heap_look_at_clock(thread_t *thread);

/* Grows the thread's allowance or shrinks its caches, which exceed it. */
void heap_fit_allowance(thread_t *thread);
static inline void heap_after_slow_path(thread_t *thread)
{
  if (unlikely(++thread->allowance.slow_paths % SLOW_PATHS_PER_LOOK == 0 || space_purge_is_under_way(&space_of_process)))
    heap_look_at_clock(thread);
}

/* Does all that is due at once, for the background thread. Returns false if time alone would return nothing more. */
bool heap_tick_all(void);

/* The heap at which the round over granules continues; NULL: the first. Under heaps_lock; moves on when that heap ends. */
extern heap_t *heaps_round_at;
void heap_leave_ticks(const heap_t *heap);

/* Returns the heap's cached and idle memory to its space: the caches of all threads if they can be reached, else the calling
 * thread's. Withheld blocks of a checked heap are released too: `call` is named if one was overwritten. Unless `all` goes, the
 * only thread of a process keeps blocks whose return would end no slab. */
void heap_drain(heap_t *heap, const char *call, bool all);

/* Returns idle memory beyond `keep` bytes to the system, the calling thread's magazines first. */
size_t heap_trim(heap_t *heap, size_t keep);

/* Return what an ending thread caches: of the default heap, and of all others. */
void heap_flush_own(thread_t *thread);
void heap_flush_thread(thread_t *thread);

/* Runs before these, without locks. */
void heap_end_of_thread(void);

/* 0: no limit. False: the heap holds more than that even after a trim. */
bool heap_set_budget(heap_t *heap, size_t budget);

#endif
