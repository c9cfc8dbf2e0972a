/* SPDX-License-Identifier: MIT
 * A block is resized in the cheapest way possible: in place, by moving its pages, or by a copy. */
#include "heap/blocks.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/tick.h"
#include "misuse.h"
#include "os/tool.h"
#include "space/budget.h"
#include <errno.h>
#include <string.h>

size_t heap_usable_size(const void *block, const char *call)
{
  if (process_is_ending())
    return dying_usable_size(block);
  located_t at = heap_locate_block(NULL, block, call, FREED_BEFORE);
  return located_size(&at);
}

/* Only runs and mappings can change their size and stay in a profile. `at` describes the block before the change. */
static void note_resized(const located_t *at, size_t size, origin_t by)
{
  if (!heap_may_have_standalone(at->heap) || !observer || at->bin || located_in_granules(at) || located_is_standalone(at))
    return;
  if ((at->huge ? huge_usable(at->huge) : at->run->size) != at->size)
    observer->note_resized(at->heap, at->huge ? huge_start(at->huge) : at->start, size, origin_caller(by));
}

static bool move_located(located_t *at, size_t size)
{
  run_t *moved = large_move_run(at->heap, at->run, size);
  if (moved) {
    at->run = moved;
    at->start = moved->start;
  }
  return moved != NULL;
}

static inline bool resize(located_t *at, size_t size, bool may_move, const char *call)
{
  if (located_is_standalone(at))
    return standalone_resize(at->heap, at->huge, size, call);
  if (located_has_head(at)) {
    heads->shorten(at, size, call);
    return true;
  }
  if (at->huge)
    return large_resize_huge(at->heap, at->huge, size, may_move);
  if (located_in_granules(at))
    return granular_resize(at->heap, at->start, heap_granular_size(at->heap, size));
  return !at->bin && (large_resize_run(at->heap, at->run, size) || (may_move && move_located(at, size)));
}

bool heap_resize(located_t *at, size_t size, bool may_move, origin_t by)
{
  KEEPS_FRAME();
  size_t had = located_size(at);
  bool grows = size > had;
  if (size < had && at->heap->flags & POOL_HEAP_ZERO_ON_FREE)
    heap_wipe(at, located_block(at) + size, had - size);
  if (!resize(at, size, may_move && grows, by.call) && grows)
    return false;
  note_resized(at, size, by);
  return true;
}

/* A block that shrinks by half moves if the new size has another class or is no longer large: it would waste memory. */
static bool is_worth_moving(const located_t *at, size_t size)
{
  if (size > at->size / 2 || located_in_granules(at))
    return false;
  unsigned c = heap_class_for(at->heap, size, 1);
  if (located_is_standalone(at) && standalone_is_as_its_class(at->huge))
    return c != heap_class_for(at->heap, at->size, 1);
  if (at->huge)
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
  if (located_has_head(&at) || size > PTRDIFF_MAX - 2 * UNIT)
    return false;
  bool done = heap_resize(&at, size, false, ORIGIN(call));
  if (done || !refusals_have_answered())
    return done;
  refusals_forget(); /* as for a request that would fail (take_own()) */
  return heap_resize(&at, size, false, ORIGIN(call));
}

/* The old block is freed only if there is a new one: otherwise the caller keeps the old one. */
static void *copy_to(void *to, const located_t *at, size_t size, origin_t by)
{
  KEEPS_FRAME();
  if (to) {
    memcpy(to, located_block(at), min_size(located_size(at), size));
    heap_give_back(at, by);
  }
  return to;
}

/* The block moves, so that later uses of its address are found. Shrinking must not fail, so it may stay in place. */
static void *reallocate_moving(heap_t *heap, located_t *at, size_t size, origin_t by)
{
  KEEPS_FRAME();
  request_t r = {.size = size, .alignment = 1, .by = by};
  if (size == at->head.size)
    return at->head.block;
  void *to = size > at->head.size ? heap_serve(heap, &r) : heap_serve_if_easy(heap, &r);
  if (to || size > at->head.size)
    return copy_to(to, at, size, by);
  heap_resize(at, size, false, by);
  return at->head.block;
}

/* A program that only resizes large blocks has no other slow path that looks at the clock. */
static void after_resizing(const located_t *at)
{
  bool is_large = !at->bin && !located_in_granules(at);
  thread_t *thread = is_large ? thread_current() : NULL;
  if (thread)
    heap_after_slow_path(thread);
}

/* A block moves only if that is easy. Otherwise it stays and gives its end back, if it has one. */
static void *reallocate_smaller(heap_t *heap, located_t *at, size_t size, origin_t by)
{
  void *to = is_worth_moving(at, size) ? heap_serve_if_easy(heap, &(request_t){.size = size, .alignment = 1, .by = by}) : NULL;
  if (to)
    return copy_to(to, at, size, by);
  heap_resize(at, size, false, by);
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
void *heap_reallocate(heap_t *heap, void *block, size_t size, origin_t by)
{
  KEEPS_FRAME();
  if (process_is_ending())
    return reallocate_dying(block, size);
  located_t at = heap_locate_block(heap, block, by.call, FREED_BEFORE);
  heap = heap ? heap : at.heap;
  if (located_has_head(&at))
    return reallocate_moving(heap, &at, size, by);
  if (size <= at.size)
    return reallocate_smaller(heap, &at, size, by);
  /* A size that could overflow when rounded goes on to the allocation, which refuses it. */
  if (size <= PTRDIFF_MAX - 2 * UNIT && heap_resize(&at, size, true, by)) {
    after_resizing(&at);
    return at.huge ? huge_start(at.huge) : at.start;
  }
  request_t r = {.size = size, .alignment = 1, .from = &at, .by = by};
  void *to = heap_serve(heap, &r);
  return r.grown ? to : copy_to(to, &at, size, by);
}
