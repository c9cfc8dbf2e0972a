/* SPDX-License-Identifier: MIT
 *
 * A block changes its size. */
#ifndef REALLOCATE_H
#define REALLOCATE_H

#include "heap/allocate.h"
#include "heap/free.h"

/* As pool_realloc with a block and a size, in the heap the block came from. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call);
#if CALLER_IS_TOLD
void *heap_reallocate_for(heap_t *heap, void *block, size_t size, const char *call, const void *caller);
#define heap_reallocate(heap, block, size, call) heap_reallocate_for(heap, block, size, call, __builtin_return_address(0))
#endif
BY_REGISTER bool heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

#endif
