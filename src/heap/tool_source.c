/* SPDX-License-Identifier: MIT
 *
 * A block's record lies in memory that a leak search scans, like the program's. No address in it may lead to the block, or no
 * block would ever be lost. So the range begins LEAD bytes earlier, in malloc's own memory, where no other block can be. */
#include "heap/tool_source.h"
#include "base/shared.h"
#include "heap/granular.h"
#include "heap/heads.h"
#include "option.h"

enum { LEAD = 8 };

bool blocks_are_malloced;

void tool_look(void)
{
  os_look_for_tool();
  shared_by_loops = os_tool.sees_calls;
  if (os_tool.allocates)
    os_tool_may_take();
}

/* Constructors may have run earlier. If the program must not map memory, heaps with their own blocks cannot either. */
void tool_settle(void)
{
  tool_look();
  if (settings.blocks == BLOCKS_OWN)
    os_tool = (os_tool_t){.has_shadows = os_tool.has_shadows};
  bool wanted = settings.blocks == BLOCKS_OF_MALLOC || (settings.blocks == BLOCKS_BY_TOOL && os_tool.allocates);
  blocks_are_malloced = wanted && os_tool_may_take();
}

static size_t malloced_bytes(size_t size, size_t alignment)
{
  (void)alignment;
  return LEAD + max_size(size, 1);
}

static size_t largest_malloced(size_t bytes) { return bytes > LEAD ? bytes - LEAD : 0; }

static bool take_malloced(huge_apart_t *apart, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  (void)heap;
  KEEPS_FRAME();
  char *block = os_tool_take(size, alignment);
  if (!block)
    return false;
  apart->huge.range = (range_t){.start = (uintptr_t)block - LEAD, .size = malloced_bytes(size, alignment)};
  apart->offset = LEAD;
  apart->asked = size;
  *zeroed = false;
  return true;
}

static void give_malloced(const huge_apart_t *apart, const char *call)
{
  (void)call;
  KEEPS_FRAME();
  os_tool_give(apart_block(apart));
}

static const apart_source_t malloc_source = {
  .take = take_malloced, .bytes = malloced_bytes, .largest = largest_malloced, .give = give_malloced, .serves = os_tool_serves};

/* These blocks move when they are resized, so that a use of the old address is found. The context is a root of the leak search
 * because it points to memory of the program. */
void tool_begin(heap_t *heap)
{
  apart_begin(heap, &malloc_source);
  heap->moves_blocks = true;
  os_tool_begin_root(&heap->context, sizeof heap->context);
}

/* ---- guests ---- */

void tool_begin_guest(heap_t *heap)
{
  if (!heads || (!os_tool.sees_bytes && !os_tool.sees_orders))
    return;
  heap->marked = heap->headed = true;
  heap->checked |= os_tool.sees_bytes;
  os_tool_open(heap->region.start, heap->region.size);
  os_tool_begin_blocks(heap, heap->marked_inside);
  os_tool_leave_order(heap);
}

/* Regions of units have records among their blocks and stay open. */
void tool_close_guest(const heap_t *heap)
{
  if (heap->marked && heap_has_granules(heap))
    os_tool_close(heap->region.base, (size_t)heap->region.granules.count << GRANULE_LOG2);
}

void tool_open_guest(const heap_t *heap)
{
  if (heap->marked)
    os_tool_open(heap->region.start, heap->region.size);
}

void tool_reset_guest(const heap_t *heap)
{
  if (!heap->marked)
    return;
  os_tool_leave_order(heap);
  os_tool_end_blocks(heap, heap->marked_inside);
  os_tool_begin_blocks(heap, heap->marked_inside);
  tool_close_guest(heap);
}

static void end_guest(const heap_t *heap)
{
  if (!heap->marked)
    return;
  os_tool_end_blocks(heap, heap->marked_inside);
  os_tool_forget(heap->region.start, heap->region.size);
  tool_open_guest(heap);
}

void tool_end(const heap_t *heap)
{
  if (heap_is_guest(heap))
    end_guest(heap);
  else if (heap->apart_source == &malloc_source)
    os_tool_end_root(&heap->context, sizeof heap->context);
}

/* ---- addresses that are no block ---- */

void tool_report(const heap_t *heap, const void *block)
{
  KEEPS_FRAME();
  if (!os_tool.allocates)
    return;
  if (heap && heap_is_guest(heap))
    os_tool_report_block(heap, block);
  else
    os_tool_give((void *)(uintptr_t)block);
}
