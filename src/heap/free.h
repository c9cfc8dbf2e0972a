/* SPDX-License-Identifier: MIT
 *
 * A block comes back. */
#ifndef FREE_H
#define FREE_H

#include "heap/locate.h"

/* Takes back any block of any heap; `call` is what a misuse is put down to. With a heap: a block of it, or of one that it
 * overflows to. */
void heap_free(heap_t *heap, void *block, const char *call);

/* The same where the address that it returns to is not that of the program's call: that is `caller`. */
void heap_free_for(heap_t *heap, void *block, const char *call, const void *caller);

#if CALLER_IS_TOLD
#define heap_free(heap, block, call) heap_free_for(heap, block, call, __builtin_return_address(0))
#endif

/* The same of a block that was looked up. */
void heap_give_back(const located_t *at, const char *call, const void *caller);

/* Ends the program if the caller takes the block for one of another size or alignment than it asked for, where that is known.
 */
void heap_verify_sized(const void *block, size_t size, size_t alignment, const char *call);

/* A block is returned to where it is from, past the caches of threads. */
void heap_give_uncached(const located_t *at, const char *call);

/* Zeroes `size` bytes of a block, or of what holds it, from `from` on. */
void heap_wipe(const located_t *at, char *from, size_t size);

#endif
