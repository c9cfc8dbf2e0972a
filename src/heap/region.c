/* SPDX-License-Identifier: MIT
 * A region is planned before it is made (region_plan()), because its records and blocks share one budget. */
#include "bin/bin.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include "option.h"
#include "space/budget.h"
#include <string.h>

static uint32_t purge_delay_of(const pool_heap_options_t *o)
{
  return o->purge_delay_ms ? o->purge_delay_ms : settings.purge_delay_ms;
}

/* ---- guests ---- */

/* There is room for a slab of each size: the memory is longer than SMALL_REGION. */
static heap_t *create_guest_of_units(const pool_heap_options_t *o)
{
  char *at = (char *)round_up((uintptr_t)o->memory, 64), *end = (char *)o->memory + o->memory_size;
  if (!guest_memory_ends(o))
    return NULL;
  heap_t *heap = memset(at, 0, sizeof *heap);
  heap_region_t *region = &heap->region;
  char *records = space_init_guest(&region->space, &region->arena, heap + 1, (size_t)(end - (char *)(heap + 1)));
  region->space.purge_delay_ms = purge_delay_of(o);
  heap->space = &region->space;
  heap->class_most = SIZE_MAX_CLASS;
  heap->records = (char *)round_up((uintptr_t)records, sizeof(uint64_t));
  heap->records_end = region->arena.base;
  heap->head_bytes = heap->metadata_bytes = o->memory_size - ((size_t)region->arena.unit_count << UNIT_LOG2);
  guest_set_region(heap, o);
  return heap;
}

heap_t *region_create_guest(const pool_heap_options_t *o)
{
  heap_t *heap = o->memory_size > SMALL_REGION ? create_guest_of_units(o) : guest_create(o);
  if (heap)
    heap->region.purge_delay_ms = purge_delay_of(o);
  return heap;
}

/* ---- the plan of a region in the system's memory ---- */

/* Returns the most that the records of bins can take. A bin takes at least a unit, so there are no more bins than units. */
static size_t bin_records_for(const pool_heap_options_t *o, size_t units)
{
  size_t classes = o->size_classes ? o->size_class_count : CLASS_LAST;
  return min_size(classes, units) * round_up(sizeof(bin_t), METADATA_ALIGNMENT) +
         round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}

/* A record that may be locked in memory has pages of its own. */
region_plan_t region_no_plan(const pool_heap_options_t *o)
{
  return (region_plan_t){.heap_record = o->flags & HEAP_REAL_TIME ? round_up(sizeof(heap_t), os_page_size()) : sizeof(heap_t)};
}

/* Records of a real-time heap have whole pages, which can be locked. */
static size_t records_rounded(const pool_heap_options_t *o, size_t bytes)
{
  return round_up(bytes, o->flags & HEAP_REAL_TIME ? os_page_size() : METADATA_ALIGNMENT);
}

size_t region_plan_bytes(const region_plan_t *plan, bool blocks_too)
{
  return plan->heap_record + plan->records + plan->bin_records + (blocks_too ? plan->bytes : 0);
}

/* All costs of the region are computed beforehand, so that the budget is charged once. */
static region_plan_t plan_of_units(const pool_heap_options_t *o, size_t units)
{
  region_plan_t plan = region_no_plan(o);
  plan.bytes = units << UNIT_LOG2;
  plan.records = records_rounded(o, space_region_records(units));
  plan.bin_records = round_up(bin_records_for(o, units), os_page_size());
  return plan;
}

/* Returns the units that are enough to fill the reserve with blocks of any one class. The end of a slab may be wasted, so some
 * classes need more units. Rounding of large blocks is not included. */
static size_t reserve_units(const pool_heap_options_t *o)
{
  size_t units = units_for(o->reserve), classes = o->size_classes ? o->size_class_count : CLASS_LAST;
  for (size_t i = 0; i < classes; i++) {
    size_t size = o->size_classes ? o->size_classes[i] : size_class_size((unsigned)i + 1);
    units = max_size(units, bin_units_for(size, o->reserve));
  }
  return units;
}

/* If the budget has no room for all units and their records, units are dropped until it fits. */
static region_plan_t plan_of_reserve(const pool_heap_options_t *o)
{
  region_plan_t plan = plan_of_units(o, reserve_units(o));
  while (o->budget && plan.bytes && region_plan_bytes(&plan, true) > o->budget) {
    size_t over = region_plan_bytes(&plan, true) - o->budget, units = plan.bytes >> UNIT_LOG2;
    plan = plan_of_units(o, units - min_size(1 + over / 2 / (UNIT + sizeof(run_t)), units));
  }
  return plan;
}

static size_t granular_records(const pool_heap_options_t *o, size_t count)
{
  return records_rounded(o, granules_index_bytes(count) + 2 * granular_pages(count) / 8);
}

/* A reserve is for blocks alone. Granules without a reserve get all of the budget that the records leave. */
static region_plan_t plan_of_granules(const pool_heap_options_t *o)
{
  region_plan_t plan = region_no_plan(o);
  size_t least = heap_least_granules(o), records = plan.heap_record + heap_own_table_bytes(o);
  size_t room = o->budget ? o->budget - min_size(records, o->budget) : SIZE_MAX;
  size_t count = granular_count_for(room);
  if (o->reserve)
    count = min_size(count, max_size(granules_for(o->reserve), least));
  while (count && granular_records(o, count) + (count << GRANULE_LOG2) > room)
    count--;
  plan.granules = true;
  plan.bytes = count < least ? 0 : count << GRANULE_LOG2;
  plan.records = granular_records(o, max_size(count, least));
  return plan;
}

region_plan_t region_plan(const pool_heap_options_t *o)
{
  return o->reserve > SMALL_REGION ? plan_of_reserve(o) : plan_of_granules(o);
}

