/* SPDX-License-Identifier: MIT
 *
 * A heap is created in the order in which its parts need each other: options, record, charge, region, classes, list. failed()
 * undoes them in reverse. Nothing finds the heap before the last step, except that a region is found by its address. */
#include "base/list.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/invalid.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include "os/lock.h"
#include "os/tool.h"
#include "space/metadata.h"
#include <errno.h>
#include <string.h>

/* ---- reset ---- */

static const char *end_call(bool for_good) { return for_good ? "pool_heap_destroy" : "pool_heap_reset"; }

/* Object pools end without their hooks, because their objects are blocks of the heap. */
static void drop_dependents(heap_t *heap, bool for_good)
{
  if (!heap->object_pools)
    return;
  const heap_dependents_t *dependents = __atomic_load_n(&heap_dependents, __ATOMIC_ACQUIRE);
  dependents->verify(heap, true, end_call(for_good));
  LOCKED(&heaps_lock);
  dependents->drop(heap);
}

static void drop_magazines(magazines_t *magazines, heap_t *heap) { heap_each_cached_bin(magazines, heap, magazines_drop); }

/* Magazines of threads that a fork has lost are emptied, too. */
static void drop_caches(heap_t *heap, bool forget)
{
  threads_visit(heap, forget, drop_magazines);
  if (unlikely(threads_first_lost()))
    threads_drop_lost(heap, forget);
}

static bool wipe_visited(const walked_t *walked, void *context)
{
  if (walked->has_pages)
    large_wipe(context, walked->block.start, walked->block.size);
  else
    memset(walked->block.start, 0, walked->block.size);
  return true;
}

/* The index of granules is not cleared at the end of the heap. Only checked blocks still get their pattern. */
static void end_blocks_of_region(heap_t *heap, bool for_good)
{
  heap_mark_guest(heap, GUEST_IS_RESET);
  if (heap_has_granules(heap) && (!for_good || heap_is_checked(heap)))
    granular_end_blocks(heap);
  heap_mark_guest(heap, GUEST_WAS_RESET);
}

/* The order matters. Object pools have records in blocks of the heap, so they end first. The wipe needs to know which blocks
 * are live. Magazines are emptied before the bins that they belong to end. */
void heap_end_blocks(heap_t *heap, bool for_good)
{
  drop_dependents(heap, for_good);
  if (heap_is_checked(heap))
    heads->end_all(heap, !fork_lost_threads, end_call(for_good));
  if (heap->flags & POOL_HEAP_ZERO_ON_FREE)
    heap_walk(heap, WALK_ALONE, wipe_visited, heap);
  if (heap->flags & HEAP_CACHED)
    drop_caches(heap, for_good);
  FOR_EACH_BIN(bin, heap)
    (for_good ? bin_destroy : bin_reset)(bin);
  standalone_give_all(heap, end_call(for_good));
  large_free_all(heap);
  if (heap->region.kind)
    end_blocks_of_region(heap, for_good);
}

void heap_reset(heap_t *heap)
{
  POOL_PROBE2(tidepool, heap_reset, heap, heap->name);
  if (unlikely(settings.check_at_exit))
    heap_drain(heap, end_call(false), true);
  heap_end_blocks(heap, false);
}

/* ---- the options of a heap that is created ---- */

/* Blocks have heads for a leak search, except in a region, which has room for heads only on request. */
static bool wants_leaks(void) { return settings.leaks; }

/* A guarded heap is checked, too. */
static void set_common(heap_t *heap, const pool_heap_options_t *o)
{
  heap_set_options(heap, o);
  bool has_sites = wants_leaks() && !o->memory && !region_is_wanted(o);
  heap->flags |= (o->flags & POOL_HEAP_GUARDED ? POOL_HEAP_CHECKED : 0) | (has_sites ? POOL_HEAP_SITES : 0);
}

/* Threads cache blocks unless every call must see the block, a new magazine would be a page fault, or blocks of a budget could
 * not be taken back from other threads. */
static void set_cached(heap_t *heap)
{
  bool reached = (heap_is_bounded(heap) || threads_default_within_reach) && !heap->lock.solo;
  if (heap->flags & (HEAP_HEADED | POOL_HEAP_ZERO_ON_FREE | HEAP_REAL_TIME) || wants_leaks() ||
      (reached && !threads_can_be_reached))
    return;
  heap->flags |= HEAP_CACHED | (reached ? HEAP_WITHIN_REACH : 0);
}

