/* SPDX-License-Identifier: MIT
 *
 * The record, the charge, the list and the figures share no lock, so they change inside GATE_LARGE, as for large blocks. */
#include "heap/apart.h"
#include "heap/kinds.h"
#include "heap/large.h"
#include "os/tool.h"
#include "space/gate.h"

/* A request that the source cannot serve is served as in any other heap. */
NOINLINE static void *take_apart(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  const apart_source_t *source = heap->apart_source;
  if (r->together || (heap->guarded_unasked && heap_is_bounded(heap)))
    return heap_take_plain(heap, r);
  void *block = apart_take(heap, source, r, r->size);
  return block || (source->serves && source->serves(r->size, r->alignment)) ? block : heap_take_plain(heap, r);
}

void apart_begin(heap_t *heap, const apart_source_t *source)
{
  heap->take = take_apart;
  heap->apart_source = source;
  heap->cached = heap->has_cache_slot = heap->reached = heap->plain_granules = false;
  heap->plane = BIN_PLANE_NONE;
}

/* The source may take less than bytes() returned, never more, so the heap stays within its budget. */
static huge_t *take_record(heap_t *heap, const apart_source_t *source, size_t size, size_t alignment, const os_stack_t *stack,
                           bool *zeroed)
{
  KEEPS_FRAME();
  huge_apart_t *apart = huge_apart_record();
  if (!apart)
    return NULL;
  huge_t *huge = &apart->huge;
  apart->source = source;
  apart->stack = stack;
  bool taken = source->take(apart, heap, size, alignment, zeroed);
  apart->stack = NULL;
  if (taken)
    return huge;
  huge_apart_end(huge);
  return NULL;
}

static void *take_inside(heap_t *heap, const apart_source_t *source, request_t *r, size_t size, const os_stack_t *stack)
{
  KEEPS_FRAME();
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
  apart_of(huge)->kind = (uint8_t)kind_allocated_by(r->by.call);
  void *block = huge_block(huge);
  huge_apart_enter(huge, heap, &heap->huge);
  r->past = zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  r->usable = size;
  r->heap = heap;
  r->apart = true;
  return block;
}

/* The stack is taken before the gate is entered: it may wait for the loader, which a thread waiting for a fork may hold. */
static const os_stack_t *look_at_stack(const apart_source_t *source, const void *from, os_stack_t *stack)
{
  if (!source->take_stack)
    return NULL;
  source->take_stack(from, stack);
  return stack;
}

NOINLINE void *apart_take(heap_t *heap, const apart_source_t *source, request_t *r, size_t size)
{
  KEEPS_FRAME();
  os_stack_t place;
  const os_stack_t *stack = look_at_stack(source, __builtin_return_address(0), &place);
  lock_t *gate = gate_enter(GATE_LARGE);
  void *block = take_inside(heap, source, r, size, stack);
  gate_leave(gate);
  return block;
}

static bool give_inside(heap_t *heap, const void *block, const os_stack_t *stack, const char *call)
{
  KEEPS_FRAME();
  huge_t *huge = huge_apart_leave(block);
  if (!huge)
    return false;
  size_t held = huge_size(huge);
  large_count(heap, -1, -(ptrdiff_t)huge_usable(huge), -(ptrdiff_t)held);
  apart_of(huge)->stack = stack;
  apart_of(huge)->source->give(apart_of(huge), call);
  huge_apart_end(huge);
  budget_discharge(&heap->budget, held);
  return true;
}

NOINLINE bool apart_give(heap_t *heap, const apart_source_t *source, const void *block, const char *call)
{
  KEEPS_FRAME();
  os_stack_t place;
  const os_stack_t *stack = look_at_stack(source, __builtin_return_address(0), &place);
  lock_t *gate = gate_enter(GATE_LARGE);
  bool given = give_inside(heap, block, stack, call);
  gate_leave(gate);
  return given;
}

bool apart_resize(heap_t *heap, huge_t *huge, size_t size, const char *call)
{
  huge_apart_t *apart = apart_of(huge);
  size = max_size(size, 1); /* a range needs at least one byte to have a page */
  if (size >= apart->asked || apart->source->as_class)
    return size <= apart->asked;
  lock_t *gate = gate_enter(GATE_LARGE);
  ptrdiff_t less = (ptrdiff_t)(apart->asked - size);
  lock_acquire(&huge_lock);
  if (apart->source->shorten)
    apart->source->shorten(apart, size, call);
  apart->asked = size;
  lock_release(&huge_lock);
  large_count(heap, 0, -less, 0);
  gate_leave(gate);
  return true;
}

void apart_give_all(heap_t *heap, const char *call)
{
  for (huge_t *huge = heap->huge, *older; huge; huge = older) {
    older = huge->older;
    if (huge->is_apart)
      apart_give(heap, apart_of(huge)->source, huge_block(huge), call);
  }
}
