/* SPDX-License-Identifier: MIT */
#include "heap/heap_life.h"
#include "base/text.h"
#include "space/metadata.h"
#include "option.h"
#include "misuse.h"
#include <errno.h>
#include <string.h>

enum {
  SMALL_REGION = 8 << 20,          /* up to here a whole budget, or a reserve, is one region of small units */
  UNCACHED_BUDGET = 1 << 20,       /* up to here no thread keeps blocks back from the others */
  REGION_UNITS = 16,               /* a region is cut into so many units at least, within: */
  REGION_UNIT_LEAST_LOG2 = 10,
  REGION_UNIT_MOST_LOG2 = 12,
  REGION_UNIT_LARGE_LOG2 = 13,     /* from 1 MiB on: the records of a unit are 128 bytes */
  CLASS_MOST_UNITS = 8,            /* of a region of small units: a larger block is a run */
  FLAGS_KNOWN = POOL_HEAP_SINGLE_THREAD | POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_ZERO_ON_FREE | POOL_HEAP_CHECKED
};

/* ---- options ---- */

static bool classes_are_valid(const size_t *sizes, size_t count)
{
  if (!sizes)
    return count == 0;
  if (count == 0 || count > CLASS_LAST)
    return false;
  for (size_t i = 0; i < count; i++)
    if (sizes[i] == 0 || sizes[i] % BLOCK_ALIGNMENT || sizes[i] > SIZE_MAX_CLASS || (i && sizes[i] <= sizes[i - 1]))
      return false;
  return true;
}

/* In the system's memory; a caller's is one as well. */
static bool has_region(const pool_heap_options_t *o) { return o->reserve || (o->budget && o->budget <= SMALL_REGION); }

/* What is idle elsewhere is the process's, and goes back as its own option says; a caller's memory never does. */
static bool can_have_purge_delay(const pool_heap_options_t *o)
{
  return !o->purge_delay_ms || (o->memory ? o->purge_delay_ms == POOL_PURGE_NEVER : has_region(o));
}

static bool options_are_valid(const pool_heap_options_t *o)
{
  if (o->flags & ~(unsigned)FLAGS_KNOWN)
    return false;
  if (!o->memory != !o->memory_size || (o->memory && (o->reserve || o->flags & POOL_HEAP_PREFAULT)))
    return false;
  if (o->budget && o->reserve > o->budget)
    return false;
  if (!o->reserve && !o->memory && o->flags & (POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY))
    return false;
  return o->reserve <= PTRDIFF_MAX && can_have_purge_delay(o) && classes_are_valid(o->size_classes, o->size_class_count);
}

static void set_name(heap_t *heap, const char *name)
{
  static uint32_t generated;
  text_t text = {heap->name, HEAP_NAME_SIZE, 0};
  if (name)
    text_string(&text, name);
  else {
    text_string(&text, "heap-");
    text_number(&text, __atomic_add_fetch(&generated, 1, __ATOMIC_RELAXED));
  }
  text_finish(&text);
}

static void set_common(heap_t *heap, const pool_heap_options_t *o)
{
  heap->mark = HEAP_LIVE_MARK;
  heap->budget.limit = o->budget;
  heap->parent = o->parent;
  heap->budget.parent = o->parent ? &o->parent->budget : NULL;
  heap->on_exhausted = o->on_exhausted;
  heap->overflow = o->overflow;
  heap->context = o->context;
  heap->checked = o->flags & POOL_HEAP_CHECKED;
  heap->zero_on_free = o->flags & POOL_HEAP_ZERO_ON_FREE;
  heap->lock.solo = o->flags & POOL_HEAP_SINGLE_THREAD;
  for (const heap_t *h = heap; h && !heap->budgeted; h = h->parent)
    heap->budgeted = budget_limit(&h->budget) != 0;
  set_name(heap, o->name);
}

static bool is_real_time(const pool_heap_options_t *o) { return o->flags & (POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY); }

/* Threads may keep magazines unless every call must see the block, a new magazine would be a page fault, or nobody could take what
 * they hold of a budget back from them. They find them without asking further only where the class follows from the size alone
 * and every block is the heap's own. */
