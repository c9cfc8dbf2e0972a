/* SPDX-License-Identifier: MIT
 *
 * Pages for blocks that are few and small and are to lie by themselves: away from the blocks of slabs, and from the manager's
 * own records. They are of one stretch of addresses, which is no part of the window. The lowest that are free are taken first.
 */
#ifndef PAGES_H
#define PAGES_H

#include "base/bits.h"
#include "os/lock.h"

/* NULL: no memory, or all are taken. *zeroed: they read as zero. */
void *sample_pages_take(size_t bytes, bool *zeroed);
void sample_pages_give(void *start, size_t bytes);

/* Gives the memory of free pages back to the system, and returns how many bytes that were. */
size_t sample_pages_trim(void);

/* How many bytes of memory free pages have. */
size_t sample_pages_kept(void);

/* The stretch. *bytes is 0 while there is none. */
char *sample_pages_stretch(size_t *bytes);

extern lock_t sample_pages_lock;

#endif
