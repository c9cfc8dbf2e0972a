/* SPDX-License-Identifier: MIT
 * The manager comes up and is forked; heaps are created, reset and destroyed. */
#ifndef HEAP_LIFE_H
#define HEAP_LIFE_H

#include "heap/heap.h"
#include "os/lock.h"
#include <tidepool/heap.h>

/* ---- startup ---- */

/* Brings the process-wide state up, from any thread. Returns false if the system refuses even the least address space. */
COLD bool manager_bring_up(void);
static inline bool manager_ready(void) { return manager_is_up() || manager_bring_up(); }

/* ---- the end ----
 *
 * A thread that found a misuse ends the process, and its last actions may need memory. */

/* The calling thread is about to end the process, maybe in the middle of a call that holds locks. Its allocations come straight
 * from the system, and its frees are ignored. */
extern INTERNAL THREAD_LOCAL bool heap_is_dying;
static inline bool process_is_ending(void) { return unlikely(heap_is_dying); }
void *dying_allocate(size_t size, size_t alignment);
size_t dying_usable_size(const void *block);

/* ---- fork ----
 *
 * A fork finds nothing half done: fork.c takes all locks and closes all gates in nesting order (docs/DESIGN.md). */

/* Held while the process-wide state comes up. */
extern lock_t startup_lock;

/* Registers the fork handlers, once, as early as possible: later handlers run before these in the parent and may allocate.
 * Earlier ones run after these and must neither allocate from the library nor wait for a thread that does. May allocate. */
void fork_watch(void);

/* This process is a child of one that had other threads at the fork. It has inherited their half-done work. */
extern INTERNAL bool fork_lost_threads;

/* ---- create ---- */

/* Returns NULL with EINVAL if options contradict each other or a buffer is too small, or NULL with ENOMEM. */
heap_t *heap_create(const pool_heap_options_t *options);

void heap_destroy(heap_t *heap);

/* ---- reset ----
 *
 * Takes time proportional to the heap's slabs and large blocks. Visits small blocks only to zero them. */

void heap_reset(heap_t *heap);

/* heap_reset(). for_good: its bins and the threads' magazines of it end as well. */
void heap_end_blocks(heap_t *heap, bool for_good);

#endif
