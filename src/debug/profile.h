/* SPDX-License-Identifier: MIT
 *
 * A profile: of all bytes that are allocated, each has the same chance to put its block in. Such a block leads to an entry
 * until it is freed (profile_lines.h). Where there is no profile, nothing asks whether there is one: while there is, heaps have
 * `apart` set, and threads count, so that each allocation comes by the slow paths. A thread begins to count at its next slow
 * path, so one that finds all blocks in its magazines does not count until then.
 *
 * What a class serves is put apart, on pages of its own. Its class map says 0, and so each free comes by too, in whatever
 * thread; also when the profile has ended. A run or a mapping leads to its entry by its descriptor.
 *
 * Heaps with a region are in no profile, nor those whose blocks are all apart. */
#ifndef PROFILE_H
#define PROFILE_H

#include "debug/profile_lines.h"
#include "heap/apart.h"
#include "heap/observer.h"

/* The number of the profile that is under way; 0: none is. */
extern INTERNAL uint32_t profile_number;
static inline uint32_t profile_under_way(void) { return __atomic_load_n(&profile_number, __ATOMIC_RELAXED); }

/* The thread counts a request, and begins to count if it has not. True: its block is to enter the profile. */
bool profile_counts(thread_t *thread, size_t size);

/* The thread stops counting, if its profile has ended. True: it does not count any more. */
COLD bool profile_let_go(thread_t *thread);

/* A block apart that is in the profile, of a size that has a class. NULL: there is no memory for it, or no budget. `caller` is
 * where the program's call returns to. */
void *profile_take(heap_t *heap, size_t size, size_t alignment, const char *call, const void *caller, block_past_t *past,
                   size_t *usable);

/* A block that is a run or a mapping enters the profile. */
void profile_note_large(heap_t *heap, void *block, size_t size, const void *caller);

/* It has changed its size where it is: a profile takes it for a new one, and counts it. */
void profile_note_resized(heap_t *heap, void *block, size_t size, const void *caller);

/* A heap that is new, and not for others to see yet, while there is a profile. Under heaps_lock. */
COLD void profile_begin_heap(heap_t *heap);

/* One byte in so many has its block put in the profile. Returns 0, or EBUSY if there is a profile. */
int profile_start(uint64_t sample_bytes);
void profile_stop(void);

/* The same at the start of the process, where an option asks for it. */
void profile_start_first(void);

#endif
