/* SPDX-License-Identifier: MIT
 * A region is planned before it is made (region_plan()), because its records and units share one budget. */
#include "heap/region.h"
#include "bin/slabs.h"
#include "heap/granular.h"
#include "heap/heads.h"
#include "heap/invalid.h"
#include "option.h"
#include "space/metadata.h"
#include "space/refusals.h"
#include <string.h>

enum {
  REGION_UNITS = 16,           /* units of a region whose unit size lies between the next two */
  REGION_UNIT_LEAST_LOG2 = 10, /* 1 KiB */
  REGION_UNIT_MOST_LOG2 = 12,  /* 4 KiB */
  REGION_UNIT_LARGE_LOG2 = 13, /* from 1 MiB on: each unit costs 128 bytes of records */
  REGION_LARGE = 1 << 20,
  CLASS_MOST_UNITS = 8 /* units of a region of small units; a larger block is a run */
};

bool region_is_small(const pool_heap_options_t *o) { return o->reserve <= SMALL_REGION; }

bool region_is_real_time(const pool_heap_options_t *o) { return o->flags & (POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY); }

/* ---- unit sizes ---- */

/* Small units let few bytes serve many classes. Each unit costs a record, so large regions have larger units. */
static unsigned region_unit_log2(size_t size)
{
  unsigned log2 = log2_floor(max_size(size / REGION_UNITS, 1));
  if (size >= REGION_LARGE)
    return REGION_UNIT_LARGE_LOG2;
  return log2 < REGION_UNIT_LEAST_LOG2 ? REGION_UNIT_LEAST_LOG2 : log2 > REGION_UNIT_MOST_LOG2 ? REGION_UNIT_MOST_LOG2 : log2;
}

static uint32_t class_most_of(unsigned unit_log2)
{
  return unit_log2 == UNIT_LOG2 ? SIZE_MAX_CLASS : CLASS_MOST_UNITS << unit_log2;
}

static uint32_t purge_delay_of(const pool_heap_options_t *o)
{
  if (!HAS_SYSTEM)
    return PURGE_NEVER;
  return o->purge_delay_ms ? o->purge_delay_ms : settings.purge_delay_ms;
}

/* ---- guests ---- */

/* Reserves room for a record behind the others, or in units of its own. Returns how many units are left; 0: it does not fit. */
static size_t place_record(size_t size, size_t *room, size_t units, unsigned unit_log2)
{
  size = round_up(size, METADATA_ALIGNMENT);
  if (size > *room) {
    size_t takes = units_for(size, unit_log2);
    if (takes > units)
      return 0;
    *room = takes << unit_log2;
    units -= takes;
  }
  *room -= size;
  return units;
}

/* A heap that could never serve a block is refused. Behind its first records (the table of its own classes, the record of a
 * bin) there must be room for a slab of the smallest class. */
static bool can_serve(const pool_heap_options_t *o, size_t units, unsigned unit_log2, const char *base, const char *records)
{
  const char *at = (const char *)round_up((uintptr_t)records, sizeof(uint64_t));
  size_t room = at < base ? (size_t)(base - at) : 0, smallest = o->size_classes ? o->size_classes[0] : BLOCK_ALIGNMENT;
  if (o->size_classes)
    units = place_record((o->size_class_count + 1) * sizeof(uint32_t), &room, units, unit_log2);
  units = units ? place_record(sizeof(bin_t), &room, units, unit_log2) : 0;
  return slabs_least_bytes(smallest, unit_log2) <= units << unit_log2;
}

/* ---- guests of granules ---- */

/* Own classes need bins. */
static bool guest_has_granules(const pool_heap_options_t *o)
{
  return !HAS_SYSTEM || (!o->size_classes && o->memory_size <= SMALL_REGION);
}

/* Returns the granules of the smallest block. One with a head has room for a byte. */
static size_t least_granules(const pool_heap_options_t *o)
{
  return o->flags & (POOL_HEAP_CHECKED | POOL_HEAP_SITES) ? granules_for(headed_size(1, 1)) : GRANULES_LEAST;
}

