/* SPDX-License-Identifier: MIT
 *
 * A profile samples bytes: each allocated byte puts its block into the profile with the same probability. Such a block has an
 * entry until it is freed (profile_lines.h). Allocation paths pay nothing without a profile. During one, heaps have `take` set
 * and threads count, so that every allocation takes a slow path. A thread begins to count at its next slow path, so it does not
 * count while its magazines serve all its requests.
 *
 * Sampled blocks that have a class lie apart, on pages of their own. Their class map says 0, so every free of them takes the
 * slow path, in any thread, even after the profile has ended. The descriptor of a run or a mapping leads to its entry.
 *
 * Profiles omit heaps with a region, and heaps whose blocks are all standalone. */
#ifndef PROFILE_H
#define PROFILE_H

#include "debug/profile_lines.h"
#include "heap/debug_hooks.h"
#include "heap/large.h"

/* The number of the current profile; 0: none. */
extern INTERNAL uint32_t profile_number;
static inline uint32_t profile_under_way(void) { return __atomic_load_n(&profile_number, __ATOMIC_RELAXED); }

/* Stops the thread's counting if its profile has ended. Returns true if the thread does not count any more. */
COLD bool profile_let_go(thread_t *thread);

/* Counts a block that was resized in place as a new one. */
void profile_note_resized(heap_t *heap, void *block, size_t size, const void *caller);

/* Decides whether the heap draws samples or counts its blocks. Called for a new heap before other threads see it, or under
 * heaps_lock. */
void profile_watch_heap(heap_t *heap);

/* Samples one byte in `sample_bytes`. Returns 0, or EBUSY if there is a profile. */
int profile_start(uint64_t sample_bytes);
void profile_stop(void);

/* profile_start() at the start of the process, if an option asks for it. */
void profile_start_first(void);

#endif