static void set_cached(heap_t *heap, const pool_heap_options_t *o)
{
  heap->reached = heap->budgeted && !heap->lock.solo;
  heap->cached = !heap->checked && !heap->zero_on_free && !is_real_time(o) && (!heap->reached || threads_can_be_reached);
  heap->placed = heap->cached && !o->overflow && !o->size_classes;
  heap->plane = heap->cached && heap->space->unit_log2 == UNIT_LOG2 ? POOL_PLANE_HEAP : POOL_PLANE_NONE;
}

static size_t class_table_bytes(const heap_t *heap) { return (heap->class_count + 1u) * sizeof(uint32_t); }

static bool set_classes(heap_t *heap, const pool_heap_options_t *o)
{
  if (!o->size_classes)
    return true;
  heap->class_count = (uint8_t)o->size_class_count;
  uint32_t *sizes = heap_take_record(heap, class_table_bytes(heap));
  if (!sizes)
    return false;
  for (size_t i = 0; i < o->size_class_count; i++)
    sizes[i + 1] = (uint32_t)o->size_classes[i];
  heap->class_sizes = sizes;
  heap->class_most = SIZE_MAX_CLASS;
  return true;
}

/* ---- the memory of a heap ---- */

/* The records of heaps are used again, for heaps alone. So a pointer to a heap that was destroyed leads to a record that says so. One
 * that is to be locked has its own page, since whole pages are locked and unlocked. */
static heap_t *unused_heaps[2];                  /* under heaps_lock */

static heap_t *record_take(bool own_page)
{
  lock_acquire(&heaps_lock);
  heap_t *heap = unused_heaps[own_page];
  if (heap)
    unused_heaps[own_page] = heap->next;
  lock_release(&heaps_lock);
  if (!heap && own_page)
    heap = metadata_take(round_up(sizeof *heap, os_page_size()), os_page_size());
  else if (!heap)
    heap = metadata_take(sizeof *heap, (size_t)1 << HEAP_ALIGNMENT_LOG2);
  if (heap)
    *heap = (heap_t){.own_page = own_page};
  return heap;
}

static void record_give(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  heap->next = unused_heaps[heap->own_page];
  unused_heaps[heap->own_page] = heap;
  lock_release(&heaps_lock);
}

static size_t record_bytes(const heap_t *heap) { return heap->own_page ? round_up(sizeof *heap, os_page_size()) : sizeof *heap; }

static unsigned region_unit_log2(size_t size)
{
  unsigned log2 = log2_floor(max_size(size / REGION_UNITS, 1));
  if (size >= UNCACHED_BUDGET)
    return REGION_UNIT_LARGE_LOG2;
  return log2 < REGION_UNIT_LEAST_LOG2 ? REGION_UNIT_LEAST_LOG2 : log2 > REGION_UNIT_MOST_LOG2 ? REGION_UNIT_MOST_LOG2 : log2;
}

static uint32_t class_most_of(unsigned unit_log2) { return unit_log2 == UNIT_LOG2 ? SIZE_MAX_CLASS : CLASS_MOST_UNITS << unit_log2; }

/* A record is put behind the others, or in units of its own. Returns how many units are left; 0: it does not fit. */
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

/* Something must be left for a slab of the smallest class, behind the records that come first: the table of the heap's own classes, the
 * record of a pool. */
static bool can_serve(const pool_heap_options_t *o, size_t units, unsigned unit_log2, const char *base, const char *records)
{
  const char *at = (const char *)round_up((uintptr_t)records, sizeof(void *));
  size_t room = at < base ? (size_t)(base - at) : 0, smallest = o->size_classes ? o->size_classes[0] : BLOCK_ALIGNMENT;
  if (o->size_classes)
    units = place_record((o->size_class_count + 1) * sizeof(uint32_t), &room, units, unit_log2);
  units = units ? place_record(sizeof(pool_t), &room, units, unit_log2) : 0;
  return pool_slab_least(smallest, unit_log2) <= units << unit_log2;
}

