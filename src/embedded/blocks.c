/* SPDX-License-Identifier: MIT
 * Blocks are taken, freed and resized. */
#include "base/fill.h"
#include "debug/head.h"
#include "embedded/front.h"
#include "heap/granular.h"
#include "misuse.h"
#include <errno.h>
#include <string.h>

static headed_t headed(const found_t *at, const char *call)
{
  return (headed_t){.start = at->start, .usable = at->usable, .heap = at->heap, .call = call, .in_granules = true};
}

/* ---- allocate ---- */

void *heap_exhausted(heap_t *heap, const char *call, size_t size)
{
  (void)call, (void)size;
  __atomic_fetch_add(&heap->exhausted_count, 1, __ATOMIC_RELAXED);
  errno = ENOMEM;
  return NULL;
}

void *heap_probe(const attempt_t *from, size_t size, size_t alignment)
{
  found_t at = {.heap = from->heap};
  bool has_head = heap_is_headed(at.heap);
  at.start = granular_take(at.heap, has_head ? headed_size(size, alignment) : size, alignment, &at.usable);
  if (!at.start)
    return NULL;
  heap_count_overflowed(from);
  return has_head ? head_open(headed(&at, from->by.call), size, alignment, true) : at.start;
}

void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, origin_t by)
{
  int error = errno; /* the callback may set errno before the request succeeds */
  attempt_t from = heap_first_attempt(heap, by);
  void *block;
  while (!(block = heap_probe(&from, size, alignment)))
    if (!heap_next_attempt(&from, size, size <= PTRDIFF_MAX))
      return heap_exhausted(heap, by.call, size);
  errno = error;
  return zero ? memset(block, 0, heap_is_headed(from.heap) ? size : granules_for(size) << GRANULE_LOG2) : block;
}

/* ---- free ---- */

/* Another context may have freed the block since it was looked up. */
void free_found(const found_t *at, const char *call)
{
  heap_t *heap = at->heap;
  if (heap_is_headed(heap)) {
    if (unlikely(!head_close(headed(at, call))))
      fatal_misuse(call, at->block, FREED_TWICE);
    head_drop(headed(at, call));
  } else if (heap->flags & POOL_HEAP_ZERO_ON_FREE) {
    memset(at->start, 0, at->size);
  }
  if (unlikely(!granular_give(heap, at->start)))
    fatal_misuse(call, at->block, FREED_TWICE);
}

void heap_free(heap_t *heap, void *block, origin_t by)
{
  found_t at = find_block(heap, block, by.call, FREED_TWICE);
  free_found(&at, by.call);
}

void heap_give_overflowed(heap_t *heap, void *block, const char *call)
{
  if (!heap_overflow(heap))
    return;
  found_t at = find_block(heap, block, call, FREED_TWICE);
  if (at.heap != heap)
    free_found(&at, call);
}

/* ---- resize ---- */

/* A block with a head does not grow in place. */
bool resize_found(const found_t *at, size_t size)
{
  if (size < at->size && at->heap->flags & POOL_HEAP_ZERO_ON_FREE)
    memset(at->block + size, 0, at->size - size);
  return granular_resize(at->heap, at->start, size) || size < at->size;
}

static void *copy_block_to(void *to, const found_t *at, size_t size, const char *call)
{
  memcpy(to, at->block, min_size(at->size, size));
  free_found(at, call);
  return to;
}

/* The block moves, so that later uses of its address are found. Shrinking must not fail, so it may stay in place. */
static void *reallocate_headed(heap_t *heap, const found_t *at, size_t size, origin_t by)
{
  if (size == at->size)
    return at->block;
  attempt_t from = heap_first_attempt(heap, by);
  void *to = size > at->size ? heap_allocate(heap, size, 1, false, by) : heap_probe(&from, size, 1);
  if (to)
    return copy_block_to(to, at, size, by.call);
  if (size > at->size)
    return NULL;
  head_shorten(headed(at, by.call), size);
  return at->block;
}

/* The callback may free the memory behind the block, so each attempt first tries to grow in place. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, origin_t by)
{
  found_t at = find_block(heap, block, by.call, FREED_BEFORE);
  if (heap_is_headed(at.heap))
    return reallocate_headed(heap, &at, size, by);
  int error = errno;
  attempt_t from = heap_first_attempt(heap, by);
  void *to = NULL;
  while (!resize_found(&at, size) && !(to = heap_probe(&from, size, 1)))
    if (!heap_next_attempt(&from, size, size <= PTRDIFF_MAX))
      return heap_exhausted(heap, by.call, size);
  errno = error;
  return to ? copy_block_to(to, &at, size, by.call) : block;
}

/* ---- all blocks ---- */

/* Blocks with an invalid head are skipped: freeing them reports that. */
bool visit_blocks(heap_t *heap, pool_visit_fn *visit, void *context)
{
  size_t usable = 0;
  for (char *start = NULL; (start = granular_next(heap, start, &usable)) != NULL; start += usable) {
    pool_block_t block = {.start = start, .size = usable};
    if (heap_is_headed(heap)) {
      head_look_t head = head_look(start, usable);
      if (head.state != HEAD_LIVE)
        continue;
      block.start = head.block, block.size = head.size;
    }
    if (!visit(&block, context))
      return false;
  }
  return true;
}

static void verify_free(heap_t *heap, const char *from, const char *to, const char *call)
{
  const char *wrong = dead_find_written(from, (size_t)(to - from));
  if (unlikely(wrong != NULL))
    fatal_damage(call, from, AFTER_FREE, wrong - from, heap, (size_t)(to - from));
}

void verify_blocks(heap_t *heap, const char *call)
{
  found_t at = {.heap = heap};
  char *end = heap->region.base;
  for (; (at.start = granular_next(heap, end, &at.usable)) != NULL; end = at.start + at.usable) {
    verify_free(heap, end, at.start, call);
    head_verify_live(headed(&at, call), true);
  }
  verify_free(heap, end, heap->region.base + ((size_t)heap->region.granules.count << GRANULE_LOG2), call);
}
