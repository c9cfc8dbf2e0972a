/* SPDX-License-Identifier: MIT
 *
 * The fast paths of the default heap, for pool_alloc() and its family and for malloc(). A pop or a push of a magazine is all
 * they do; anything else is a tail call away. */
#ifndef FAST_PATH_H
#define FAST_PATH_H

#include "size_class.h"
#include "space/class_map.h"
#include "thread/magazines.h"

#include <string.h>

/* The slow paths. `size` is what the caller asked for, so that they start from nothing. A heap that remembers where its blocks
 * are from has no other path. There the address that these return to is that of the program's call, because a fast path ends
 * with a tail call; who goes on behind it hands the address over: `caller`. */
void *default_alloc_slow(size_t size);
void *default_alloc_large(size_t size); /* size > SIZE_CACHED */
void *default_zalloc_slow(size_t size);
void *default_calloc_slow(size_t size);
void *default_alloc_for(size_t size, const char *call, const void *caller);
BY_REGISTER void default_free_slow(void *block, const char *call);
void default_free_for(void *block, const char *call, const void *caller);
BY_REGISTER void default_free_sized_slow(void *block, size_t size, const char *call);
BY_REGISTER void default_free_aligned_sized_slow(void *block, size_t size, size_t alignment, const char *call);
BY_REGISTER void *default_realloc_slow(void *block, size_t size, const char *call);
size_t default_usable_size_slow(const void *block, const char *call);
BY_REGISTER void *default_aligned_alloc_slow(size_t alignment, size_t size, const char *call); /* a power of two */
void *default_aligned_alloc_for(size_t alignment, size_t size, const char *call, const void *caller);
size_t default_trim(size_t keep);
void *default_exhausted(const char *call); /* a request that no word can hold */

static inline __attribute__((always_inline)) void *default_alloc(size_t size)
{
  if (unlikely(size > SIZE_CACHED))
    return default_alloc_large(size);
  void *block = MAGAZINE_POP(default_loaded_for(size));
  return likely(block) ? block : default_alloc_slow(size);
}

/* One comparison finds an address that is not aligned or not in the window. Another finds the block that was freed just
 * before. False: the slow path has to free it. */
static inline __attribute__((always_inline)) bool default_free_pushes(void *block)
{
  size_t offset = window_offset(block);
  if (unlikely(!window_holds(offset)))
    return false;
  default_loaded_t loaded = default_loaded(class_map_at(offset));
  return likely(loaded->top != block && MAGAZINE_PUSH(loaded, block));
}

static inline __attribute__((always_inline)) void default_free(void *block, const char *call)
{
  if (unlikely(!default_free_pushes(block)))
    default_free_slow(block, call);
}

/* The size is looked at where it is known what was asked for. */
static inline __attribute__((always_inline)) void default_free_sized(void *block, size_t size, const char *call)
{
  if (unlikely(!default_free_pushes(block)))
    default_free_sized_slow(block, size, call);
}

static inline __attribute__((always_inline)) void default_free_aligned_sized(void *block, size_t size, size_t alignment,
                                                                             const char *call)
{
  if (unlikely(!default_free_pushes(block)))
    default_free_aligned_sized_slow(block, size, alignment, call);
}

/* All bytes of the block are zeroed, since pool_zalloc() promises so. The C library's memset has no loop whose end nobody can
 * guess, and gcc, which would make a string instruction of a length with a known bound, knows none of a class.
 * `slow` is a slow path for each call that has its own name in messages: passing the name would cost an instruction. */
static inline __attribute__((always_inline)) void *default_zalloc_or(size_t size, void *(*slow)(size_t size))
{
  if (unlikely(size > SIZE_CACHED))
    return slow(size);
  size_t c = size_class_cached(size);
  void *block = MAGAZINE_POP(default_loaded(c));
  return likely(block) ? memset(block, 0, size_class_size(c)) : slow(size);
}

static inline __attribute__((always_inline)) void *default_zalloc(size_t size)
{
  return default_zalloc_or(size, default_zalloc_slow);
}

static inline __attribute__((always_inline)) void *default_calloc(size_t size)
{
  return default_zalloc_or(size, default_calloc_slow);
}

/* The class of a size that is a multiple of the alignment has blocks of such a size too: its own where the alignment is longer
 * than the steps of classes there, else any. So every block is aligned. A size that is too large to be padded is no size of a
 * class then. */
static inline __attribute__((always_inline)) void *default_aligned_alloc_at_once(size_t alignment, size_t size)
{
  size_t padded = (size + alignment - 1) & -alignment;
  void *block = NULL;
  if (likely(padded - 1 < SIZE_CACHED && padded >= size))
    block = MAGAZINE_POP(default_loaded_for(padded));
  return block;
}

static inline __attribute__((always_inline)) void *default_aligned_alloc(size_t alignment, size_t size, const char *call)
{
  void *block = default_aligned_alloc_at_once(alignment, size);
  return likely(block) ? block : default_aligned_alloc_slow(alignment, size, call);
}

static inline __attribute__((always_inline)) void *default_realloc(void *block, size_t size, const char *call)
{
  const size_class_range_t *had = &size_class_range[class_map_of(block)];
  if (likely(had->size - size < had->half)) /* and no more than there is: a negative difference is a large number */
    return block;
  return default_realloc_slow(block, size, call);
}

static inline __attribute__((always_inline)) size_t default_usable_size(const void *block, const char *call)
{
  size_t c = class_map_of(block);
  if (likely(c))
    return size_class_size(c);
  return default_usable_size_slow(block, call);
}

#endif