/* Everything lives in the caller's memory: the heap, the records of its arena, those of its pools, and the units. */
static heap_t *create_guest(const pool_heap_options_t *o)
{
  char *memory = o->memory, *at = (char *)round_up((uintptr_t)memory, 64), *end = memory + o->memory_size;
  if ((uintptr_t)end < (uintptr_t)memory || end < at + sizeof(heap_t))
    return NULL;
  heap_t *heap = memset(at, 0, sizeof *heap);
  unsigned unit_log2 = o->memory_size > SMALL_REGION ? UNIT_LOG2 : region_unit_log2(o->memory_size);
  char *records = space_init_guest(&heap->own_space, &heap->own_arena, heap + 1, (size_t)(end - (char *)(heap + 1)), unit_log2);
  if (!records || !can_serve(o, heap->own_arena.unit_count, unit_log2, heap->own_arena.base, records))
    return NULL;
  heap->space = &heap->own_space;
  heap->class_most = class_most_of(unit_log2);
  heap->region_kind = REGION_GUEST;
  heap->own_space.purge_delay_ms = o->purge_delay_ms ? o->purge_delay_ms : settings.purge_delay_ms;
  heap->region = memory;
  heap->region_size = o->memory_size;
  heap->records = (char *)round_up((uintptr_t)records, sizeof(void *));
  heap->records_end = heap->own_arena.base;
  heap->head_bytes = heap->metadata_bytes = o->memory_size - ((size_t)heap->own_arena.unit_count << unit_log2);
  set_common(heap, o);
  return heap;
}

/* How a region of the system's memory is made. */
typedef struct plan {
  unsigned unit_log2;
  size_t   units;
  size_t   arena_records;   /* bytes */
  size_t   pool_records;    /* paid for at once, so that a reserve serves any mixture of classes */
} plan_t;

/* Each pool has a unit at least. */
static size_t pool_records_for(const pool_heap_options_t *o, size_t units)
{
  size_t classes = o->size_classes ? o->size_class_count : CLASS_LAST;
  return min_size(classes, units) * round_up(sizeof(pool_record_t), METADATA_ALIGNMENT) + round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}

static plan_t plan_for(const pool_heap_options_t *o, size_t size, size_t units)
{
  plan_t plan = {.unit_log2 = size > SMALL_REGION ? UNIT_LOG2 : region_unit_log2(size), .units = units};
  plan.arena_records = space_region_records(units, plan.unit_log2);
  if (is_real_time(o))
    plan.arena_records = round_up(plan.arena_records, os_page_size());   /* in pages of their own, which are locked as a whole */
  plan.pool_records = o->reserve ? round_up(pool_records_for(o, units), os_page_size()) : 0;
  return plan;
}

static size_t plan_bytes(const plan_t *plan, bool units_too)
{
  return sizeof(heap_t) + plan->arena_records + plan->pool_records + (units_too ? plan->units << plan->unit_log2 : 0);
}

/* So many units that the reserve is served in blocks of whichever class alone: slabs may end in less than a block, and so may what
 * large blocks are rounded up to, which is not counted here. */
static size_t reserve_units(const pool_heap_options_t *o, unsigned unit_log2)
{
  size_t units = units_for(o->reserve, unit_log2), most = class_most_of(unit_log2);
  size_t classes = o->size_classes ? o->size_class_count : CLASS_LAST;
  for (size_t i = 0; i < classes; i++) {
    size_t size = o->size_classes ? o->size_classes[i] : size_class_size((unsigned)i + 1);
    if (o->size_classes || size <= most)
      units = max_size(units, pool_units_for(size, o->reserve, unit_log2));
  }
  return units;
}

/* A reserve is the blocks' alone, and what serves them comes on top; where the budget has no room for that, it comes out of the reserve.
 * A small budget is as many units as there could be. */
static plan_t plan_region(const pool_heap_options_t *o)
{
  size_t size = o->reserve ? o->reserve : o->budget;
  unsigned unit_log2 = plan_for(o, size, 1).unit_log2;
  size_t units = o->reserve ? reserve_units(o, unit_log2) : size >> unit_log2;
  plan_t plan = plan_for(o, size, units);
  while (o->reserve && o->budget && plan.units && plan_bytes(&plan, true) > o->budget)
    plan = plan_for(o, size, plan.units - 1 - (plan_bytes(&plan, true) - o->budget) / 2 / (((size_t)1 << unit_log2) + sizeof(run_t)));
  return plan;
}

/* The units of a small region: a run, or a mapping where they are too many. A unit may be more than a page, and is aligned as such. */
static char *take_small_region(heap_t *heap, size_t bytes, size_t alignment, bool *dirty)
{
  bool zeroed;
  if (bytes > space_longest_run() << UNIT_LOG2) {
    heap->region_huge = huge_take(bytes, alignment, heap, true, &zeroed);
    *dirty = heap->region_huge && !zeroed;
    return heap->region_huge ? huge_start(heap->region_huge) : NULL;
  }
  heap->region_run = space_take(&space_of_process, space_units(&space_of_process, bytes), 1);
  if (!heap->region_run)
    return NULL;
  *dirty = !heap->region_run->zeroed;
  return heap->region_run->start;
}

