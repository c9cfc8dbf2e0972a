/* SPDX-License-Identifier: MIT
 *
 * A request becomes a block. */
#ifndef ALLOCATE_H
#define ALLOCATE_H

#include "heap/exhausted.h"

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. In a
 * checked heap the block may turn out to have been written to while it was free: `call` is what finds that, here and below. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call);

/* The same where the address that it returns to is not that of the program's call: that is `caller`. */
void *heap_allocate_for(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call, const void *caller);

#if CALLER_IS_TOLD
#define heap_allocate(heap, size, alignment, zero, call) \
  heap_allocate_for(heap, size, alignment, zero, call, __builtin_return_address(0))
#endif

/* The same as heap_allocate() of a request for which a sample was drawn: the block is walled, if that can be had. */
void *heap_allocate_sample(heap_t *heap, size_t size, const char *call, const void *caller);

/* Takes a block from the heap whose turn it is, without a callback. NULL: it has none, which does not count as exhausted; errno
 * stays. */
void *heap_probe(const attempt_t *from, size_t size, size_t alignment);

/* Takes a block of at least `size` bytes for another to move to, but only if that is easy: no callback is called, no overflow
 * asked, and nothing is given back for it. NULL leaves errno as it was. */
void *heap_allocate_if_easy(heap_t *heap, size_t size, const char *call, const void *caller);

/* The same with all resorts. What makes room for another block may make it behind `from`, which then has grown and is the
 * answer. */
void *heap_allocate_from(heap_t *heap, size_t size, located_t *from, bool *grown, const char *call, const void *caller);

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size);

#endif
