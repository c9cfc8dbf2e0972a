/* SPDX-License-Identifier: MIT */
#include "heap/create.h"
#include "base/text.h"
#include "heap/locate.h"
#include "heap/region.h"
#include "heap/reset.h"
#include "heap/startup.h"
#include "misuse.h"
#include "space/gate.h"
#include "space/metadata.h"
#include <errno.h>

enum {
  UNCACHED_BUDGET = 1 << 20,       /* up to here no thread keeps blocks back from the others */
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

/* What is idle elsewhere is the process's, and goes back as its own option says; a caller's memory never does. */
static bool can_have_purge_delay(const pool_heap_options_t *o)
{
  return !o->purge_delay_ms || (o->memory ? o->purge_delay_ms == POOL_PURGE_NEVER : region_is_wanted(o));
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

/* Threads may keep magazines unless every call must see the block, a new magazine would be a page fault, or nobody could take what
 * they hold of a budget back from them. They find them without asking further only where the class follows from the size alone
 * and every block is the heap's own. */
static void set_cached(heap_t *heap, const pool_heap_options_t *o)
{
  heap->reached = heap->budgeted && !heap->lock.solo;
  heap->cached = !heap->checked && !heap->zero_on_free && !region_is_real_time(o) && (!heap->reached || threads_can_be_reached);
  heap->has_cache_slot = heap->cached && !o->overflow && !o->size_classes;
  heap->plane = heap->cached && heap->space->unit_log2 == UNIT_LOG2 ? BIN_PLANE_HEAP : BIN_PLANE_NONE;
}

/* As it is charged. */
static size_t class_table_bytes(const heap_t *heap) { return round_up((heap->class_count + 1u) * sizeof(uint32_t), METADATA_ALIGNMENT); }

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

/* ---- the record of a heap ---- */

/* The records of heaps are used again, for heaps alone. So a pointer to a heap that was destroyed leads to a record that says so. One
 * that is to be locked has its own page, since whole pages are locked and unlocked. */
static heap_t *unused_heaps[2];                  /* under heaps_lock */

static metadata_kind_t heap_records = {.size = sizeof(heap_t), .alignment = (size_t)1 << HEAP_ALIGNMENT_LOG2};   /* with them */

static heap_t *record_of_own_page(void) { return metadata_take(round_up(sizeof(heap_t), os_page_size()), os_page_size()); }

static heap_t *heap_record_take(bool own_page)
{
  lock_acquire(&heaps_lock);
  heap_t *heap = unused_heaps[own_page];
  if (heap)
    unused_heaps[own_page] = heap->next;
  else
    heap = own_page ? record_of_own_page() : metadata_take_kind(&heap_records);
  lock_release(&heaps_lock);
  if (heap)
    *heap = (heap_t){.own_page = own_page};
  return heap;
}

static void heap_record_give(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  heap->next = unused_heaps[heap->own_page];
  unused_heaps[heap->own_page] = heap;
  lock_release(&heaps_lock);
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
  if (heap->region.kind == REGION_GUEST)
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

/* The heap is out of everybody's reach, whether it was ever in the list or its creation has failed: a region is found by its address
 * from the moment it is there. Somebody may still be looking at what is about to go, a question about an address, a tick; they hold
 * the lock of the list. */
static void vanish(heap_t *heap, bool was_listed)
{
  if (heap->region.kind == REGION_GUEST && was_listed)
    guests_leave(heap);
  region_hide(heap);
  lock_acquire(&heaps_lock);
  if (was_listed)
    leave_list(heap);
  lock_release(&heaps_lock);
}

/* ---- making one ---- */

/* Nobody finds it any more. */
static void give_memory(heap_t *heap)
{
  bool guest = heap->region.kind == REGION_GUEST;
  region_give(heap);
  heap->mark = 0;
  if (!guest)
    heap_record_give(heap);
}

/* What was charged goes back before the record that says so. */
static heap_t *failed(heap_t *heap, size_t charged, int error)
{
  vanish(heap, false);
  budget_discharge(&heap->budget, charged);
  give_memory(heap);
  errno = error;
  return NULL;
}

static heap_t *create_of_system(const pool_heap_options_t *o)
{
  region_plan_t plan = region_is_wanted(o) ? region_plan(o) : region_no_plan(o);
  heap_t *heap = heap_record_take(region_is_real_time(o));
  if (!heap) {
    errno = ENOMEM;
    return NULL;
  }
  heap->space = &space_of_process;
  heap->class_most = SIZE_MAX_CLASS;
  set_common(heap, o);
  heap->region.arena_record_bytes = plan.arena_records;
  heap->head_bytes = region_plan_bytes(&plan, o->reserve != 0);
  heap->metadata_bytes = heap->head_bytes - (o->reserve ? plan.units << plan.unit_log2 : 0);
  heap->metadata_shared = heap->metadata_bytes - (plan.unit_log2 == UNIT_LOG2 ? plan.arena_records : 0);
  if ((region_is_wanted(o) && !plan.units) || (o->budget && heap->head_bytes > o->budget))
    return failed(heap, 0, EINVAL);
  if (!budget_charge(&heap->budget, heap->head_bytes))
    return failed(heap, 0, ENOMEM);
  if (region_is_wanted(o) && !region_make(heap, o, &plan))
    return failed(heap, heap->head_bytes, ENOMEM);
  if (!region_is_wanted(o) || !region_is_small(o) || !o->budget || o->budget > UNCACHED_BUDGET)
    set_cached(heap, o);
  return heap;
}

static heap_t *create_guest(const pool_heap_options_t *o)
{
  heap_t *heap = region_create_guest(o);
  if (heap)
    set_common(heap, o);
  return heap;
}

static heap_t *create(const pool_heap_options_t *o)
{
  heap_t *heap = o->memory ? create_guest(o) : create_of_system(o);
  if (!heap) {
    errno = o->memory ? EINVAL : errno;
    return NULL;
  }
  if (o->memory && !budget_charge(&heap->budget, heap->head_bytes))
    return failed(heap, 0, o->budget && heap->head_bytes > o->budget ? EINVAL : ENOMEM);
  bool has_classes = set_classes(heap, o);
  if (!has_classes || !region_prepare(heap, o)) {
    bool too_small = !has_classes && o->budget && heap->head_bytes + class_table_bytes(heap) > o->budget;
    heap_give_record(heap, (void *)(uintptr_t)heap->class_sizes, class_table_bytes(heap));
    return failed(heap, heap->head_bytes, too_small ? EINVAL : ENOMEM);
  }
  budget_note_peak(&heap->budget);
  enter_list(heap);
  return heap;
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
  if (!manager_ready() && !o->memory) {
    errno = ENOMEM;
    return NULL;
  }
  lock_t *gate = gate_enter(GATE_LIFE);
  heap_t *heap = create(o);
  gate_leave(gate);
  return heap;
}

/* ---- ending one ---- */

static void give_records(heap_t *heap)
{
  for (unsigned c = 1; c < heap->bins_end; c++) {
    bin_t *bin = heap->bins[c];
    if (bin)
      heap_give_record(heap, bin, bin->depots.of ? sizeof(bin_record_t) : sizeof(bin_t));
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

/* A fork takes the locks of the heaps in the list, so the heap stays there until no bin of it is due for a tick and no thread has
 * magazines of it. */
void heap_destroy(heap_t *heap)
{
  refuse_if_used(heap);
  lock_t *gate = gate_enter(GATE_LIFE);
  heap_end_blocks(heap, true);
  vanish(heap, true);
  give_records(heap);
  budget_discharge(&heap->budget, budget_held(&heap->budget));
  give_memory(heap);
  gate_leave(gate);
}
