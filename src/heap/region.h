/* SPDX-License-Identifier: MIT
 *
 * The region of a heap: memory that is the heap's alone, cut into units, with the records that describe them. A reserve has
 * one, a small budget, and a heap in the caller's memory, which is all inside of it. */
#ifndef REGION_H
#define REGION_H

#include "heap/heap.h"
#include <tidepool/heap.h>

enum {
  SMALL_REGION = 8 << 20, /* up to here a whole budget, or a reserve, is one region of small units */
  UNCACHED_BUDGET =
    1 << 20 /* up to here no thread keeps blocks back from the others, and the region is of granules, as a dense one */
};

/* Whether a heap with these options has one in the system's memory; a caller's is one as well. A small one is of small
 * units. A guarded heap has its blocks elsewhere, whatever its budget. */
static inline bool region_is_wanted(const pool_heap_options_t *o)
{
  return o->reserve || (o->budget && o->budget <= SMALL_REGION && !(o->flags & POOL_HEAP_GUARDED));
}

bool region_is_small(const pool_heap_options_t *options);

/* Whether that is of granules: a small budget's, or that of a dense heap. */
static inline bool region_is_of_granules(const pool_heap_options_t *o)
{
  return !o->reserve && !o->size_classes && (o->budget <= UNCACHED_BUDGET || o->flags & POOL_HEAP_DENSE);
}

/* Its pages are there before the first block, or stay in memory. */
bool region_is_real_time(const pool_heap_options_t *options);

/* A heap and its region in the caller's memory, so far as the memory decides. NULL: it is too little. */
heap_t *region_create_guest(const pool_heap_options_t *options);

/* How a region of the system's memory is made. */
typedef struct region_plan {
  unsigned unit_log2;
  size_t units;
  size_t heap_record;   /* bytes */
  size_t arena_records; /* bytes */
  size_t bin_records;   /* paid for at once, so that a reserve serves any mixture of classes */
  bool granules;        /* instead of units */
} region_plan_t;

/* No units: the budget has no room for one. */
region_plan_t region_plan(const pool_heap_options_t *options);

/* Returns the least budget, or memory of the caller's, that a heap with these options can be made with. */
size_t region_least(const pool_heap_options_t *options);

/* How many bytes of a caller's memory of that size are not for blocks, at least: a budget below it is of no use. */
size_t region_least_records(const pool_heap_options_t *options, size_t least);

/* The same for a heap without a region. */
region_plan_t region_no_plan(const pool_heap_options_t *options);

/* Returns what the heap is charged for the plan: its record, those of the region, and the units if they are paid for at
 * once. */
size_t region_plan_bytes(const region_plan_t *plan, bool units_too);

/* Makes it the heap's space. False: no memory; what is there already goes with region_give(). */
bool region_make(heap_t *heap, const pool_heap_options_t *options, const region_plan_t *plan);

/* Touches and locks what the options say. */
bool region_prepare(heap_t *heap, const pool_heap_options_t *options);

/* After region_hide() no address leads to the heap any more. region_give() then gives its memory back, unless it is the
 * caller's. */
void region_hide(heap_t *heap);
void region_give(heap_t *heap);

/* Returns what the record of a heap takes: a page of its own if it is to be locked. */
static inline size_t heap_record_bytes(bool own_page)
{
  return own_page ? round_up(sizeof(heap_t), os_page_size()) : sizeof(heap_t);
}

#endif
