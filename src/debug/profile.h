/* SPDX-License-Identifier: MIT
 *
 * A profile samples bytes: each allocated byte puts its block into the profile with the same probability. Such a block has an
 * entry until it is freed (profile_lines.h). Allocation paths pay nothing without a profile. During one, heaps have `apart` set
 * and threads count, so that every allocation takes a slow path. A thread begins to count at its next slow path, so it does not
 * count while its magazines serve all its requests.
 *
 * Sampled blocks that have a class lie apart, on pages of their own. Their class map says 0, so every free of them takes the
 * slow path, in any thread, even after the profile has ended. The descriptor of a run or a mapping leads to its entry.
 *
 * Profiles omit heaps with a region, and heaps whose blocks are all apart. */
#ifndef PROFILE_H
#define PROFILE_H

#include "debug/profile_lines.h"
#include "heap/apart.h"
#include "heap/observer.h"

/* The number of the current profile; 0: none. */
extern INTERNAL uint32_t profile_number;
static inline uint32_t profile_under_way(void) { return __atomic_load_n(&profile_number, __ATOMIC_RELAXED); }

/* Counts a request, after starting to count if needed. Returns true if its block has to enter the profile. */
bool profile_counts(thread_t *thread, size_t size);

/* Stops the thread's counting if its profile has ended. Returns true if the thread does not count any more. */
COLD bool profile_let_go(thread_t *thread);

/* Returns a block apart that is in the profile, for a size that has a class. `caller` is the return address of the program's
 * call. Returns NULL if there is no memory or no budget. */
void *profile_take(heap_t *heap, size_t size, size_t alignment, const char *call, const void *caller, block_past_t *past,
                   size_t *usable);

void profile_note_large(heap_t *heap, void *block, size_t size, const void *caller);

/* Counts a block that was resized in place as a new one. */
void profile_note_resized(heap_t *heap, void *block, size_t size, const void *caller);

/* Called for a new heap during a profile, before other threads see it. Under heaps_lock. */
COLD void profile_begin_heap(heap_t *heap);

/* Samples one byte in `sample_bytes`. Returns 0, or EBUSY if there is a profile. */
int profile_start(uint64_t sample_bytes);
void profile_stop(void);

/* profile_start() at the start of the process, if an option asks for it. */
void profile_start_first(void);

#endif
