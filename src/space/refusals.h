/* SPDX-License-Identifier: MIT
 *
 * A process that lives at its limit needs memory at every few requests, and the system refuses it each time. So each thread
 * remembers the smallest size that it was refused, and mapping as much fails without a system call. The memory ends when any
 * thread unmaps something, and every 64th such attempt makes the call.
 *
 * The program may have unmapped memory of its own, or raised its limit. So no request fails because of what is remembered: the
 * last attempt forgets it and makes one system call (heap/exhausted.c, heap/reallocate.c). The memory is the thread's own: what
 * others are refused, or forget, meanwhile cannot answer for that call. */
#ifndef REFUSALS_H
#define REFUSALS_H

#include "base/machine.h"
#include "os/os.h"

/* os_map_at(), or OS_NO_MEMORY without a system call if the thread was refused as much. */
os_mapped_t refusals_map_at(void *address, size_t size);

/* The process's space was searched in vain for a run, and has counted `changes` so far. refusals_answer() returns whether
 * another search would fail too: for no shorter run, without a change since, and the system would refuse as much. */
extern INTERNAL THREAD_LOCAL uint8_t refusals_searched; /* units of it; 0: more than 255, or none since the thread forgot */
void refusals_note_search(size_t units, uint64_t changes);
bool refusals_answer_search(size_t units, uint64_t changes);
static inline bool refusals_answer(size_t units, uint64_t changes)
{
  return unlikely(refusals_searched) && refusals_answer_search(units, changes);
}

/* os_unmap(). If it succeeds, nothing is remembered in any thread. refusals_note_unmap() is for memory that goes otherwise. */
bool refusals_unmap(void *address, size_t size);
void refusals_note_unmap(void);

/* Returns whether an attempt of the thread was refused without a system call since it forgot last. */
bool refusals_have_answered(void);

/* Call it before an attempt that must not fail in vain. */
void refusals_forget(void);

#endif