/* Own classes begin at 1: class 0 means none. Classes include the head, or runs would serve the largest requests. Two classes
 * that have become equal do no harm. Granules round sizes up to them, and have no shorter blocks. */
static bool set_classes(heap_t *heap, const pool_heap_options_t *o)
{
  if (!o->size_classes)
    return true;
  heap->class_count = (uint8_t)o->size_class_count;
  uint32_t *sizes = heap_take_record(heap, heap_class_table_bytes(heap->class_count));
  if (!sizes)
    return false;
  size_t least = heap_has_granules(heap) ? GRANULES_LEAST * GRANULE : 0, head = heap_is_headed(heap) ? HEAD_BYTES : 0;
  for (size_t i = 0; i < o->size_class_count; i++)
    sizes[i + 1] = (uint32_t)min_size(max_size(o->size_classes[i] + head, least), SIZE_MAX_CLASS);
  heap->class_sizes = sizes;
  heap->class_most = SIZE_MAX_CLASS;
  return true;
}

/* ---- records of heaps ---- */

/* Under heaps_lock. A pointer to a destroyed heap leads to a record whose mark tells. Records to be locked in memory have pages
 * of their own. */
static metadata_kind_t heap_records = {
  .size = sizeof(heap_t), .alignment = (size_t)1 << HEAP_ALIGNMENT_LOG2, .link = offsetof(heap_t, next)};
static metadata_kind_t heap_pages = {.link = offsetof(heap_t, next)};

static metadata_kind_t *records_for(unsigned flags)
{
  if (likely(!(flags & HEAP_REAL_TIME)))
    return &heap_records;
  heap_pages.alignment = os_page_size();
  heap_pages.size = round_up(sizeof(heap_t), os_page_size());
  return &heap_pages;
}

static heap_t *heap_record_take(unsigned flags)
{
  LOCKED(&heaps_lock);
  heap_t *heap = metadata_take_kind(records_for(flags));
  if (heap)
    *heap = (heap_t){0};
  return heap;
}

static void heap_record_give(heap_t *heap)
{
  LOCKED(&heaps_lock);
  metadata_give_kind(records_for(heap->flags), heap);
}

/* ---- the list of all heaps ---- */

static void count_user(heap_t *of, size_t by)
{
  if (of)
    __atomic_store_n(&of->users, of->users + by, __ATOMIC_RELAXED); /* read without the lock */
}

static void count_users(const heap_t *heap, size_t by)
{
  count_user(heap->parent, by);
  count_user(heap_overflow(heap), by);
}

/* The heaps behind the default one are a list, the newest first: children precede their parents, as pass_budgets() needs. */
static void enter_list(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  count_users(heap, 1);
  if (observer)
    observer->enter_heap(heap);
  LIST_PUSH(default_heap.next, heap, next, previous);
  lock_release(&heaps_lock);
  if (heap_is_guest(heap))
    guests_enter(heap);
}

/* Under heaps_lock. A guest that was created before the manager came up is not in the list. */
static void leave_list(heap_t *heap)
{
  heap_leave_ticks(heap);
  if (LIST_HOLDS(default_heap.next, heap, previous))
    LIST_REMOVE(default_heap.next, heap, next, previous);
  count_users(heap, -(size_t)1);
}

/* Makes the heap unreachable. A failed creation needs that too, because a region is found by its address from the start. A
 * question or a tick may still be looking at the heap under heaps_lock, so that lock is taken in any case. */
static void vanish(heap_t *heap, bool was_listed)
{
  if (heap_is_guest(heap) && was_listed)
    guests_leave(heap);
  region_hide(heap);
  LOCKED(&heaps_lock);
  if (was_listed)
    leave_list(heap);
}

/* ---- create ---- */

static void name_region(const heap_t *heap, const char *name)
{
  const heap_region_t *region = &heap->region;
  if (!os_has_names || !region->kind || heap_is_guest(heap) || !region->start)
    return;
  uintptr_t from = round_up((uintptr_t)region->start, os_page_size());
  uintptr_t to = round_down((uintptr_t)region->start + region->size, os_page_size());
  if (from < to)
    os_name((void *)from, to - from, name);
}

