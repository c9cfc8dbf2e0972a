/* SPDX-License-Identifier: MIT
 *
 * A block changes its size. */
#ifndef REALLOCATE_H
#define REALLOCATE_H

#include "heap/allocate.h"
#include "heap/free.h"

/* As pool_realloc with a block and a size, in the heap the block came from. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call);
bool heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

#endif
