/* SPDX-License-Identifier: MIT
 *
 * tidepool/hooks.h: functions in the form of malloc and its family, for a library that hands its memory hooks no context.
 *
 *     POOL_HOOKS(frob)
 *     ...
 *     pool_frob_heap = heap;
 *     frob_set_allocator(pool_frob_malloc, pool_frob_realloc, pool_frob_free);
 *
 * POOL_HOOKS(NAME) defines the pointer pool_NAME_heap and the functions pool_NAME_malloc, _calloc, _realloc, _free and _strdup.
 * The adapters of such libraries are made of it, and this holds for all of them:
 *
 * - Requests of size 0 end as with glibc: malloc and calloc return a unique block, realloc frees the block and returns NULL. A
 *   product that overflows is NULL. Blocks are aligned to 16. Success leaves errno alone; failure sets ENOMEM.
 * - A block is resized and freed in the heap it came from. So the heap may be replaced by another while the library has blocks
 *   of the first, which then has to live as long as these; and two files of a program may both install one. The heap's `memory`
 *   must not be, or be in, a block of up to 32 KiB of the default heap.
 * - Install before any other call of the library. Where the library does not refuse a later one itself, and frees a block that
 *   it had from the C library, the program ends with a line of tidepool, "not a block of any heap", and abort().
 * - Destroy the heap when the library has freed everything and its threads have ended, or not at all. What it asks for later
 *   ends the program with one line, where this is seen.
 * - The heap must not be POOL_HEAP_SINGLE_THREAD unless one thread alone uses the library. Some libraries start threads.
 * - Set the pointer while no other thread is in the library. After a fork the child goes on with its copy of the heap.
 * - on_exhausted runs within the library, which may hold locks or be half way through a change: do not call the library there.
 * - Without a heap every request fails. */
#ifndef TIDEPOOL_HOOKS_H
#define TIDEPOOL_HOOKS_H

#include <string.h>
#include <tidepool/heap.h>

/* One of them may not be needed. */
#define POOL_HOOK static inline __attribute__((unused))

#define POOL_HOOKS(NAME) \
  static pool_heap_t *pool_##NAME##_heap; \
  POOL_HOOK void *pool_##NAME##_malloc(size_t size) { return pool_heap_alloc(pool_##NAME##_heap, size); } \
  POOL_HOOK void *pool_##NAME##_calloc(size_t count, size_t size) \
  { \
    return pool_heap_calloc(pool_##NAME##_heap, count, size); \
  } \
  POOL_HOOK void *pool_##NAME##_realloc(void *block, size_t size) \
  { \
    return block ? pool_realloc(block, size) : pool_##NAME##_malloc(size); \
  } \
  POOL_HOOK void pool_##NAME##_free(void *block) { pool_free(block); } \
  POOL_HOOK char *pool_##NAME##_strdup(const char *text) \
  { \
    size_t size = strlen(text) + 1; \
    void *copy = pool_##NAME##_malloc(size); \
    return (char *)(copy ? memcpy(copy, text, size) : NULL); \
  }

#endif
