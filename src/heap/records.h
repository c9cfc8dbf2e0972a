/* SPDX-License-Identifier: MIT
 *
 * Memory for what a heap has to know of itself: its bins, its table of classes, the records of the object pools in it. It is
 * paid for at creation where growth must not fail; it is in the caller's memory where the heap is; else it is the process's
 * metadata. */
#ifndef HEAP_RECORDS_H
#define HEAP_RECORDS_H

#include "heap/types.h"

/* Zeroed memory for the heap's own records, on its account, as long as the heap lives or until it is given back. The first
 * under the heap's lock; the second is for others than the heap itself, and not for guests. */
void *heap_take_record(heap_t *heap, size_t size);
void *heap_take_record_apart(heap_t *heap, size_t size);
void heap_give_record(heap_t *heap, void *record, size_t size);

/* Whether what stands on the heap can have its records apart: not in a caller's memory, and not where nothing may be touched
 * for the first time. */
static inline bool heap_has_records_apart(const heap_t *heap)
{
  return !heap_is_guest(heap) && (!heap->region.kind || heap_has_granules(heap) || heap->region.space.purgeable);
}

/* The account of a record that is kept elsewhere. False: over the budget. */
bool heap_charge_record(heap_t *heap, size_t size);
void heap_discharge_record(heap_t *heap, size_t size);

#endif