static bool take_region(heap_t *heap, const plan_t *plan)
{
  bool dirty;
  if (plan->unit_log2 == UNIT_LOG2) {
    heap->region_kind = REGION_SLOTS;
    if (!space_init_slots(&heap->own_space, plan->units))
      return false;
    heap->region = heap->own_space.fixed->base;
  } else {
    heap->region_kind = REGION_SMALL;
    heap->arena_records = metadata_take(plan->arena_records, heap->own_page ? os_page_size() : METADATA_ALIGNMENT);
    heap->region = heap->arena_records ? take_small_region(heap, plan->units << plan->unit_log2, (size_t)1 << plan->unit_log2, &dirty) : NULL;
    if (!heap->region)
      return false;
    space_init_region(&heap->own_space, &heap->own_arena, heap->arena_records, heap->region, plan->units, plan->unit_log2, dirty);
    if (heap->region_run)
      run_become(heap->region_run, RUN_REGION, heap);   /* last: from now on it is asked about */
    else
      huge_hide(heap->region_huge, false);
  }
  heap->region_size = plan->units << plan->unit_log2;
  return true;
}

static bool take_pool_records(heap_t *heap, const plan_t *plan)
{
  if (!plan->pool_records)
    return true;
  heap->records_start = metadata_take(plan->pool_records, os_page_size());
  heap->records = heap->records_start;
  heap->records_end = heap->records ? heap->records + plan->pool_records : NULL;
  heap->reserve_records = heap->records ? plan->pool_records : 0;
  return heap->records != NULL;
}

/* What a reserve has, or a small budget for the day it is raised, ends in the process's space. */
static bool make_region(heap_t *heap, const pool_heap_options_t *o, const plan_t *plan)
{
  if (!take_region(heap, plan) || !take_pool_records(heap, plan))
    return false;
  heap->space = &heap->own_space;
  heap->class_most = class_most_of(plan->unit_log2);
  heap->own_space.beyond = &space_of_process;
  heap->own_space.prepaid = o->reserve != 0;
  if (!heap->own_space.prepaid)
    space_count_unpaid(&heap->own_space);
  heap->own_space.purge_delay_ms = o->purge_delay_ms ? o->purge_delay_ms : settings.purge_delay_ms;
  return true;
}

typedef bool piece_fn(void *start, size_t size);

static bool each_page(void *start, size_t size, piece_fn *act)
{
  uintptr_t from = round_down((uintptr_t)start, os_page_size()), to = round_up((uintptr_t)start + size, os_page_size());
  return !size || act((void *)from, to - from);
}

/* The units of a region and the records that came with it; each in pages of its own. */
static bool each_piece(heap_t *heap, piece_fn *act)
{
  const arena_t *arena = heap->own_space.fixed;
  bool slots = heap->region_kind == REGION_SLOTS;
  return each_page(heap, heap->own_page ? record_bytes(heap) : 0, act) &&
         each_page(heap->region, heap->region_size, act) && each_page(heap->records_start, heap->reserve_records, act) &&
         each_page(heap->arena_records, heap->arena_records ? heap->arena_record_bytes : 0, act) &&
         (!slots || (each_page((void *)(uintptr_t)arena, (size_t)(arena->runs_end - (const char *)arena), act) &&
                     each_page(arena->long_bitmaps, (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps), act)));
}

/* ---- the list of all heaps ---- */

static void count_users(const heap_t *heap, size_t by)
{
  if (heap->parent)
    heap->parent->users += by;
  if (heap->overflow)
    heap->overflow->users += by;
}

static void enter_list(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  heap_t *first = heaps_first();
  heap->previous = first;
  heap->next = first->next;
  if (heap->next)
    heap->next->previous = heap;
  first->next = heap;
  count_users(heap, 1);
  lock_release(&heaps_lock);
  if (heap->region_kind == REGION_GUEST)
    guests_enter(heap);
}

/* Under the lock. */
static void leave_list(heap_t *heap)
{
  heap->previous->next = heap->next;
  if (heap->next)
    heap->next->previous = heap->previous;
  count_users(heap, -(size_t)1);
}

