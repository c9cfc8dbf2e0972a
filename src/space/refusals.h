/* SPDX-License-Identifier: MIT
 *
 * A process that lives at its limit needs memory at every few requests, and the system refuses it each time. So the smallest
 * refused size is remembered, and mapping as much fails without a system call. The memory ends when the process unmaps
 * something, and after 64 such answers.
 *
 * The program may have unmapped memory of its own, or raised its limit. So no request returns NULL because of what is
 * remembered: the last attempt forgets it and makes one system call (heap/exhausted.c). */
#ifndef REFUSALS_H
#define REFUSALS_H

#include "os/os.h"

/* os_map_at(), or OS_NO_MEMORY without a system call if as much was refused. */
os_mapped_t refusals_map_at(void *address, size_t size);

/* os_unmap(). If it succeeds, nothing is remembered. */
bool refusals_unmap(void *address, size_t size);

/* Returns whether an attempt was refused without a system call since the last one. */
bool refusals_have_answered(void);

/* Call it before an attempt that must not fail in vain. */
void refusals_forget(void);

#endif
