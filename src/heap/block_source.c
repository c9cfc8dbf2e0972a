/* SPDX-License-Identifier: MIT
 *
 * The record, the charge, the list and the figures share no lock, so they change inside GATE_LARGE, as for large blocks. */
#include "base/fill.h"
#include "heap/large.h"
#include "option.h"
#include "os/lock.h"

/* A request that the source cannot serve is served as in any other heap. */
NOINLINE static void *take_standalone(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  const block_source_t *source = heap->source;
  if (r->together || (heap->flags & HEAP_GUARDED_UNASKED && heap_is_bounded(heap)))
    return heap_take_plain(heap, r);
  void *block = standalone_take(heap, source, r, r->size);
  return block || (source->serves && source->serves(r->size, r->alignment)) ? block : heap_take_plain(heap, r);
}

void standalone_begin(heap_t *heap, const block_source_t *source)
{
  heap->take = take_standalone;
  heap->source = source;
  heap->flags &= ~(uint32_t)(HEAP_CACHED | HEAP_WITHIN_REACH | HEAP_PLAIN_GRANULES);
}

/* The source may take less than bytes() returned, never more, so the heap stays within its budget. */
static huge_t *take_record(heap_t *heap, const block_source_t *source, size_t size, size_t alignment, const os_stack_t *stack,
                           bool *zeroed)
{
  KEEPS_FRAME();
  huge_standalone_t *of = huge_standalone_record();
  if (!of)
    return NULL;
  huge_t *huge = &of->huge;
  of->source = source;
  of->stack = stack;
  bool taken = source->take(of, heap, size, alignment, zeroed);
  of->stack = NULL;
  if (taken)
    return huge;
  huge_standalone_end(huge);
  return NULL;
}

/* The stack is taken before the gate is entered: it may wait for the loader, which a thread waiting for a fork may hold. */
static const os_stack_t *look_at_stack(const block_source_t *source, const void *from, os_stack_t *stack)
{
  if (!source->take_stack)
    return NULL;
  source->take_stack(from, stack);
  return stack;
}

NOINLINE void *standalone_take(heap_t *heap, const block_source_t *source, request_t *r, size_t size)
{
  KEEPS_FRAME();
  os_stack_t place;
  const os_stack_t *stack = look_at_stack(source, __builtin_return_address(0), &place);
  INSIDE_GATE(GATE_LARGE);
  bool zeroed = false;
  size_t bytes = source->bytes(size, r->alignment);
  if (!budget_charge(&heap->budget, bytes))
    return NULL;
  huge_t *huge = take_record(heap, source, size, r->alignment, stack, &zeroed);
  size_t held = huge ? huge_size(huge) : 0;
  budget_discharge(&heap->budget, bytes - held);
  if (!huge)
    return NULL;
  budget_note_peak(&heap->budget);
  large_count(heap, 1, (ptrdiff_t)huge_usable(huge), (ptrdiff_t)held);
  void *block = huge_block(huge);
  huge_standalone_enter(huge, heap, &heap->huge);
  r->past = zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  r->usable = size;
  r->heap = heap;
  r->standalone = true;
  return block;
}

NOINLINE bool standalone_give(heap_t *heap, const block_source_t *source, const void *block, const char *call)
{
  KEEPS_FRAME();
  os_stack_t place;
  const os_stack_t *stack = look_at_stack(source, __builtin_return_address(0), &place);
  INSIDE_GATE(GATE_LARGE);
  huge_t *huge = huge_standalone_leave(block);
  if (!huge)
    return false;
  size_t held = huge_size(huge);
  large_count(heap, -1, -(ptrdiff_t)huge_usable(huge), -(ptrdiff_t)held);
  standalone_of(huge)->stack = stack;
  standalone_of(huge)->source->give(standalone_of(huge), call);
  huge_standalone_end(huge);
  budget_discharge(&heap->budget, held);
  return true;
}

bool standalone_resize(heap_t *heap, huge_t *huge, size_t size, const char *call)
{
  huge_standalone_t *of = standalone_of(huge);
  size = max_size(size, 1); /* a range needs at least one byte to have a page */
  if (size >= of->asked || of->source->as_class)
    return size <= of->asked;
  INSIDE_GATE(GATE_LARGE);
  ptrdiff_t less = (ptrdiff_t)(of->asked - size);
  lock_acquire(&huge_lock);
  if (of->source->shorten)
    of->source->shorten(of, size, call);
  of->asked = size;
  lock_release(&huge_lock);
  large_count(heap, 0, -less, 0);
  return true;
}

void standalone_give_all(heap_t *heap, const char *call)
{
  for (huge_t *huge = heap->huge, *older; huge; huge = older) {
    older = huge->older;
    if (huge->is_standalone)
      standalone_give(heap, standalone_of(huge)->source, huge_block(huge), call);
  }
}

/* ---- the malloc of a tool ----
 *
 * A block's record lies in memory that a leak search scans, like the program's. No address in it may lead to the block, or no
 * block would ever be lost. So the range begins LEAD bytes earlier, in malloc's own memory, where no other block can be. */

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
void tool_decide(void)
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

static bool take_malloced(huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  (void)heap;
  KEEPS_FRAME();
  char *block = os_tool_take(size, alignment);
  if (!block)
    return false;
  of->huge.range = (range_t){.start = (uintptr_t)block - LEAD, .size = malloced_bytes(size, alignment)};
  of->offset = LEAD;
  of->asked = size;
  *zeroed = false;
  return true;
}

static void give_malloced(const huge_standalone_t *of, const char *call)
{
  (void)call;
  KEEPS_FRAME();
  os_tool_give(standalone_block(of));
}

static const block_source_t malloc_source = {.take = take_malloced,
                                             .bytes = malloced_bytes,
                                             .largest = largest_malloced,
                                             .give = give_malloced,
                                             .serves = os_tool_serves,
                                             .moves = true};

/* The context is a root of the leak search because it points to memory of the program. */
void tool_begin(heap_t *heap)
{
  standalone_begin(heap, &malloc_source);
  os_tool_begin_root(&heap->context, sizeof heap->context);
}

void tool_end(const heap_t *heap)
{
  if (heap->source == &malloc_source)
    os_tool_end_root(&heap->context, sizeof heap->context);
}

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
