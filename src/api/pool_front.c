/* SPDX-License-Identifier: MIT
 * The process-wide interface of pool.h. */
#include "api/pool_front.h"
#include "heap/heap.h"
#include "option.h"
#include "misuse.h"
#include <errno.h>
#include <string.h>
#include <tidepool/pool.h>

/* ---- slow paths, shared with the malloc library ---- */

/* A thread that has a record and a class whose pool exists: the one slow path that matters. */
NOINLINE void *front_alloc_slow(size_t size)
{
  thread_t *thread = thread_self;
  if (likely(size - 1 < SIZE_CACHED && thread_is_usable(thread))) {
    size_t c = size <= SIZE_LINEAR ? size_class_linear(size) : size_class_medium(size);
    bin_t *pool = published_bin(&heap_front, (unsigned)c);
    void *block = NULL;
    if (likely(pool && pool->cached)) {
      block = magazines_refill(&thread->front, pool);
      heap_trip(thread);
    }
    if (likely(block))
      return block;
  }
  return heap_allocate(&heap_front, size, 1, false);
}

NOINLINE static void *alloc_large(size_t size)
{
  thread_t *thread = thread_self;
  void *block = thread_is_usable(thread) ? large_take_spare(thread, size) : NULL;
  return block ? block : heap_allocate(&heap_front, size, 1, false);
}

NOINLINE void *front_alloc_medium(size_t size)
{
  if (unlikely(size > SIZE_CACHED))
    return alloc_large(size);
  void *block = MAGAZINE_POP(front_loaded(size_class_medium(size)));
  return likely(block) ? block : front_alloc_slow(size);
}

NOINLINE void *front_zalloc_slow(size_t size)
{
  if (size > SIZE_CACHED || !heap_front_ready() || heap_front.checked)
    return heap_allocate(&heap_front, size, 1, true);
  void *block = front_alloc(size);
  return block ? memset(block, 0, size_class_size(class_map_of(block))) : NULL;   /* it may be of a larger class */
}

/* A thread that has only large blocks gets its record here. */
static void free_large(void *block, const char *call)
{
  thread_t *thread = heap_front_ready() ? thread_current_to_free() : NULL;
  if (!thread || heap_front.checked || !large_give_spare(thread, block, call))
    heap_free(NULL, block, call);
  if (thread)
    heap_trip(thread);   /* whatever is freed is a time to look at what is not needed any more */
}

NOINLINE void front_free_slow(void *block, const char *call)
{
  size_t c = class_map_of(block);
  thread_t *thread = thread_self;
  if (likely(c && thread_is_usable(thread))) {
    if (unlikely(thread->front.cache->of[c].top == block))
      fatal_misuse(call, block, FREED_TWICE);
    magazines_overflow(&thread->front, heap_front.bins[c], block);
    heap_trip(thread);
  } else if (block) {
    free_large(block, call);
  }
}

NOINLINE void *front_realloc_slow(void *block, size_t size, const char *call)
{
  if (!block)
    return front_alloc(size);
  if (size)
    return heap_reallocate(NULL, block, size, call);
  front_free(block, call);
  return NULL;
}

NOINLINE size_t front_usable_size_slow(const void *block, const char *call)
{
  return block ? heap_usable_size(block, call) : 0;
}

void *front_aligned_alloc(size_t alignment, size_t size)
{
  if (alignment <= BLOCK_ALIGNMENT)
    return front_alloc(size);
  unsigned c = heap_front_ready() ? heap_class_for(&heap_front, size, alignment) : 0;
  if (c && c <= CLASS_CACHED) {
    void *block = MAGAZINE_POP(front_loaded(c));
    if (likely(block))
      return block;
  }
  return heap_allocate(&heap_front, size, alignment, false);
}

size_t front_trim(size_t keep) { return heap_trim(&heap_front, keep); }

/* ---- pool.h ---- */

void *pool_alloc(size_t size) { return front_alloc(size); }
void *pool_zalloc(size_t size) { return front_zalloc(size); }

void *pool_calloc(size_t count, size_t size)
{
  size_t bytes;
  if (unlikely(__builtin_mul_overflow(count, size, &bytes)))
    return heap_exhausted(&heap_front);
  return front_zalloc(bytes);
}

void *pool_realloc(void *block, size_t size) { return front_realloc(block, size, "pool_realloc"); }

void *pool_aligned_alloc(size_t alignment, size_t size)
{
  if (likely(is_power_of_two(alignment)))
    return front_aligned_alloc(alignment, size);
  errno = EINVAL;
  return NULL;
}

void pool_free(void *block) { front_free(block, fatal_free_call); }

/* The size is not trusted: a block that realloc left in place is of another class than its size. */
void pool_free_sized(void *block, size_t size)
{
  (void)size;
  front_free(block, "pool_free_sized");
}

size_t pool_alloc_batch(size_t size, void **blocks, size_t count)
{
  size_t got = 0;
  while (got < count && (blocks[got] = front_alloc(size)) != NULL)
    got++;
  return got;
}

void pool_free_batch(void **blocks, size_t count)
{
  for (size_t i = 0; i < count; i++)
    front_free(blocks[i], "pool_free_batch");
}

bool pool_resize_in_place(void *block, size_t size)
{
  return block && heap_resize_in_place(block, size, "pool_resize_in_place");
}

size_t pool_usable_size(const void *block) { return front_usable_size(block, "pool_usable_size"); }
size_t pool_good_size(size_t size) { return heap_good_size(&heap_front, size); }
size_t pool_trim(size_t keep) { return heap_trim(&heap_front, keep); }

bool pool_in_use(const void *address) { return heap_locate(address).live; }

void *pool_block_start(const void *address, size_t *size)
{
  located_t at = heap_locate(address);
  if (!at.live)
    return NULL;
  if (size)
    *size = at.size;
  return at.start;
}

pool_heap_t *pool_heap_of(const void *address) { return heap_locate(address).heap; }

bool pool_option_set(const char *key, const char *value) { return option_set(key, value); }
