/* SPDX-License-Identifier: MIT
 * A thread that found a misuse ends the process, and its last actions may need memory. */
#ifndef DYING_H
#define DYING_H

#include "base/bits.h"
#include "base/features.h"
#include "os/thread_local.h"

/* The calling thread is about to end the process, maybe in the middle of a call that holds locks. Its allocations come straight
 * from the system, and its frees are ignored. */
extern INTERNAL THREAD_LOCAL bool heap_is_dying;
static inline bool process_is_ending(void) { return HAS_SYSTEM && unlikely(heap_is_dying); }
void *dying_allocate(size_t size, size_t alignment);
size_t dying_usable_size(const void *block);

#endif
