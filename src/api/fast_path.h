/* SPDX-License-Identifier: MIT
 * The fast paths of the default heap, for pool_alloc(), malloc() and their families: a pop or a push, else a tail call. */
#ifndef FAST_PATH_H
#define FAST_PATH_H

#include "misuse.h"
#include "size_class.h"
#include "space/class_map.h"
#include "thread/thread.h"

#include <string.h>

/* The slow paths. `size` is the requested size, so they start from nothing. A heap that records call sites has no other path. A
 * fast path ends with a tail call, so the return address of a slow path is that of the program's call. A path that continues
 * after the call passes that address (origin_t). */
void *default_alloc_slow(size_t size);
void *default_alloc_large(size_t size); /* size > SIZE_CACHED */
void *default_zalloc_slow(size_t size);
void *default_calloc_slow(size_t size);
void *default_alloc_for(size_t size, origin_t by);
BY_REGISTER void default_free_slow(void *block, const char *call);
void default_free_for(void *block, origin_t by);
BY_REGISTER void default_free_aligned_sized_slow(void *block, size_t size, size_t alignment, const char *call);
BY_REGISTER void *default_realloc_slow(void *block, size_t size, const char *call);
size_t default_usable_size_slow(const void *block, const char *call);
BY_REGISTER void *default_aligned_alloc_slow(size_t alignment, size_t size, const char *call); /* alignment is a power of two */
void *default_aligned_alloc_for(size_t alignment, size_t size, origin_t by);
size_t default_trim(size_t keep);

/* Prints what `write` writes as one line, at once, so that lines of several threads do not mix. Without memory it is cut. */
typedef size_t figures_write_fn(char *buffer, size_t size);
void figures_print(figures_write_fn *write, void (*print)(const char *line, size_t length));

static ALWAYS_INLINE void *default_alloc(size_t size)
{
  if (unlikely(size > SIZE_CACHED))
    return default_alloc_large(size);
  void *block = MAGAZINE_POP(default_loaded_for(size));
  return likely(block) ? block : default_alloc_slow(size);
}

/* Comparisons find misaligned addresses, those outside the window, and the last freed block. False: the slow path frees it. */
static ALWAYS_INLINE bool default_free_pushes(void *block)
{
  size_t offset = window_offset(block);
  if (unlikely(!window_holds(offset)))
    return false;
  default_loaded_t loaded = default_loaded(class_map_at(offset));
  return likely(loaded->top != block && MAGAZINE_PUSH(loaded, block));
}

static ALWAYS_INLINE void default_free(void *block, const char *call)
{
  if (unlikely(!default_free_pushes(block)))
    default_free_slow(block, call);
}

/* The slow path checks size and alignment if the requested size is known. */
static ALWAYS_INLINE void default_free_aligned_sized(void *block, size_t size, size_t alignment, const char *call)
{
  if (unlikely(!default_free_pushes(block)))
    default_free_aligned_sized_slow(block, size, alignment, call);
}

/* Zeroes all bytes of the block, as pool_zalloc() promises. The length comes from a table because gcc would turn a length with
 * a known bound into a string instruction, and the C library's memset is faster. Each call that messages name has its own
 * `slow`: passing the name would cost an instruction. */
static ALWAYS_INLINE void *default_zalloc_or(size_t size, void *(*slow)(size_t size))
{
  if (unlikely(size > SIZE_CACHED))
    return slow(size);
  size_t c = size_class_cached(size);
  void *block = MAGAZINE_POP(default_loaded(c));
  return likely(block) ? memset(block, 0, size_class_size(c)) : slow(size);
}

static ALWAYS_INLINE void *default_zalloc(size_t size) { return default_zalloc_or(size, default_zalloc_slow); }

/* A product that overflows fails like any request that is too large: with ENOMEM, counted as exhausted. */
static ALWAYS_INLINE void *default_calloc(size_t count, size_t size)
{
  size_t bytes;
  if (unlikely(__builtin_mul_overflow(count, size, &bytes)))
    bytes = SIZE_MAX;
  return default_zalloc_or(bytes, default_calloc_slow);
}

/* The class of a size that is a multiple of the alignment has blocks that are aligned: the size itself if the alignment exceeds
 * the step of classes there, else any. A size too large to be padded is no size of a class. */
static ALWAYS_INLINE void *default_aligned_alloc_at_once(size_t alignment, size_t size)
{
  size_t padded = (size + alignment - 1) & -alignment;
  void *block = NULL;
  if (likely(padded - 1 < SIZE_CACHED && padded >= size))
    block = MAGAZINE_POP(default_loaded_for(padded));
  return block;
}

static ALWAYS_INLINE void *default_aligned_alloc(size_t alignment, size_t size, const char *call)
{
  void *block = default_aligned_alloc_at_once(alignment, size);
  return likely(block) ? block : default_aligned_alloc_slow(alignment, size, call);
}

static ALWAYS_INLINE void *default_realloc(void *block, size_t size, const char *call)
{
  const size_class_range_t *had = &size_class_range[class_map_of(block)];
  if (likely(had->size - size < had->half)) /* a negative difference is a large number */
    return block;
  return default_realloc_slow(block, size, call);
}

static ALWAYS_INLINE size_t default_usable_size(const void *block, const char *call)
{
  size_t c = class_map_of(block);
  if (likely(c))
    return size_class_size(c);
  return default_usable_size_slow(block, call);
}

/* ---- heaps: the calling thread's cache of one, if its slot in the thread's record holds it ---- */

static inline loaded_t *loaded_of(const thread_t *thread, const struct pool_heap *heap, size_t size_class)
{
  return &thread->cache_at[cache_slot_of(heap)]->of[size_class];
}

/* Pop and push for a heap whose magazines other threads may reach. The thread is busy from before it looks at the slot until it
 * is done (thread/thread.h). NULL, false: no magazine, or it is empty or full. */
static inline void *pop_within_reach(thread_t *thread, const struct pool_heap *heap, size_t size_class)
{
  void *block = NULL;
  thread_set_busy(thread);
  if (likely(thread_has_within_reach(thread, heap)))
    block = MAGAZINE_POP(loaded_of(thread, heap, size_class));
  thread_leave(thread);
  return block;
}

static inline bool push_within_reach(thread_t *thread, const struct pool_heap *heap, size_t size_class, void *block)
{
  bool done = false;
  thread_set_busy(thread);
  if (likely(thread_has_within_reach(thread, heap))) {
    loaded_t *loaded = loaded_of(thread, heap, size_class);
    done = likely(loaded->top != block) && MAGAZINE_PUSH(loaded, block);
  }
  thread_leave(thread);
  return done;
}

#endif