/* Returns the bytes that a heap with one block takes at an address. */
static size_t granular_enough(const pool_heap_options_t *o, uintptr_t address)
{
  size_t least = least_granules(o), record = HEAP_RECORD_SHORT + granules_index_bytes(least);
  return round_up(round_up(address, GRANULE) + record, GRANULE) + least * GRANULE - address;
}

/* The heap and the index are in front, the granules at the end. */
static heap_t *create_granular_guest(const pool_heap_options_t *o)
{
  uintptr_t memory = (uintptr_t)o->memory, end = round_down(memory + o->memory_size, GRANULE);
  if (o->memory_size < granular_enough(o, memory))
    return invalid(INVALID_MEMORY_IS_LESS, o->memory_size, granular_enough(o, memory));
  heap_t *heap = memset((void *)round_up(memory, GRANULE), 0, HEAP_RECORD_SHORT);
  char *index = (char *)heap + HEAP_RECORD_SHORT;
  size_t count = granular_count_for(end - (uintptr_t)index);
  heap->region.kind = REGION_GUEST;
  heap->region.start = o->memory;
  heap->region.size = o->memory_size;
  heap->region.purge_delay_ms = purge_delay_of(o);
  heap->head_bytes = heap->metadata_bytes = o->memory_size - (count << GRANULE_LOG2);
  granular_init(heap, index, (char *)end - (count << GRANULE_LOG2), count);
  return heap;
}

/* Returns a size that is enough for these options at any address: both ends of the buffer may lose bytes to alignment. Each
 * record is assumed to take units of its own. */
static size_t guest_enough(const pool_heap_options_t *o)
{
  for (size_t size = KIB;; size = round_up(size + size / 8, KIB)) {
    unsigned unit_log2 = size > SMALL_REGION ? UNIT_LOG2 : region_unit_log2(size);
    size_t unit = (size_t)1 << unit_log2, lost = METADATA_ALIGNMENT + sizeof(heap_t) + unit;
    size_t units = size > lost ? (size - lost) >> unit_log2 : 0;
    while (units && lost + space_region_records(units, unit_log2) + (units << unit_log2) > size)
      units--;
    if (units && can_serve(o, units, unit_log2, NULL, NULL))
      return size;
  }
}

/* Everything is in the caller's memory: the heap, the records of its arena and its bins, and the units. Memory that wraps
 * around the end of the address space is refused. */
heap_t *region_create_guest(const pool_heap_options_t *o)
{
  if ((uintptr_t)o->memory + o->memory_size < (uintptr_t)o->memory)
    return invalid(INVALID_MEMORY_WRAPS, o->memory_size);
  if (guest_has_granules(o))
    return create_granular_guest(o);
  char *memory = o->memory, *at = (char *)round_up((uintptr_t)memory, 64), *end = memory + o->memory_size;
  if (end < at + sizeof(heap_t))
    return invalid(INVALID_MEMORY_IS_SMALL, o->memory_size, guest_enough(o));
  heap_t *heap = memset(at, 0, sizeof *heap);
  heap_region_t *region = &heap->region;
  unsigned unit_log2 = o->memory_size > SMALL_REGION ? UNIT_LOG2 : region_unit_log2(o->memory_size);
  char *records = space_init_guest(&region->space, &region->arena, heap + 1, (size_t)(end - (char *)(heap + 1)), unit_log2);
  if (!records || !can_serve(o, region->arena.unit_count, unit_log2, region->arena.base, records))
    return invalid(INVALID_MEMORY_IS_SMALL, o->memory_size, guest_enough(o));
  region->kind = REGION_GUEST;
  region->start = memory;
  region->size = o->memory_size;
  region->space.purge_delay_ms = purge_delay_of(o);
  heap->space = &region->space;
  heap->class_most = class_most_of(unit_log2);
  heap->records = (char *)round_up((uintptr_t)records, sizeof(uint64_t));
  heap->records_end = region->arena.base;
  heap->head_bytes = heap->metadata_bytes = o->memory_size - ((size_t)region->arena.unit_count << unit_log2);
  return heap;
}

