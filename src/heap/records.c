/* SPDX-License-Identifier: MIT
 *
 * A record comes from one of three places: the memory of a guest; room that was paid for when the heap was made; or the
 * process's metadata, which the heap is then charged for. Only what comes from the last is ever given back. */
#include "heap/records.h"
#include "base/shared.h"
#include "os/tool.h"
#include "space/metadata.h"

/* Takes a record behind those that there are, or in a new run of the region. The guest's lock is held, or no other thread knows
 * of the heap yet. */
static void *guest_take_record(heap_t *heap, size_t size)
{
  if (size > (size_t)(heap->records_end - heap->records)) {
    run_t *run = space_take_charged(heap->space, &heap->budget, size, 1);
    if (!run)
      return NULL;
    run_become(run, RUN_REGION, NULL);
    heap->records = run->start;
    heap->records_end = run->start + run_bytes(arena_of(heap->space, run->start), run);
    if (HAS_SYSTEM && unlikely(heap->marked)) /* it may have had blocks, which are closed */
      os_tool_open(heap->records, (size_t)(heap->records_end - heap->records));
    __atomic_fetch_add(&heap->record_run_bytes, (size_t)(heap->records_end - heap->records), __ATOMIC_RELAXED);
  }
  void *record = heap->records;
  heap->records += size;
  return shared_clear(record, size);
}

static bool is_paid_for(const heap_t *heap, const void *record)
{
  return (uintptr_t)record - (uintptr_t)heap->records_start < heap->reserve_records;
}

/* The size is rounded as the metadata rounds it, so that what is charged is what is taken. */
bool heap_charge_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  if (!budget_charge(&heap->budget, size))
    return false;
  budget_note_peak(&heap->budget);
  __atomic_fetch_add(&heap->record_bytes, size, __ATOMIC_RELAXED);
  return true;
}

void heap_discharge_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  __atomic_fetch_sub(&heap->record_bytes, size, __ATOMIC_RELAXED);
  budget_discharge(&heap->budget, size);
}

/* Charged first, so that a heap at the end of its budget takes nothing. */
void *heap_take_record_apart(heap_t *heap, size_t size)
{
  if (!heap_charge_record(heap, size))
    return NULL;
  void *record = metadata_take(round_up(size, METADATA_ALIGNMENT), METADATA_ALIGNMENT);
  if (!record)
    heap_discharge_record(heap, size);
  return record;
}

/* Room that was paid for at creation is used first. When it has ended, growth may fail. */
void *heap_take_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  if (heap_is_guest(heap))
    return guest_take_record(heap, size);
  if (size > (size_t)(heap->records_end - heap->records))
    return heap_take_record_apart(heap, size);
  heap->records += size;
  return heap->records - size;
}

/* Records of a guest, and those that were paid for at creation, last as long as the heap. */
void heap_give_record(heap_t *heap, void *record, size_t size)
{
  if (!record || heap_is_guest(heap) || is_paid_for(heap, record))
    return;
  metadata_give(record, round_up(size, METADATA_ALIGNMENT));
  heap_discharge_record(heap, size);
}