static void give_memory(heap_t *heap)
{
  bool guest = heap_is_guest(heap);
  if (unlikely(os_tool.allocates))
    tool_end(heap);
  heap_mark_guest(heap, GUEST_ENDS);
  name_region(heap, NULL);
  region_give(heap);
  heap->mark = 0;
  if (!guest)
    heap_record_give(heap);
}

static heap_t *no_memory(void)
{
  errno = ENOMEM;
  return NULL;
}

/* Undoes a failed creation. The charge is discharged first, because the record leads to the charged budgets. */
static heap_t *failed(heap_t *heap, size_t charged)
{
  vanish(heap, false);
  budget_discharge(&heap->budget, charged);
  give_memory(heap);
  return no_memory();
}

/* failed() for a budget that is too small for the records: no later call and no other parent could change that. */
static heap_t *failed_for_budget(heap_t *heap, const pool_heap_options_t *o, size_t charged, size_t records)
{
  failed(heap, charged);
  if (records <= o->budget)
    return invalid(INVALID_BUDGET_OF_RESERVE, o->budget, records);
  if (!o->memory && !o->reserve)
    records = heap_least_budget(o);
  return invalid(INVALID_BUDGET, o->budget, records);
}

/* A budget too small for what the heap needs at once is an invalid option (EINVAL); one that a parent cannot pay is ENOMEM. */
static heap_t *create_of_system(const pool_heap_options_t *o)
{
  bool has_region = region_is_wanted(o) && !blocks_are_malloced;
  region_plan_t plan = has_region ? region_plan(o) : region_no_plan(o);
  heap_t *heap = heap_record_take(o->flags);
  if (!heap)
    return no_memory();
  heap->space = &space_of_process;
  heap->class_most = SIZE_MAX_CLASS;
  set_common(heap, o);
  heap->head_bytes = region_plan_bytes(&plan, o->reserve != 0);
  heap->metadata_bytes = heap->head_bytes - (o->reserve ? plan.bytes : 0);
  heap->metadata_shared = heap->metadata_bytes - (plan.granules ? 0 : plan.records);
  if ((has_region && !plan.bytes) || (o->budget && heap->head_bytes > o->budget))
    return failed_for_budget(heap, o, 0, heap->head_bytes);
  if (!budget_charge(&heap->budget, heap->head_bytes))
    return failed(heap, 0);
  /* Threads keep no magazines of a small budget: a few of them could hold all of it. */
  if (!plan.granules || !o->budget)
    set_cached(heap);
  if (has_region && !region_make(heap, o, &plan))
    return failed(heap, heap->head_bytes);
  if (!has_region && !tool_begin_if(heap) && observer)
    observer->begin_heap(heap, o->flags & POOL_HEAP_GUARDED);
  return heap;
}

static heap_t *create_guest(const pool_heap_options_t *o)
{
  heap_t *heap = region_create_guest(o);
  if (heap) {
    set_common(heap, o);
    heap->take = manager_is_up() ? NULL : heap_take_plain;
    heap_mark_guest(heap, GUEST_BEGINS);
    granular_begin(heap);
    heap_mark_guest(heap, GUEST_HAS_BEGUN);
  }
  return heap;
}

/* The gate makes the creation atomic for a fork: the child finds the heap in the list, or nothing of it. */
static heap_t *create(const pool_heap_options_t *o)
{
  INSIDE_GATE(GATE_LIFE);
  heap_t *heap = o->memory ? create_guest(o) : create_of_system(o);
  if (!heap)
    return NULL;
  size_t head = heap->head_bytes;
  if (o->memory && !budget_charge(&heap->budget, head))
    return o->budget && head > o->budget ? failed_for_budget(heap, o, 0, head) : failed(heap, 0);
  bool has_classes = set_classes(heap, o);
  if (!has_classes || !region_prepare(heap, o)) {
    size_t records = head + (o->memory ? 0 : heap_class_table_bytes(o->size_class_count));
    heap_give_record(heap, (void *)(uintptr_t)heap->class_sizes, heap_class_table_bytes(heap->class_count));
    return !has_classes && o->budget && records > o->budget ? failed_for_budget(heap, o, head, records) : failed(heap, head);
  }
  name_region(heap, heap->name);
  budget_note_peak(&heap->budget);
  enter_list(heap);
  return heap;
}

