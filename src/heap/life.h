/* SPDX-License-Identifier: MIT
 * The manager comes up and is forked; heaps are created, with their options and regions, reset and destroyed. */
#ifndef HEAP_LIFE_H
#define HEAP_LIFE_H

#include "heap/heap.h"
#include "heap/invalid.h"
#include "os/lock.h"
#include "space/metadata.h"
#include <tidepool/heap.h>

/* ---- startup ---- */

/* Brings the process-wide state up, from any thread. Returns false if the system refuses even the least address space. */
COLD bool manager_bring_up(void);
static inline bool manager_ready(void) { return manager_is_up() || manager_bring_up(); }

/* ---- the end ----
 *
 * A thread that found a misuse ends the process, and its last actions may need memory. */

/* The calling thread is about to end the process, maybe in the middle of a call that holds locks. Its allocations come straight
 * from the system, and its frees are ignored. */
extern INTERNAL THREAD_LOCAL bool heap_is_dying;
static inline bool process_is_ending(void) { return unlikely(heap_is_dying); }
void *dying_allocate(size_t size, size_t alignment);
size_t dying_usable_size(const void *block);

/* ---- fork ----
 *
 * A fork finds nothing half done: manager.c takes each lock, or closes its kind, in nesting order (docs/DESIGN.md). */

/* Held while the process-wide state comes up. */
extern lock_t startup_lock;

/* Registers the fork handlers, once, as early as possible: later handlers run before these in the parent and may allocate.
 * Earlier ones run after these and must neither allocate from the library nor wait for a thread that does. May allocate. */
void fork_watch(void);

/* This process is a child of one that had other threads at the fork. It has inherited their half-done work. */
extern INTERNAL bool fork_lost_threads;

/* ---- create ---- */

/* Returns NULL with EINVAL if options contradict each other or a buffer is too small, or NULL with ENOMEM. */
heap_t *heap_create(const pool_heap_options_t *options);

void heap_destroy(heap_t *heap);

/* ---- reset ----
 *
 * Takes time proportional to the heap's slabs and large blocks. Visits small blocks only to zero them. */

void heap_reset(heap_t *heap);

/* heap_reset(). for_good: its bins and the threads' magazines of it end as well. */
void heap_end_blocks(heap_t *heap, bool for_good);

/* ---- options that all heaps have, and guests of granules ----
 *
 * Such a guest is in a caller's memory of up to 8 MiB: the heap, the table of its own classes, the index, and the blocks.
 * Firmware has no other heap. */

#define SMALL_REGION ((size_t)8 << 20) /* bytes; the longest region of granules, and the largest budget with a region */

/* Returns the bytes that a table of classes is charged, and those of the heap's own; 0: it has none. */
static inline size_t heap_class_table_bytes(size_t classes)
{
  return round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}
static inline size_t heap_own_table_bytes(const pool_heap_options_t *o)
{
  return o->size_classes ? heap_class_table_bytes(o->size_class_count) : 0;
}

/* Returns the granules of the smallest block. One with a head has room for a byte. */
size_t heap_least_granules(const pool_heap_options_t *options);

/* Returns the bytes that a heap with one block takes at an address. */
size_t guest_least(const pool_heap_options_t *options, uintptr_t address);

/* Memory that wraps around the end of the address space is refused. */
static inline bool guest_memory_ends(const pool_heap_options_t *o)
{
  return (uintptr_t)o->memory + o->memory_size >= (uintptr_t)o->memory || invalid(INVALID_MEMORY_WRAPS, o->memory_size);
}

/* Creates the heap as far as the memory decides. Returns NULL if it is too small. */
heap_t *guest_create(const pool_heap_options_t *options);

/* Copies the caller's options, of `size` bytes; NULL: all defaults. Returns false if the size is too small or the caller has
 * set an unknown field. */
bool heap_take_options(pool_heap_options_t *own, const pool_heap_options_t *options, size_t size);

/* Sets what the region of any guest has, and what any heap copies from its options. */
void guest_set_region(heap_t *heap, const pool_heap_options_t *options);
void heap_set_options(heap_t *heap, const pool_heap_options_t *options);

/* ---- validity of options ---- */

/* Returns false with EINVAL, and pool_error() names the wrong field. */
bool heap_options_are_valid(const pool_heap_options_t *options);

/* Returns the least budget with room for the records of a heap with these options. */
size_t heap_least_budget(const pool_heap_options_t *o);

size_t heap_least_memory(const pool_heap_options_t *options);

/* ---- regions ----
 *
 * A region is memory of one heap alone, with the records that describe it. A heap has one if it has a reserve, a small budget,
 * or memory of a caller, which holds the heap as well. A region of up to 8 MiB is cut into granules, a longer one into units.
 * options.c says which options contradict each other, and how little memory or budget is enough. */

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