/* ---- the plan of a region in the system's memory ---- */

/* Returns the most that the records of bins can take. A bin takes at least a unit, so there are no more bins than units. */
static size_t bin_records_for(const pool_heap_options_t *o, size_t units)
{
  size_t classes = o->size_classes ? o->size_class_count : CLASS_LAST;
  return min_size(classes, units) * round_up(sizeof(bin_record_t), METADATA_ALIGNMENT) +
         round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}

region_plan_t region_no_plan(const pool_heap_options_t *o)
{
  return (region_plan_t){.heap_record = heap_record_bytes(region_is_real_time(o))};
}

/* All costs of the region are computed beforehand, so that the budget is charged once. */
static region_plan_t plan_for(const pool_heap_options_t *o, size_t size, size_t units)
{
  region_plan_t plan = region_no_plan(o);
  plan.unit_log2 = size > SMALL_REGION ? UNIT_LOG2 : region_unit_log2(size);
  plan.units = units;
  plan.arena_records = space_region_records(units, plan.unit_log2);
  if (region_is_real_time(o))
    plan.arena_records = round_up(plan.arena_records, os_page_size()); /* whole pages, which can be locked */
  plan.bin_records = o->reserve ? round_up(bin_records_for(o, units), os_page_size()) : 0;
  return plan;
}

size_t region_plan_bytes(const region_plan_t *plan, bool units_too)
{
  return plan->heap_record + plan->arena_records + plan->bin_records + (units_too ? plan->units << plan->unit_log2 : 0);
}

/* Returns the units that are enough to fill the reserve with blocks of any one class. The end of a slab may be wasted, so some
 * classes need more units. Rounding of large blocks is not included. */
static size_t reserve_units(const pool_heap_options_t *o, unsigned unit_log2)
{
  size_t units = units_for(o->reserve, unit_log2), most = class_most_of(unit_log2);
  size_t classes = o->size_classes ? o->size_class_count : CLASS_LAST;
  for (size_t i = 0; i < classes; i++) {
    size_t size = o->size_classes ? o->size_classes[i] : size_class_size((unsigned)i + 1);
    if (o->size_classes || size <= most)
      units = max_size(units, bin_units_for(size, o->reserve, unit_log2));
  }
  return units;
}

static size_t granular_records(size_t count)
{
  return round_up(granules_index_bytes(count) + 2 * granular_pages(count) / 8, METADATA_ALIGNMENT);
}

/* Granules get all of the budget that the records leave. */
static region_plan_t plan_of_granules(const pool_heap_options_t *o)
{
  region_plan_t plan = region_no_plan(o);
  size_t room = o->budget - min_size(plan.heap_record, o->budget), count = granular_count_for(room);
  while (count && granular_records(count) + (count << GRANULE_LOG2) > room)
    count--;
  plan.granules = true;
  plan.unit_log2 = GRANULE_LOG2;
  plan.units = count < least_granules(o) ? 0 : count;
  plan.arena_records = granular_records(max_size(plan.units, least_granules(o)));
  return plan;
}

/* A reserve is for blocks alone, and the records that serve them come on top. If the budget has no room for all, units are
 * dropped until it fits. A small budget has as many units as it could pay for. */
region_plan_t region_plan(const pool_heap_options_t *o)
{
  if (region_is_of_granules(o))
    return plan_of_granules(o);
  size_t size = o->reserve ? o->reserve : o->budget;
  unsigned unit_log2 = plan_for(o, size, 1).unit_log2;
  size_t units = o->reserve ? reserve_units(o, unit_log2) : size >> unit_log2;
  region_plan_t plan = plan_for(o, size, units);
  while (o->reserve && o->budget && plan.units && region_plan_bytes(&plan, true) > o->budget) {
    size_t over = region_plan_bytes(&plan, true) - o->budget, fewer = 1 + over / 2 / (((size_t)1 << unit_log2) + sizeof(run_t));
    plan = plan_for(o, size, plan.units - min_size(fewer, plan.units));
  }
  return plan;
}

/* ---- creation ---- */