/* Returns what checked=all and guarded=all add to a heap. A whole page for each block would soon exhaust a budget and is
 * impossible in memory that was taken before: such a heap is only checked. */
static unsigned flags_for_all(const pool_heap_options_t *o)
{
  bool bounded = o->budget || o->reserve || o->memory || o->flags & POOL_HEAP_DENSE || heap_is_bounded(o->parent);
  unsigned guarded = o->flags & POOL_HEAP_GUARDED ? 0 : POOL_HEAP_GUARDED | HEAP_GUARDED_UNASKED;
  return settings.all & ALL_GUARDED && !bounded ? guarded : POOL_HEAP_CHECKED;
}

/* A heap that has no room for heads is created as the program asked. */
NOINLINE static heap_t *create_with_all(const pool_heap_options_t *options)
{
  pool_heap_options_t o = *options;
  int saved = errno;
  o.flags |= flags_for_all(options);
  heap_t *heap = create(&o);
  if (heap)
    return heap;
  errno = saved;
  return create(options);
}

/* Blocks from malloc are in no region, so options about the region's pages cannot be met and are dropped. */
NOINLINE static heap_t *create_malloced(const pool_heap_options_t *options)
{
  pool_heap_options_t o = *options;
  o.reserve = 0;
  o.purge_delay_ms = 0;
  o.flags &= ~(unsigned)(POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_DENSE);
  return create(&o);
}

NOINLINE static heap_t *create_unasked(const pool_heap_options_t *options)
{
  if (blocks_are_malloced && !options->memory)
    return create_malloced(options);
  return settings.all ? create_with_all(options) : create(options);
}

heap_t *heap_create(const pool_heap_options_t *options)
{
  static const pool_heap_options_t defaults;
  const pool_heap_options_t *o = options ? options : &defaults;
  if (!heap_options_are_valid(o))
    return NULL;
  /* The manager comes up now even for a heap in the caller's memory, which makes no system calls later. */
  if (!manager_ready() && !o->memory)
    return no_memory();
  /* A thread that had its record later would fault it in by a call with the heap (region_prepare()). */
  if (o->flags & HEAP_REAL_TIME && manager_is_up())
    thread_current();
  heap_t *heap = unlikely(blocks_are_malloced | settings.all) ? create_unasked(o) : create(o);
  if (heap)
    POOL_PROBE3(tidepool, heap_create, heap, heap->name, o->budget);
  return heap;
}

/* ---- destroy ---- */

/* Runs after the heap has vanished: until then a question could look at the records of its bins. */
static void give_records(heap_t *heap)
{
  for (unsigned c = 1; c < heap->bins_end; c++) {
    bin_t *bin = heap->bins[c];
    if (bin) {
      depots_give(&bin->depots);
      heap_give_record(heap, bin, sizeof *bin);
    }
  }
  if (heap->class_sizes)
    heap_give_record(heap, (void *)(uintptr_t)heap->class_sizes, heap_class_table_bytes(heap->class_count));
}

/* A heap that has this one as its parent or overflow would keep a pointer to a dead record. */
static void refuse_if_used(const heap_t *heap)
{
  if (unlikely(__atomic_load_n(&heap->users, __ATOMIC_RELAXED) != 0))
    fatal_misuse("pool_heap_destroy", heap, HEAP_IS_NEEDED);
}

NOINLINE static void look_before_end(heap_t *heap)
{
  if (settings.leaks & LEAKS_AT_DESTROY)
    observer->destroy_heap(heap);
  if (settings.check_at_exit)
    heap_drain(heap, "pool_heap_destroy", true);
}

/* The heap leaves the list after its bins and the magazines of it: a fork takes the locks of listed heaps only. */
void heap_destroy(heap_t *heap)
{
  refuse_if_used(heap);
  POOL_PROBE2(tidepool, heap_destroy, heap, heap->name);
  if (unlikely((settings.leaks & LEAKS_AT_DESTROY) | settings.check_at_exit))
    look_before_end(heap);
  INSIDE_GATE(GATE_LIFE);
  heap_end_blocks(heap, true);
  vanish(heap, true);
  give_records(heap);
  budget_discharge(&heap->budget, budget_held(&heap->budget));
  give_memory(heap);
}
