/* SPDX-License-Identifier: MIT
 *
 * A region is memory of one heap alone, cut into units or granules, with the records that describe them. A heap has one if it
 * has a reserve, a small budget, or memory of a caller, which holds the heap as well. */
#ifndef REGION_H
#define REGION_H

#include "heap/heap.h"
#include <tidepool/heap.h>

enum {
  SMALL_REGION = 8 << 20, /* bytes; a budget or a reserve of up to this size is one region of small units */
  UNCACHED_BUDGET =
    1 << 20 /* bytes; up to this budget threads cache no blocks, and the region is of granules, like a dense one */
};

/* Returns whether the heap has a region in the system's memory. Guarded heaps have their blocks elsewhere. */
static inline bool region_is_wanted(const pool_heap_options_t *o)
{
  return o->reserve || (o->budget && o->budget <= SMALL_REGION && !(o->flags & POOL_HEAP_GUARDED));
}

bool region_is_small(const pool_heap_options_t *options);

/* Returns whether the region is of granules: that of a small budget, or of a dense heap. */
static inline bool region_is_of_granules(const pool_heap_options_t *o)
{
  return !o->reserve && !o->size_classes && (o->budget <= UNCACHED_BUDGET || o->flags & POOL_HEAP_DENSE);
}

/* Returns whether pages are faulted in before the first block, or locked in memory. */
bool region_is_real_time(const pool_heap_options_t *options);

/* Creates a heap and its region in the caller's memory, as far as the memory decides. Returns NULL if it is too small. */
heap_t *region_create_guest(const pool_heap_options_t *options);

typedef struct region_plan {
  unsigned unit_log2;
  size_t units;
  size_t heap_record;   /* bytes */
  size_t arena_records; /* bytes */
  size_t bin_records;   /* bytes; paid for at once, so that a reserve serves any mixture of classes */
  bool granules;        /* instead of units */
} region_plan_t;

/* A plan has no units if the budget has no room for one. */
region_plan_t region_plan(const pool_heap_options_t *options);

/* Returns the least budget, or memory of a caller, that a heap with these options can be created with. */
size_t region_least(const pool_heap_options_t *options);

/* Returns how many bytes of a caller's memory of size `least` are not for blocks, at least: a smaller budget is useless. */
size_t region_least_records(const pool_heap_options_t *options, size_t least);

/* The plan of a heap without a region. */
region_plan_t region_no_plan(const pool_heap_options_t *options);

/* Returns the heap's charge for the plan: its record, the region's records, and the units if they are paid for at once. */
size_t region_plan_bytes(const region_plan_t *plan, bool units_too);

/* Makes the region the heap's space. Returns false if there is no memory; region_give() frees what was taken. */
bool region_make(heap_t *heap, const pool_heap_options_t *options, const region_plan_t *plan);

bool region_prepare(heap_t *heap, const pool_heap_options_t *options);

/* No address leads to the heap after region_hide(). region_give() then gives its memory back, unless it is the caller's. */
void region_hide(heap_t *heap);
void region_give(heap_t *heap);

static inline size_t heap_record_bytes(bool own_page)
{
  return own_page ? round_up(sizeof(heap_t), os_page_size()) : sizeof(heap_t);
}

#endif