/* Takes the units of a small region: a run, or a mapping if it is long, aligned to a unit (it may exceed a page). */
static char *take_small_region(heap_t *heap, size_t bytes, size_t alignment, bool *dirty)
{
  heap_region_t *region = &heap->region;
  bool zeroed;
  if (bytes > space_longest_run() << UNIT_LOG2) {
    region->huge = huge_take(bytes, alignment, heap, NULL, &zeroed);
    *dirty = region->huge && !zeroed;
    return region->huge ? huge_start(region->huge) : NULL;
  }
  region->run = space_take(&space_of_process, space_units(&space_of_process, bytes), 1);
  if (!region->run)
    return NULL;
  *dirty = !region->run->zeroed;
  return region->run->start;
}

/* The kind is set first: an undo then knows what to give back. */
static bool take_slots(heap_region_t *region, const region_plan_t *plan)
{
  region->kind = REGION_SLOTS;
  if (!space_init_slots(&region->space, plan->units))
    return false;
  region->start = region->space.fixed->base;
  return true;
}

/* The region is found by its address as soon as its run or mapping says so, which is therefore last. */
static bool take_small_units(heap_t *heap, const region_plan_t *plan)
{
  heap_region_t *region = &heap->region;
  size_t unit = (size_t)1 << plan->unit_log2;
  bool dirty;
  region->kind = REGION_SMALL;
  region->arena_records = metadata_take(plan->arena_records, heap->own_page ? os_page_size() : METADATA_ALIGNMENT);
  region->start = region->arena_records ? take_small_region(heap, plan->units * unit, unit, &dirty) : NULL;
  if (!region->start)
    return false;
  space_init_region(&region->space, &region->arena, region->arena_records, region->start, plan->units, plan->unit_log2, dirty);
  if (region->run)
    run_become(region->run, RUN_REGION, heap); /* last: questions find the region from here on */
  else
    huge_hide(region->huge, false);
  return true;
}

/* Takes a small region of granules, in the order of take_small_units(). */
static bool take_granules(heap_t *heap, const region_plan_t *plan)
{
  heap_region_t *region = &heap->region;
  bool dirty;
  region->kind = REGION_SMALL;
  char *index = region->arena_records = metadata_take(plan->arena_records, METADATA_ALIGNMENT);
  region->start = index ? take_small_region(heap, plan->units << GRANULE_LOG2, os_page_size(), &dirty) : NULL;
  if (!region->start)
    return false;
  granular_init(heap, index, region->start, plan->units);
  granular_count_dirty(heap, (word_t *)(uintptr_t)(index + granules_index_bytes(plan->units)), dirty);
  if (region->run)
    run_become(region->run, RUN_REGION, heap);
  else
    huge_hide(region->huge, false);
  return true;
}

static bool take_region(heap_t *heap, const region_plan_t *plan)
{
  refusals_forget();
  if (plan->granules ? !take_granules(heap, plan)
                     : !(plan->unit_log2 == UNIT_LOG2 ? take_slots(&heap->region, plan) : take_small_units(heap, plan)))
    return false;
  heap->region.size = plan->units << plan->unit_log2;
  return true;
}

/* The records of a reserve's bins are taken at once, so that a class that is requested later cannot fail for lack of one. */
static bool take_bin_records(heap_t *heap, const region_plan_t *plan)
{
  if (!plan->bin_records)
    return true;
  heap->records_start = metadata_take(plan->bin_records, os_page_size());
  heap->records = heap->records_start;
  heap->records_end = heap->records ? heap->records + plan->bin_records : NULL;
  heap->reserve_records = heap->records ? plan->bin_records : 0;
  return heap->records != NULL;
}

/* The heap goes on in the process's space when a reserve is full or a small budget has been raised. */
bool region_make(heap_t *heap, const pool_heap_options_t *o, const region_plan_t *plan)
{
  space_t *space = &heap->region.space;
  if (!take_region(heap, plan) || !take_bin_records(heap, plan))
    return false;
  heap->region.purge_delay_ms = purge_delay_of(o);
  if (plan->granules) {
    granular_begin(heap);
    return true;
  }
  heap->space = space;
  heap->class_most = class_most_of(plan->unit_log2);
  space->fallback = &space_of_process;
  space->prepaid = o->reserve != 0;
  if (!space->prepaid)
    space_count_unpaid(space);
  space->purge_delay_ms = heap->region.purge_delay_ms;
  return true;
}

