/* SPDX-License-Identifier: MIT
 *
 * Pages for few and small blocks that lie apart from the blocks of slabs and from the manager's records. They are in one
 * stretch of addresses outside the window. The lowest free ones are taken first. */
#ifndef SAMPLE_PAGES_H
#define SAMPLE_PAGES_H

#include "base/bits.h"
#include "os/lock.h"

/* *zeroed: the pages read as zero. NULL: no memory, or all pages are taken. */
void *sample_pages_take(size_t bytes, bool *zeroed);
void sample_pages_give(void *start, size_t bytes);

/* Returns the memory of free pages to the system, and its bytes. */
size_t sample_pages_trim(void);

size_t sample_pages_kept(void);

/* Returns the stretch; *bytes is 0 while there is none. */
char *sample_pages_stretch(size_t *bytes);

extern lock_t sample_pages_lock;

#endif
