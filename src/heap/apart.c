/* SPDX-License-Identifier: MIT
 *
 * Record, charge, list and figures have no lock in common, so what changes them is inside GATE_LARGE, as for large blocks. */
#include "heap/apart.h"
#include "heap/large.h"
#include "space/gate.h"

void apart_begin(heap_t *heap, const apart_source_t *source)
{
  heap->apart = true;
  heap->apart_source = source;
  heap->cached = heap->has_cache_slot = heap->reached = heap->plain_granules = false;
  heap->plane = BIN_PLANE_NONE;
}

/* The source may take less than it said beforehand, never more: what is held stays within the budget. */
static huge_t *take_record(heap_t *heap, const apart_source_t *source, size_t size, size_t alignment, bool *zeroed)
{
  huge_t *huge = huge_apart_record();
  if (!huge)
    return NULL;
  huge->source = source;
  huge->is_wiped = heap->zero_on_free;
  if (source->take(huge, heap, size, alignment, zeroed))
    return huge;
  huge_apart_end(huge);
  return NULL;
}

static void *take_inside(heap_t *heap, const apart_source_t *source, size_t size, size_t alignment, block_past_t *past)
{
  bool zeroed = false;
  size_t bytes = source->bytes(size, alignment);
  if (!budget_charge(&heap->budget, bytes))
    return NULL;
  huge_t *huge = take_record(heap, source, size, alignment, &zeroed);
  size_t held = huge ? huge_size(huge) : 0;
  budget_discharge(&heap->budget, bytes - held);
  if (!huge)
    return NULL;
  budget_note_peak(&heap->budget);
  large_count(heap, 1, (ptrdiff_t)huge_usable(huge), (ptrdiff_t)held);
  void *block = huge_block(huge);
  huge_apart_enter(huge, heap, &heap->huge);
  *past = zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  return block;
}

void *apart_take(heap_t *heap, const apart_source_t *source, size_t size, size_t alignment, block_past_t *past)
{
  lock_t *gate = gate_enter(GATE_LARGE);
  void *block = take_inside(heap, source, size, alignment, past);
  gate_leave(gate);
  return block;
}

static bool give_inside(heap_t *heap, const void *block, const char *call)
{
  huge_t *huge = huge_apart_leave(block);
  if (!huge)
    return false;
  size_t held = huge_size(huge);
  large_count(heap, -1, -(ptrdiff_t)huge_usable(huge), -(ptrdiff_t)held);
  huge->source->give(huge, call);
  huge_apart_end(huge);
  budget_discharge(&heap->budget, held);
  return true;
}

bool apart_give(heap_t *heap, const void *block, const char *call)
{
  lock_t *gate = gate_enter(GATE_LARGE);
  bool given = give_inside(heap, block, call);
  gate_leave(gate);
  return given;
}

void apart_give_all(heap_t *heap, const char *call)
{
  for (huge_t *huge = heap->huge, *older; huge; huge = older) {
    older = huge->older;
    if (huge->source)
      apart_give(heap, huge_block(huge), call);
  }
}