/* ---- prefaulting and locking ---- */

typedef bool piece_fn(void *start, size_t size);

/* The system faults in and locks whole pages. Each piece has pages of its own. */
static bool each_page(void *start, size_t size, piece_fn *act)
{
  uintptr_t from = round_down((uintptr_t)start, os_page_size()), to = round_up((uintptr_t)start + size, os_page_size());
  return !size || act((void *)from, to - from);
}

static bool each_piece(heap_t *heap, piece_fn *act)
{
  const heap_region_t *region = &heap->region;
  const arena_t *arena = heap_own_arena(heap);
  if (heap_is_guest(heap))
    return each_page(region->start, region->size, act);
  return each_page(heap, heap->own_page ? heap_record_bytes(true) : 0, act) && each_page(region->start, region->size, act) &&
         each_page(heap->records_start, heap->reserve_records, act) &&
         each_page(region->arena_records, region->arena_records ? region->arena_record_bytes : 0, act) &&
         (region->kind != REGION_SLOTS ||
          (each_page((void *)(uintptr_t)arena, (size_t)(arena->runs_end - (const char *)arena), act) &&
           each_page(arena->long_bitmaps, (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps), act)));
}

/* The region is never purged from here on: a returned page would fault at its next touch. */
bool region_prepare(heap_t *heap, const pool_heap_options_t *o)
{
  if (!region_is_real_time(o))
    return true;
  if (!heap_has_granules(heap))
    heap->region.space.purgeable = false;
  if (o->flags & POOL_HEAP_PREFAULT && !each_piece(heap, os_prefault))
    return false;
  heap->region.locked = o->flags & POOL_HEAP_LOCK_MEMORY;
  return !heap->region.locked || each_piece(heap, os_lock_memory);
}

/* ---- destruction ---- */

/* Each kind of region is found in its own way, and is hidden before its memory is given back. */
void region_hide(heap_t *heap)
{
  heap_region_t *region = &heap->region;
  if (heap_is_guest(heap))
    return;
  if (region->run)
    run_become(region->run, RUN_NONE, NULL);
  if (region->huge)
    huge_hide(region->huge, true);
  if (region->kind == REGION_SLOTS && region->space.fixed)
    space_hide_slots(&region->space);
}

/* Parts may be missing after a failed creation. Locked pages are unlocked first, because others get them next. */
void region_give(heap_t *heap)
{
  heap_region_t *region = &heap->region;
  if (!region->kind)
    return;
  if (region->locked)
    each_piece(heap, os_unlock_memory);
  if (heap_is_guest(heap))
    return;
  metadata_give(heap->records_start, heap->reserve_records);
  if (heap_has_granules(heap))
    granular_forget_dirty(heap);
  if (region->space.unpaid)
    space_forget_unpaid(&region->space);
  if (region->kind == REGION_SLOTS && region->space.fixed)
    space_destroy_slots(&region->space);
  if (region->run)
    space_give(&space_of_process, region->run);
  if (region->huge)
    huge_give(region->huge);
  if (region->arena_records)
    metadata_give(region->arena_records, region->arena_record_bytes);
}

/* ---- minimum sizes ---- */

size_t region_least(const pool_heap_options_t *o)
{
  if (o->memory_size || o->memory)
    return guest_has_granules(o) ? granular_enough(o, o->memory ? (uintptr_t)o->memory : 1) : guest_enough(o);
  return heap_record_bytes(false) + granular_records(least_granules(o)) + least_granules(o) * GRANULE;
}

size_t region_least_records(const pool_heap_options_t *o, size_t least)
{
  return guest_has_granules(o) ? least - least_granules(o) * GRANULE : sizeof(heap_t);
}
