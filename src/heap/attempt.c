/* SPDX-License-Identifier: MIT
 * The order in which a request goes on after a heap has failed to serve it: its callback, then the heap that it overflows to.
 */
#include "heap/blocks.h"

enum { ATTEMPTS = 64 /* calls of on_exhausted for one request */ };

attempt_t heap_first_attempt(heap_t *heap, origin_t by) { return (attempt_t){.first = heap, .heap = heap, .by = by}; }

/* A callback that always returns true is cut off after ATTEMPTS calls. */
bool heap_next_attempt(attempt_t *from, size_t size, bool may_ask)
{
  heap_t *heap = from->heap;
  if (may_ask && heap->on_exhausted && from->attempt < ATTEMPTS &&
      heap->on_exhausted(heap, size, from->attempt, heap->context)) {
    from->attempt++;
    __atomic_fetch_add(&heap->retried_count, 1, __ATOMIC_RELAXED);
    return true;
  }
  from->heap = heap_overflow(heap);
  from->attempt = 0;
  return from->heap != NULL;
}

void heap_count_overflowed(const attempt_t *from)
{
  for (heap_t *heap = from->first; heap != from->heap; heap = heap_overflow(heap))
    __atomic_fetch_add(&heap->overflowed_count, 1, __ATOMIC_RELAXED);
}
