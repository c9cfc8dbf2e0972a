/* SPDX-License-Identifier: MIT
 *
 * Blocks that are live when their heap ends, or the program. */
#ifndef HEAP_LEAKS_H
#define HEAP_LEAKS_H

#include "heap/heap.h"

/* One line of a heap that is about to be destroyed, if a block of it is live and the option asks for it. */
void leaks_at_destroy(heap_t *heap);

/* One line of each heap that has blocks which nothing in the process leads to any more. */
void leaks_at_exit(void);

#endif
