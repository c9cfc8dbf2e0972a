/* SPDX-License-Identifier: MIT
 * Reports blocks that are live when their heap or the program ends. */
#ifndef HEAP_LEAKS_H
#define HEAP_LEAKS_H

#include "heap/heap.h"

/* Writes one line about a heap that is about to be destroyed, if it has live blocks. */
void leaks_at_destroy(heap_t *heap);

/* Writes one line about an object pool that is about to be destroyed, if it has live objects. `created_by` is the return
 * address of the call that created it, or NULL. */
void leaks_of_pool(const char *name, size_t object_size, size_t live, const void *created_by);

/* Writes one line about each heap with blocks that nothing in the process leads to. */
void leaks_at_exit(void);

#endif
