/* SPDX-License-Identifier: MIT
 *
 * All blocks of a heap end at once. That takes time proportional to its slabs and its large blocks. Small blocks are not
 * visited, unless the heap zeroes on free. */
#ifndef RESET_H
#define RESET_H

#include "heap/heap.h"

void heap_reset(heap_t *heap);

/* The same; for_good: its bins and threads' magazines of it end as well. */
void heap_end_blocks(heap_t *heap, bool for_good);

#endif
