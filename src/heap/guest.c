/* SPDX-License-Identifier: MIT
 * A heap of granules in a caller's memory is laid out. */
#include "base/text.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include <string.h>

size_t heap_least_granules(const pool_heap_options_t *o)
{
  size_t size = o->size_classes ? o->size_classes[0] : 1;
  return granules_for(o->flags & (POOL_HEAP_CHECKED | POOL_HEAP_SITES) ? headed_size(size, 1) : size);
}

/* In front of the granules are the heap, the table of its own classes, and the index. */
static size_t records_of(const pool_heap_options_t *o) { return HEAP_RECORD_SHORT + heap_own_table_bytes(o); }

size_t guest_least(const pool_heap_options_t *o, uintptr_t address)
{
  size_t least = heap_least_granules(o), records = records_of(o) + granules_index_bytes(least);
  return round_up(round_up(address, GRANULE) + records, GRANULE) + least * GRANULE - address;
}

heap_t *guest_create(const pool_heap_options_t *o)
{
  uintptr_t memory = (uintptr_t)o->memory, end = round_down(memory + o->memory_size, GRANULE);
  if (!guest_memory_ends(o))
    return NULL;
  if (o->memory_size < guest_least(o, memory))
    return invalid(INVALID_MEMORY_IS_LESS, o->memory_size, guest_least(o, memory));
  heap_t *heap = memset((void *)round_up(memory, GRANULE), 0, HEAP_RECORD_SHORT);
  char *index = (char *)heap + records_of(o);
  size_t count = granular_count_for(end - (uintptr_t)index);
  heap->records = (char *)heap + HEAP_RECORD_SHORT;
  heap->records_end = index;
  heap->head_bytes = heap->metadata_bytes = o->memory_size - (count << GRANULE_LOG2);
  memset(index, 0, granules_index_bytes(count));
  granular_init(heap, index, (char *)end - (count << GRANULE_LOG2), count);
  guest_set_region(heap, o);
  return heap;
}

void guest_set_region(heap_t *heap, const pool_heap_options_t *o)
{
  heap->region.kind = REGION_GUEST;
  heap->region.start = o->memory;
  heap->region.size = o->memory_size;
}

/* The size of the options before they first grew. */
enum { HEAP_OPTIONS_LEAST = offsetof(pool_heap_options_t, flags) + sizeof(unsigned) };

bool heap_take_options(pool_heap_options_t *own, const pool_heap_options_t *options, size_t size)
{
  if (!options)
    return memset(own, 0, sizeof *own);
  if (size < HEAP_OPTIONS_LEAST)
    return invalid(INVALID_OPTIONS_ARE_CUT, size, HEAP_OPTIONS_LEAST, (uintptr_t) "pool_heap_options_t");
  return grown_take(own, sizeof *own, options, size) ||
         invalid(INVALID_OPTIONS_ARE_NEWER, sizeof *own, size, (uintptr_t) "pool_heap_options_t");
}

void heap_set_options(heap_t *heap, const pool_heap_options_t *o)
{
  static uint32_t last_number;
  heap->mark = HEAP_LIVE_MARK;
  heap->budget.limit = o->budget;
  heap->parent = o->parent;
  heap->budget.parent = o->parent ? &o->parent->budget : NULL;
  heap->on_exhausted = o->on_exhausted;
  heap->overflow = o->overflow;
  heap->context = o->context;
  heap->flags = o->flags;
  heap->lock.solo = o->flags & POOL_HEAP_SINGLE_THREAD;
  text_name(heap->name, sizeof heap->name, o->name, "heap-", &last_number);
}
