/* SPDX-License-Identifier: MIT
 *
 * Giving back what is not needed: some of it now and then by the clock, all of it when a heap is exhausted or trimmed. */
#ifndef TICK_H
#define TICK_H

#include "heap/heap.h"

/* Called whenever a thread has been at its bins: now and then it lets go of what was not needed lately, and each time it goes
 * on with a purge that is under way. */
enum { SLOW_PATHS_PER_LOOK = 8 };
void heap_look_at_clock(thread_t *thread);
static inline void heap_after_slow_path(thread_t *thread)
{
  if (unlikely(++thread->slow_paths % SLOW_PATHS_PER_LOOK == 0 || space_purge_is_under_way(&space_of_process)))
    heap_look_at_clock(thread);
}

/* Does all that is due at once, for the thread that returns memory. False: there is nothing left that time alone would
 * return. */
bool heap_tick_all(void);

/* Where the round over heaps that may have granules goes on; NULL: at the first heap. Under heaps_lock, under which a heap that
 * leaves the list is passed. */
extern heap_t *heaps_round_at;
void heap_leave_ticks(const heap_t *heap);

/* What the heap has cached and idle goes back to its space: of all threads where they can be reached, else of the calling
 * one. What was kept of a checked heap goes too, and `call` is what finds that it was written to. */
void heap_drain(heap_t *heap, const char *call);

/* Gives idle memory beyond `keep` bytes back, the calling thread's magazines first. */
size_t heap_trim(heap_t *heap, size_t keep);

/* Everything that a thread holds goes back, of all heaps. */
void heap_flush_own(thread_t *thread);
void heap_flush_thread(thread_t *thread);

/* Comes before that, with no lock held. */
void heap_end_of_thread(void);

/* 0: none. False: more than that is held, also after a trim. */
bool heap_set_budget(heap_t *heap, size_t budget);

#endif
