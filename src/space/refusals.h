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

#include "os/os.h"

/* os_map_at(), or OS_NO_MEMORY without a system call if the thread was refused as much. */
os_mapped_t refusals_map_at(void *address, size_t size);

/* Answers an attempt that leads to such a call and needs nothing else: true means that it is refused. */
bool refusals_answer(size_t size);

/* os_unmap(). If it succeeds, nothing is remembered in any thread. refusals_note_unmap() is for memory that goes otherwise. */
bool refusals_unmap(void *address, size_t size);
void refusals_note_unmap(void);

/* Returns whether an attempt of the thread was refused without a system call since it forgot last. */
bool refusals_have_answered(void);

/* Call it before an attempt that must not fail in vain. */
void refusals_forget(void);

#endif
