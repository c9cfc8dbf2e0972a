/* SPDX-License-Identifier: MIT
 * A block is resized in the cheapest way possible: in place, by moving its pages, or by a copy. */
#include "heap/apart.h"
#include "heap/blocks.h"
#include "heap/dying.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/tick.h"
#include "misuse.h"
#include "os/tool.h"
#include <errno.h>
#include <string.h>

size_t heap_usable_size(const void *block, const char *call)
{
  if (process_is_ending())
    return dying_usable_size(block);
  located_t at = heap_locate_block(NULL, block, call, FREED_BEFORE);
  return located_size(&at);
}

static void wipe_tail(const located_t *at, size_t size)
{
  size_t had = located_size(at);
  if (at->heap->zero_on_free && size < had)
    heap_wipe(at, located_block(at) + size, had - size);
}

/* A block never fails to shrink in place. A block of a slab keeps its size. */
static void shrink_in_place(located_t *at, size_t size, const char *call, const void *caller)
{
  KEEPS_FRAME();
  wipe_tail(at, size);
  if (located_is_apart(at)) {
    if (!apart_is_as_its_class(at->huge))
      apart_shorten(at->heap, at->huge, size, call);
  } else if (HAS_SYSTEM && at->huge)
    large_resize_huge(at->heap, at->huge, size, false);
  else if (located_in_granules(at))
    granular_resize(at->heap, at->start, size);
  else if (!at->bin)
    large_resize_run(at->heap, at->run, size);
  heap_note_resized(at, size, caller);
}

/* A block that shrinks by half moves if the new size has another class or is no longer large: it would waste memory. */
static bool is_worth_moving(const located_t *at, size_t size)
{
  if (size > at->size / 2 || located_in_granules(at))
    return false;
  unsigned c = heap_class_for(at->heap, size, 1);
  if (located_is_apart(at) && apart_is_as_its_class(at->huge))
    return c != heap_class_for(at->heap, at->size, 1);
  if (HAS_SYSTEM && at->huge)
    return c || !large_is_huge(at->heap, size, 1);
  return at->bin ? c != at->bin->size_class : c != 0;
}

/* A heap that moves its blocks on every resize refuses (reallocate_moving()). */
BY_REGISTER bool heap_resize_in_place(void *block, size_t size, const char *call)
{
  KEEPS_FRAME();
  if (process_is_ending())
    return false;
  located_t at = heap_locate_block(NULL, block, call, FREED_BEFORE);
  if (at.head.state || size > PTRDIFF_MAX - 2 * UNIT)
    return false;
  if (size > at.size)
    return heap_lengthen(&at, size, false, __builtin_return_address(0));
  shrink_in_place(&at, size, call, __builtin_return_address(0));
  return true;
}

/* The old block is freed only if there is a new one: otherwise the caller keeps the old one. */
static void *copy_to(void *to, const located_t *at, size_t size, const char *call, const void *caller)
{
  KEEPS_FRAME();
  if (to) {
    memcpy(to, located_block(at), min_size(located_size(at), size));
    heap_give_back(at, call, caller);
  }
  return to;
}

/* The block moves, so that later uses of its address are found. Shrinking must not fail, so it may stay in place. */
static void *reallocate_moving(heap_t *heap, const located_t *at, size_t size, const char *call, const void *caller)
{
  KEEPS_FRAME();
  if (size == at->head.size)
    return at->head.block;
  if (size > at->head.size)
    return copy_to(heap_allocate_for(heap, size, 1, false, call, caller), at, size, call, caller);
  void *to = heap_allocate_if_easy(heap, size, call, caller);
  if (to)
    return copy_to(to, at, size, call, caller);
  wipe_tail(at, size);
  if (located_is_apart(at))
    apart_shorten(at->heap, at->huge, size, call);
  else
    heads->shorten(at, size, call);
  return at->head.block;
}

/* A program that only resizes large blocks has no other slow path that looks at the clock. */
static void after_resizing(const located_t *at)
{
  bool is_large = HAS_SYSTEM && !at->bin && !located_in_granules(at);
  thread_t *thread = is_large ? thread_current() : NULL;
  if (thread)
    heap_after_slow_path(thread);
}

/* A block moves only if that is easy. Otherwise it stays and gives its end back, if it has one. */
static void *reallocate_smaller(heap_t *heap, located_t *at, size_t size, const char *call, const void *caller)
{
  void *to = is_worth_moving(at, size) ? heap_allocate_if_easy(heap, size, call, caller) : NULL;
  if (to)
    return copy_to(to, at, size, call, NULL);
  shrink_in_place(at, size, call, caller);
  after_resizing(at);
  return at->start;
}

/* A block of unknown size cannot be copied and must not move. */
static void *reallocate_dying(const void *block, size_t size)
{
  size_t had = dying_usable_size(block);
  void *to = had ? dying_allocate(size, 1) : NULL;
  if (to)
    return memcpy(to, block, min_size(had, size));
  errno = ENOMEM;
  return NULL;
}

/* Growing in place or by moving pages is tried before a copy. */
static inline __attribute__((always_inline)) void *reallocate_located(heap_t *heap, void *block, size_t size, const char *call,
                                                                      const void *caller)
{
  if (process_is_ending())
    return reallocate_dying(block, size);
  located_t at = heap_locate_block(heap, block, call, FREED_BEFORE);
  heap_t *to_heap = heap ? heap : at.heap;
  if (at.head.state)
    return reallocate_moving(to_heap, &at, size, call, caller);
  if (size <= at.size)
    return reallocate_smaller(to_heap, &at, size, call, caller);
  /* A size that could overflow when rounded goes on to the allocation, which refuses it. */
  if (size <= PTRDIFF_MAX - 2 * UNIT && heap_lengthen(&at, size, true, caller)) {
    after_resizing(&at);
    return HAS_SYSTEM && at.huge ? huge_start(at.huge) : at.start;
  }
  bool grown;
  void *to = heap_allocate_from(to_heap, size, &at, &grown, call, caller);
  return grown ? to : copy_to(to, &at, size, call, NULL);
}

#ifdef heap_reallocate
void *heap_reallocate_for(heap_t *heap, void *block, size_t size, const char *call, const void *caller)
{
  KEEPS_FRAME();
  return reallocate_located(heap, block, size, call, caller);
}
#else
void *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call)
{
  KEEPS_FRAME();
  return reallocate_located(heap, block, size, call, __builtin_return_address(0));
}
#endif
