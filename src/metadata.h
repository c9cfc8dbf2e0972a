/* SPDX-License-Identifier: MIT
 *
 * Memory for the manager's own records: magazines, the state of threads, heaps. It is taken from the system in chunks and
 * never given back; each kind of record keeps its own list of those that can be used again. */
#ifndef METADATA_H
#define METADATA_H

#include "base/bits.h"
#include "os/lock.h"

/* Zeroed, aligned to `alignment` (a power of two up to a page). NULL: no memory. */
void *metadata_take(size_t size, size_t alignment);

/* Bytes taken so far. */
size_t metadata_bytes(void);

extern lock_t metadata_lock;

#endif