/* Nobody finds the heap by an address any more. */
static void hide_region(heap_t *heap, bool was_listed)
{
  if (heap->region_kind == REGION_GUEST && was_listed)
    guests_leave(heap);
  if (heap->region_run)
    run_become(heap->region_run, RUN_NONE, NULL);
  if (heap->region_huge)
    huge_hide(heap->region_huge, true);
  if (heap->region_kind == REGION_SLOTS && heap->own_space.fixed)
    space_hide_slots(&heap->own_space);
}

/* The heap is out of everybody's reach, whether it was ever in the list or its creation has failed: a region is found by its address
 * from the moment it is there. Somebody may still be looking at what is about to go, a question about an address, a tick; they hold
 * the lock of the list. */
static void vanish(heap_t *heap, bool was_listed)
{
  hide_region(heap, was_listed);
  lock_acquire(&heaps_lock);
  if (was_listed)
    leave_list(heap);
  lock_release(&heaps_lock);
}

/* ---- the end of a heap's memory ---- */

/* What is not there is passed over. Nobody finds it any more. */
static void release_memory(heap_t *heap)
{
  bool guest = heap->region_kind == REGION_GUEST;
  if (heap->locked_memory)
    each_piece(heap, os_unlock_memory);
  metadata_give(heap->records_start, heap->reserve_records);
  if (heap->own_space.unpaid)
    space_forget_unpaid(&heap->own_space);
  if (heap->region_kind == REGION_SLOTS && heap->own_space.fixed)
    space_finish_slots(&heap->own_space);
  if (heap->region_run)
    space_give(&space_of_process, heap->region_run);
  if (heap->region_huge)
    huge_give(heap->region_huge);
  if (heap->arena_records)
    metadata_give(heap->arena_records, heap->arena_record_bytes);
  heap->mark = 0;
  if (!guest)
    record_give(heap);
}

/* What was charged goes back before the record that says so. */
static heap_t *failed(heap_t *heap, size_t charged, int error)
{
  vanish(heap, false);
  budget_discharge(&heap->budget, charged);
  release_memory(heap);
  errno = error;
  return NULL;
}

static heap_t *create_of_system(const pool_heap_options_t *o)
{
  plan_t plan = {0};
  heap_t *heap = record_take(is_real_time(o));
  if (!heap) {
    errno = ENOMEM;
    return NULL;
  }
  heap->space = &space_of_process;
  heap->class_most = SIZE_MAX_CLASS;
  set_common(heap, o);
  if (has_region(o))
    plan = plan_region(o);
  heap->arena_record_bytes = plan.arena_records;
  heap->head_bytes = plan_bytes(&plan, o->reserve != 0) + record_bytes(heap) - sizeof *heap;
  heap->metadata_bytes = heap->head_bytes - (o->reserve ? plan.units << plan.unit_log2 : 0);
  heap->metadata_shared = heap->metadata_bytes - (plan.unit_log2 == UNIT_LOG2 ? plan.arena_records : 0);
  if ((has_region(o) && !plan.units) || (o->budget && heap->head_bytes > o->budget))
    return failed(heap, 0, EINVAL);
  if (!budget_charge(&heap->budget, heap->head_bytes))
    return failed(heap, 0, ENOMEM);
  if (has_region(o) && !make_region(heap, o, &plan))
    return failed(heap, heap->head_bytes, ENOMEM);
  if (!has_region(o) || o->reserve > SMALL_REGION || !o->budget || o->budget > UNCACHED_BUDGET)
    set_cached(heap, o);
  return heap;
}

/* ---- memory that is touched and locked beforehand ---- */

static bool prepare_memory(heap_t *heap, const pool_heap_options_t *o)
{
  if (!is_real_time(o))
    return true;
  heap->own_space.purgeable = false;
  if (o->flags & POOL_HEAP_PREFAULT && !each_piece(heap, os_prefault))
    return false;
  if (o->flags & POOL_HEAP_LOCK_MEMORY) {
    heap->locked_memory = true;
    return each_piece(heap, os_lock_memory);
  }
  return true;
}

