/* SPDX-License-Identifier: MIT
 *
 * A region is memory of one heap alone, with the records that describe it. A heap has one if it has a reserve, a small budget,
 * or memory of a caller, which holds the heap as well. A region of up to 8 MiB is cut into granules, a longer one into units.
 * options.c says which options contradict each other, and how little memory or budget is enough. */
#ifndef REGION_H
#define REGION_H

#include "heap/guest.h"

/* ---- options ---- */

/* Returns false with EINVAL, and pool_error() names the wrong field. */
bool heap_options_are_valid(const pool_heap_options_t *options);

/* Returns the least budget with room for the records of a heap with these options. */
size_t heap_least_budget(const pool_heap_options_t *o);

size_t heap_least_memory(const pool_heap_options_t *options);

/* ---- region ---- */

/* Returns whether the heap has a region in the system's memory. Guarded heaps have their blocks elsewhere. */
static inline bool region_is_wanted(const pool_heap_options_t *o)
{
  return o->reserve || (o->budget && o->budget <= SMALL_REGION && !(o->flags & POOL_HEAP_GUARDED));
}

/* Creates a heap and its region in the caller's memory, as far as the memory decides. Returns NULL if it is too small. */
heap_t *region_create_guest(const pool_heap_options_t *options);

typedef struct region_plan {
  size_t bytes;       /* for blocks: whole units or granules */
  size_t heap_record; /* bytes */
  size_t records;     /* bytes: of the arena, or the index of the granules */
  size_t bin_records; /* bytes; paid for at once, so that a reserve of units serves any mixture of classes */
  bool granules;      /* instead of units */
} region_plan_t;

/* A plan has no bytes for blocks if the budget has no room for any. */
region_plan_t region_plan(const pool_heap_options_t *options);

/* Returns the least budget, or memory of a caller, that a heap with these options can be created with. */
size_t region_least(const pool_heap_options_t *options);

/* Returns how many bytes of a caller's memory of size `least` are not for blocks, at least: a smaller budget is useless. */
size_t region_least_records(const pool_heap_options_t *options, size_t least);

/* The plan of a heap without a region. */
region_plan_t region_no_plan(const pool_heap_options_t *options);

/* Returns the heap's charge for the plan: its record, the region's records, and the blocks if they are paid for at once. */
size_t region_plan_bytes(const region_plan_t *plan, bool blocks_too);

/* Makes the region the heap's space. Returns false if there is no memory; region_give() frees what was taken. */
bool region_make(heap_t *heap, const pool_heap_options_t *options, const region_plan_t *plan);

bool region_prepare(heap_t *heap, const pool_heap_options_t *options);

/* No address leads to the heap after region_hide(). region_give() then gives its memory back, unless it is the caller's. */
void region_hide(heap_t *heap);
void region_give(heap_t *heap);

#endif
