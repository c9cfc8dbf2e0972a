/* SPDX-License-Identifier: MIT
 *
 * The manager comes up and is forked; heaps are created, reset and destroyed. */
#ifndef HEAP_LIFE_H
#define HEAP_LIFE_H

#include "heap/heap.h"
#include "os/lock.h"
#include <tidepool/heap.h>

/* ---- startup ----
 *
 * The process-wide state comes up, once. */

/* Brings it up at the first call. False: the system refuses even the least address space. Any thread, at any time. */
COLD bool manager_bring_up(void);
static inline bool manager_ready(void) { return manager_is_up() || manager_bring_up(); }

/* ---- fork ----
 *
 * A fork finds nothing half done. fork.c takes all locks and closes all gates, in the order in which they nest: docs/DESIGN.md,
 * The order of locks. */

/* Held while the process-wide state comes up. */
extern lock_t startup_lock;

/* Registers the fork handlers, once. Called as early as can be: handlers that are registered later run before these in the
 * parent, and may allocate. Handlers that a program registered before it opened the library run after these. They must neither
 * allocate from the library nor wait for a thread that does. May allocate itself. */
void fork_watch(void);

/* The process is a child of one that had other threads at the fork: it has what they had in their hands, half done. */
extern INTERNAL bool fork_lost_threads;

/* ---- create ----
 *
 * A heap from its options, and its end. */

/* NULL + EINVAL: options that contradict each other, a buffer too small. NULL + ENOMEM. */
heap_t *heap_create(const pool_heap_options_t *options);

void heap_destroy(heap_t *heap);

/* ---- reset ----
 *
 * All blocks of a heap end at once. That takes time proportional to its slabs and its large blocks. Small blocks are not
 * visited, unless the heap zeroes on free. */

void heap_reset(heap_t *heap);

/* The same; for_good: its bins and threads' magazines of it end as well. */
void heap_end_blocks(heap_t *heap, bool for_good);

#endif