/* ---- creation ---- */

/* Takes the memory of granules: a run, or a mapping if it is long. */
static char *take_run_or_mapping(heap_t *heap, size_t bytes, bool *dirty)
{
  heap_region_t *region = &heap->region;
  bool zeroed;
  if (bytes > space_longest_run() << UNIT_LOG2) {
    region->huge = huge_take(bytes, os_page_size(), heap, NULL, &zeroed);
    *dirty = region->huge && !zeroed;
    return region->huge ? huge_start(region->huge) : NULL;
  }
  region->run = space_take(&space_of_process, units_for(bytes), 1);
  if (!region->run)
    return NULL;
  *dirty = !region->run->zeroed;
  return region->run->start;
}

/* The region is found by its address as soon as its run or mapping says so, which is therefore last. Pages that never return
 * to the system are not tracked. */
static bool take_granules(heap_t *heap, const region_plan_t *plan)
{
  heap_region_t *region = &heap->region;
  size_t count = plan->bytes >> GRANULE_LOG2;
  bool dirty;
  char *index = region->records =
    metadata_take(plan->records, heap->flags & HEAP_REAL_TIME ? os_page_size() : METADATA_ALIGNMENT);
  region->start = index ? take_run_or_mapping(heap, plan->bytes, &dirty) : NULL;
  if (!region->start)
    return false;
  granular_init(heap, index, region->start, count);
  if (!(heap->flags & HEAP_REAL_TIME))
    granular_count_dirty(heap, (word_t *)(uintptr_t)(index + granules_index_bytes(count)), dirty);
  granular_begin(heap);
  if (region->run)
    run_become(region->run, RUN_REGION, heap);
  else
    huge_hide(region->huge, false);
  return true;
}

/* The records of bins are taken at once, so that a class that is requested later cannot fail for lack of one. The heap goes on
 * in the process's space when the reserve is full. */
static bool take_slots(heap_t *heap, const region_plan_t *plan)
{
  heap_region_t *region = &heap->region;
  space_t *space = &region->space;
  if (!space_init_slots(space, plan->bytes >> UNIT_LOG2))
    return false;
  region->start = space->own_arena->base;
  heap->space = space;
  space->fallback = &space_of_process;
  space->prepaid = true;
  space->purge_delay_ms = region->purge_delay_ms;
  space->purgeable = !(heap->flags & HEAP_REAL_TIME);
  heap->records_start = heap->records = metadata_take(plan->bin_records, os_page_size());
  heap->records_end = heap->records ? heap->records + plan->bin_records : NULL;
  heap->reserve_records = heap->records ? plan->bin_records : 0;
  return heap->records != NULL;
}

/* The kind is set first: an undo then knows what to give back. */
bool region_make(heap_t *heap, const pool_heap_options_t *o, const region_plan_t *plan)
{
  heap_region_t *region = &heap->region;
  region->kind = o->reserve ? REGION_PREPAID : REGION_OF_SYSTEM;
  region->size = plan->bytes;
  region->record_bytes = plan->granules ? plan->records : 0;
  region->purge_delay_ms = purge_delay_of(o);
  refusals_forget();
  return plan->granules ? take_granules(heap, plan) : take_slots(heap, plan);
}

/* ---- prefaulting and locking ---- */

typedef bool piece_fn(void *start, size_t size);

/* The system faults in and locks whole pages. Each piece has pages of its own. */
static bool each_page(void *start, size_t size, piece_fn *act)
{
  uintptr_t from = round_down((uintptr_t)start, os_page_size()), to = round_up((uintptr_t)start + size, os_page_size());
  return !size || act((void *)from, to - from);
}

/* Only memory of a caller, or of a heap whose record has pages of its own, is prefaulted or locked. */
static bool each_piece(heap_t *heap, piece_fn *act)
{
  const heap_region_t *region = &heap->region;
  const arena_t *arena = heap_own_arena(heap);
  if (heap_is_guest(heap))
    return each_page(region->start, region->size, act);
  return each_page(heap, sizeof *heap, act) && each_page(region->start, region->size, act) &&
         each_page(heap->records_start, heap->reserve_records, act) && each_page(region->records, region->record_bytes, act) &&
         (!arena || (each_page((void *)(uintptr_t)arena, (size_t)(arena->runs_end - (const char *)arena), act) &&
                     each_page(arena->long_bitmaps, (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps), act)));
}

/* The calling thread's slot is read as the fast paths read it: its page may be one that the thread has not used yet. Another
 * thread may empty the slot meanwhile. */
bool region_prepare(heap_t *heap, const pool_heap_options_t *o)
{
  struct pool_heap *const volatile *slot = &thread_self->heap_at[cache_slot_of(heap)];
  (void)__atomic_load_n(slot, __ATOMIC_RELAXED);
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
  if (region->space.own_arena)
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
  if (region->space.own_arena)
    space_destroy_slots(&region->space);
  if (region->run)
    space_give(&space_of_process, region->run);
  if (region->huge)
    huge_give(region->huge);
  if (region->records)
    metadata_give(region->records, region->record_bytes);
}

/* ---- minimum sizes ---- */

/* What a heap of granules needs. A reserve fits into a budget of its size, because units are dropped for the records. */
size_t region_least(const pool_heap_options_t *o)
{
  if (o->memory_size || o->memory)
    return guest_least(o, o->memory ? (uintptr_t)o->memory : 1);
  size_t least = region_no_plan(o).heap_record + heap_own_table_bytes(o) + granular_records(o, heap_least_granules(o));
  return max_size(least + heap_least_granules(o) * GRANULE, o->reserve);
}

size_t region_least_records(const pool_heap_options_t *o, size_t least) { return least - heap_least_granules(o) * GRANULE; }