heap_t *heap_create(const pool_heap_options_t *options)
{
  static const pool_heap_options_t defaults;
  const pool_heap_options_t *o = options ? options : &defaults;
  if (!options_are_valid(o)) {
    errno = EINVAL;
    return NULL;
  }
  /* Now, also for a heap in the caller's memory, which makes no system call later. */
  if (!heap_front_ready() && !o->memory) {
    errno = ENOMEM;
    return NULL;
  }
  heap_t *heap = o->memory ? create_guest(o) : create_of_system(o);
  if (!heap) {
    errno = o->memory ? EINVAL : errno;
    return NULL;
  }
  if (o->memory && !budget_charge(&heap->budget, heap->head_bytes))
    return failed(heap, 0, o->budget && heap->head_bytes > o->budget ? EINVAL : ENOMEM);
  if (!set_classes(heap, o) || !prepare_memory(heap, o)) {
    heap_give_record(heap, (void *)(uintptr_t)heap->class_sizes, class_table_bytes(heap));
    return failed(heap, heap->head_bytes, ENOMEM);
  }
  budget_note_peak(&heap->budget);
  enter_list(heap);
  return heap;
}

/* ---- the end of all blocks ---- */

static void drop_dependents(heap_t *heap)
{
  if (!heap->object_pools)
    return;
  lock_acquire(&heaps_lock);
  heap_dependents->drop(heap);
  lock_release(&heaps_lock);
}

static void drop_magazines(magazines_t *magazines, heap_t *heap) { heap_each_cached_pool(magazines, heap, magazines_drop); }

static void drop_caches(heap_t *heap, bool forget)
{
  threads_visit(heap, forget, drop_magazines);
  if (unlikely(threads_first_lost()))
    threads_drop_lost(heap, forget);
}

static bool zero_block(const pool_block_t *block, void *context)
{
  const heap_t *heap = context;
  if (block->size > heap->class_most)   /* of no class */
    large_wipe(heap, block->start, block->size);
  else
    memset(block->start, 0, block->size);
  return true;
}

void heap_reset(heap_t *heap)
{
  drop_dependents(heap);
  if (heap->zero_on_free)
    heap_walk(heap, zero_block, heap);
  if (heap->cached)
    drop_caches(heap, false);
  FOR_EACH_POOL(pool, heap)
    pool_reset(pool);
  large_free_all(heap);
}

static void give_records(heap_t *heap)
{
  for (unsigned c = 1; c < heap->pools_end; c++) {
    pool_t *pool = heap->pools[c];
    if (pool)
      heap_give_record(heap, pool, pool->depots ? sizeof(pool_record_t) : sizeof(pool_t));
  }
  heap_give_record(heap, (void *)(uintptr_t)heap->class_sizes, class_table_bytes(heap));
}

/* Whoever counts on the heap would go on with a record that is gone. */
static void refuse_if_used(const heap_t *heap)
{
  lock_acquire(&heaps_lock);
  bool used = heap->users != 0;
  lock_release(&heaps_lock);
  if (used)
    fatal_misuse("pool_heap_destroy", heap, "still the parent or the overflow of a live heap");
}

/* A fork takes the locks of the heaps in the list, so the heap stays there until no pool of it is due for a tick and no thread has
 * magazines of it. */
void heap_destroy(heap_t *heap)
{
  refuse_if_used(heap);
  drop_dependents(heap);
  if (heap->zero_on_free)
    heap_walk(heap, zero_block, heap);
  if (heap->cached)
    drop_caches(heap, true);
  FOR_EACH_POOL(pool, heap)
    pool_finish(pool);
  large_free_all(heap);
  vanish(heap, true);
  give_records(heap);
  budget_discharge(&heap->budget, budget_held(&heap->budget));
  release_memory(heap);
}

static bool is_below(const heap_t *heap, const heap_t *ancestor)
{
  do
    heap = heap->parent;
  while (heap && heap != ancestor);
  return heap != NULL;
}

/* What descendants have cached and idle, but not those of one thread, which may be in one. The lock keeps them from ending. */
static void drain_descendants(const heap_t *heap)
{
  lock_acquire(&heaps_lock);
  for (heap_t *other = heaps_first(); other; other = other->next)
    if (!other->lock.solo && is_below(other, heap))
      heap_drain(other);
  lock_release(&heaps_lock);
}

/* Lower than what is held only after a trim, and never for a moment. */
bool heap_set_budget(heap_t *heap, size_t budget)
{
  if (budget_set_limit(&heap->budget, budget))
    return true;
  heap_trim(heap, 0);
  if (budget_set_limit(&heap->budget, budget))
    return true;
  drain_descendants(heap);
  return budget_set_limit(&heap->budget, budget);
}
