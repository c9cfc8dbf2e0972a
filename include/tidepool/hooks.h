/* SPDX-License-Identifier: MIT
 *
 * tidepool/hooks.h: functions like malloc and its family, for a library that passes its memory hooks no context.
 *
 *     POOL_HOOKS(frob)
 *     ...
 *     pool_frob_heap = heap;
 *     frob_set_allocator(pool_frob_malloc, pool_frob_realloc, pool_frob_free);
 *
 * POOL_HOOKS(NAME) defines the pointer pool_NAME_heap and the functions pool_NAME_malloc, _calloc, _realloc, _free and _strdup.
 * Adapters use it. These rules hold for all of them:
 *
 * - Size 0 works as with glibc: malloc and calloc return a unique block, realloc frees the block and returns NULL. A
 *   product that overflows is NULL. Blocks are aligned to 16. Success leaves errno unchanged; failure sets ENOMEM.
 * - A block is resized and freed in the heap that it came from. So you may install another heap while the library has blocks
 *   of the first, which must live as long as these. Two files of a program may both install one. The heap's `memory`
 *   must not be in a block of up to 32 KiB of the default heap.
 * - Install before any other call of the library. Some libraries refuse a later installation. In others, freeing a block of the
 * C library then ends the program with the line "not a block of any heap", and abort().
 * - Destroy the heap when the library has freed everything and its threads have ended, or never. A later request of the library
 *   ends the program with one line, where that is detected.
 * - The heap must not be POOL_HEAP_SINGLE_THREAD unless only one thread uses the library. Some libraries start threads.
 * - Set the pointer while no other thread is in the library. The child of a fork has a copy of the heap.
 * - on_exhausted runs inside the library, which may hold locks or be in the middle of a change: do not call the library there.
 * - Without a heap every request fails. */
#ifndef TIDEPOOL_HOOKS_H
#define TIDEPOOL_HOOKS_H

#include <string.h>
#include <tidepool/heap.h>

/* `unused`: a library may not need all of them. */
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
