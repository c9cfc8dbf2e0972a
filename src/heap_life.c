/* SPDX-License-Identifier: MIT */
#include "heap_life.h"
#include "base/text.h"
#include "metadata.h"
#include <errno.h>
#include <string.h>

enum {
  SMALL_BUDGET = 8 << 20,          /* up to here the whole budget is one region of small units */
  UNCACHED_BUDGET = 1 << 20,       /* up to here no thread keeps blocks back from the others */
  REGION_UNITS = 16,               /* a region is cut into so many units at least, within: */
  REGION_UNIT_LEAST_LOG2 = 10,
  REGION_UNIT_MOST_LOG2 = 12,
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
  return o->reserve <= PTRDIFF_MAX && classes_are_valid(o->size_classes, o->size_class_count);
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

static bool set_classes(heap_t *heap, const pool_heap_options_t *o)
{
  if (!o->size_classes)
    return true;
  uint32_t *sizes = heap_take_record(heap, (o->size_class_count + 1) * sizeof *sizes);
  if (!sizes)
    return false;
  for (size_t i = 0; i < o->size_class_count; i++)
    sizes[i + 1] = (uint32_t)o->size_classes[i];
  heap->class_sizes = sizes;
  heap->class_most = SIZE_MAX_CLASS;
  heap->class_count = (uint8_t)o->size_class_count;
  return true;
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
  heap->lock.solo = heap->own_space.lock.solo = o->flags & POOL_HEAP_SINGLE_THREAD;
  set_name(heap, o->name);
}

/* Threads may keep magazines unless every call must see the block; they find them without asking further only where the class
 * follows from the size alone and every block is the heap's own. */
static void set_cached(heap_t *heap, const pool_heap_options_t *o)
{
  bool real_time = o->flags & (POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY);   /* a new magazine would be a page fault */
  heap->cached = !heap->checked && !heap->zero_on_free && !real_time;
  heap->placed = heap->cached && !o->overflow && !o->size_classes;
  heap->plane = heap->cached && heap->space->unit_log2 == UNIT_LOG2 ? POOL_PLANE_HEAP : POOL_PLANE_NONE;
}

/* ---- the memory of a heap ---- */

static unsigned region_unit_log2(size_t size)
{
  if (size > SMALL_BUDGET)
    return UNIT_LOG2;
  unsigned log2 = log2_floor(max_size(size / REGION_UNITS, 1));
  return log2 < REGION_UNIT_LEAST_LOG2 ? REGION_UNIT_LEAST_LOG2 : log2 > REGION_UNIT_MOST_LOG2 ? REGION_UNIT_MOST_LOG2 : log2;
}

/* Puts a heap and its arena's records at the head of [memory, memory+size). NULL: too small. */
static heap_t *heap_in_region(char *memory, size_t size, unsigned unit_log2, const run_t *run, const pool_heap_options_t *o)
{
  char *at = (char *)round_up((uintptr_t)memory, 64), *end = memory + size;
  if (end < at + sizeof(heap_t))
    return NULL;
  heap_t *heap = memset(at, 0, sizeof *heap);
  char *records = space_init_region(&heap->own_space, &heap->own_arena, at + sizeof *heap, (size_t)(end - at) - sizeof *heap,
                                    unit_log2, run != NULL, run && run->zeroed);
  if (!records)
    return NULL;
  heap->space = &heap->own_space;
  heap->class_most = unit_log2 == UNIT_LOG2 ? SIZE_MAX_CLASS : CLASS_MOST_UNITS << unit_log2;
  heap->region = memory;
  heap->region_size = size;
  heap->records = (char *)round_up((uintptr_t)records, sizeof(void *));
  heap->records_end = heap->own_arena.base;
  heap->head_bytes = size - ((size_t)heap->own_arena.unit_count << unit_log2);
  set_common(heap, o);
  return heap;
}

static heap_t *create_in_memory(const pool_heap_options_t *o)
{
  heap_t *heap = heap_in_region(o->memory, o->memory_size, region_unit_log2(o->memory_size), NULL, o);
  /* Something must be left for a block and for the record of its pool. */
  if (heap && heap->own_arena.unit_count < 2 && heap->records_end - heap->records < (ptrdiff_t)sizeof(pool_t)) {
    heap->mark = 0;
    heap = NULL;
  }
  if (heap)
    heap->bounded = true;
  else
    errno = EINVAL;
  return heap;
}

static heap_t *create_in_run(size_t size, unsigned unit_log2, const pool_heap_options_t *o)
{
  run_t *run = space_take(&space_of_process, space_units(&space_of_process, size), 1);
  if (!run) {
    errno = ENOMEM;
    return NULL;
  }
  heap_t *heap = heap_in_region(run->start, size, unit_log2, run, o);
  if (!heap) {
    space_give(&space_of_process, run, true);
    errno = EINVAL;
    return NULL;
  }
  run_become(run, RUN_REGION, heap);
  heap->region_run = run;
  heap->own_space.purge_delay_ms = o->purge_delay_ms ? o->purge_delay_ms : settings.purge_delay_ms;
  return heap;
}

/* A small budget is one region, records and all. */
static heap_t *create_in_budget(const pool_heap_options_t *o)
{
  heap_t *heap = create_in_run(o->budget, region_unit_log2(o->budget), o);
  if (heap) {
    heap->own_space.beyond = &space_of_process;   /* for the day the budget is raised */
    if (o->reserve) {                             /* paid for whole: it is small */
      heap->own_space.prepaid = true;
      heap->head_bytes = o->budget;
    }
    if (o->budget > UNCACHED_BUDGET)
      set_cached(heap, o);
  }
  return heap;
}

/* The reserve is the blocks' alone; what serves them comes on top. It is paid for now. */
static heap_t *create_in_reserve(const pool_heap_options_t *o)
{
  size_t units = space_units(&space_of_process, o->reserve);
  size_t records = units * (sizeof(run_t) + LONG_BITMAP_WORDS * sizeof(uint64_t) + 1) + sizeof(heap_t) + HEAP_RECORDS_MOST;
  heap_t *heap = create_in_run((units << UNIT_LOG2) + round_up(records, UNIT), UNIT_LOG2, o);
  if (heap) {
    heap->own_space.beyond = &space_of_process;
    heap->own_space.prepaid = true;
    heap->head_bytes = (size_t)heap->own_arena.unit_count << UNIT_LOG2;
    set_cached(heap, o);
  }
  return heap;
}

static heap_t *unused_heaps;                     /* under heaps_lock */

static heap_t *create_in_process(const pool_heap_options_t *o)
{
  lock_acquire(&heaps_lock);
  heap_t *heap = unused_heaps;
  if (heap)
    unused_heaps = heap->next;
  lock_release(&heaps_lock);
  if (!heap)
    heap = metadata_take(sizeof *heap, (size_t)1 << HEAP_ALIGNMENT_LOG2);
  if (!heap) {
    errno = ENOMEM;
    return NULL;
  }
  *heap = (heap_t){.space = &space_of_process, .class_most = SIZE_MAX_CLASS};
  set_common(heap, o);
  set_cached(heap, o);
  heap->head_bytes = sizeof *heap;
  return heap;
}

/* The whole pages that the region touches. */
static char *region_pages(const heap_t *heap, size_t *size)
{
  char *start = (char *)round_down((uintptr_t)heap->region, os_page_size());
  *size = round_up((size_t)(heap->region + heap->region_size - start), os_page_size());
  return start;
}

static bool prepare_memory(heap_t *heap, const pool_heap_options_t *o)
{
  size_t size;
  if (!heap->region)
    return true;
  char *start = region_pages(heap, &size);
  if (o->flags & POOL_HEAP_PREFAULT && !os_prefault(start, size))
    return false;
  if (o->flags & POOL_HEAP_LOCK_MEMORY)
    heap->locked_memory = os_lock_memory(start, size);
  if (o->flags & (POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY))
    heap->own_space.purgeable = false;
  return heap->locked_memory || !(o->flags & POOL_HEAP_LOCK_MEMORY);
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
  if (heap->bounded)
    __atomic_fetch_add(&heap_guests, 1, __ATOMIC_RELAXED);
  lock_release(&heaps_lock);
}

static void leave_list(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  heap->previous->next = heap->next;
  if (heap->next)
    heap->next->previous = heap->previous;
  if (heap->bounded)
    __atomic_fetch_sub(&heap_guests, 1, __ATOMIC_RELAXED);
  lock_release(&heaps_lock);
}

static void release_memory(heap_t *heap)
{
  run_t *run = heap->region_run;
  size_t size;
  heap->mark = 0;
  if (heap->locked_memory) {
    char *start = region_pages(heap, &size);
    os_unlock_memory(start, size);
  }
  if (run) {
    space_give(&space_of_process, run, true);
  } else if (!heap->region) {
    lock_acquire(&heaps_lock);
    heap->next = unused_heaps;
    unused_heaps = heap;
    lock_release(&heaps_lock);
  }
}

heap_t *heap_create(const pool_heap_options_t *options)
{
  static const pool_heap_options_t defaults;
  const pool_heap_options_t *o = options ? options : &defaults;
  if (!options_are_valid(o)) {
    errno = EINVAL;
    return NULL;
  }
  if (!o->memory && !heap_front_ready()) {
    errno = ENOMEM;
    return NULL;
  }
  bool small = o->budget && o->budget <= SMALL_BUDGET;
  heap_t *heap = o->memory ? create_in_memory(o) : small ? create_in_budget(o) : o->reserve ? create_in_reserve(o) : create_in_process(o);
  if (!heap)
    return NULL;
  if (!budget_charge(&heap->budget, heap->head_bytes)) {
    release_memory(heap);
    errno = heap->budget.limit && heap->head_bytes > heap->budget.limit ? EINVAL : ENOMEM;
    return NULL;
  }
  if (!set_classes(heap, o) || !prepare_memory(heap, o)) {
    budget_discharge(&heap->budget, heap->head_bytes);
    release_memory(heap);
    errno = ENOMEM;
    return NULL;
  }
  budget_note_peak(&heap->budget);
  enter_list(heap);
  return heap;
}

/* ---- the end of all blocks ---- */

static void drop_dependents(heap_t *heap)
{
  if (!heap->dependents)
    return;
  lock_acquire(&heaps_lock);
  heap_dependents->drop(heap);
  lock_release(&heaps_lock);
}

static void drop_magazines(magazines_t *magazines, heap_t *heap) { heap_each_cached_pool(magazines, heap, magazines_drop); }

static void free_large_blocks(heap_t *heap)
{
  while (heap->large)
    heap_free_run(heap, heap->large, true);
  huge_t *huge;
  while ((huge = huge_next(heap, NULL)) != NULL)
    heap_free_huge(heap, huge);
}

static bool zero_block(const pool_block_t *block, void *context)
{
  (void)context;
  memset(block->start, 0, block->size);
  return true;
}

void heap_reset(heap_t *heap)
{
  drop_dependents(heap);
  if (heap->zero_on_free)
    heap_walk(heap, zero_block, NULL);
  if (heap->cached)
    threads_visit(heap, false, drop_magazines);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (heap->pools[c])
      pool_reset(heap->pools[c]);
  free_large_blocks(heap);
}

static void give_records(heap_t *heap)
{
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    heap_give_record(heap, heap->pools[c]);
  heap_give_record(heap, (void *)(uintptr_t)heap->class_sizes);
  for (run_t *run = heap->records_beyond, *next; run; run = next) {
    next = run->next;
    space_give(&space_of_process, run, true);
  }
}

void heap_destroy(heap_t *heap)
{
  drop_dependents(heap);
  if (heap->zero_on_free)
    heap_walk(heap, zero_block, NULL);
  leave_list(heap);
  if (heap->cached)
    threads_visit(heap, true, drop_magazines);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (heap->pools[c])
      pool_finish(heap->pools[c]);
  free_large_blocks(heap);
  give_records(heap);
  budget_discharge(&heap->budget, budget_held(&heap->budget));
  release_memory(heap);
}

bool heap_set_budget(heap_t *heap, size_t budget)
{
  size_t had = heap->budget.limit;
  __atomic_store_n(&heap->budget.limit, budget, __ATOMIC_RELAXED);
  if (!budget || budget_held(&heap->budget) <= budget)
    return true;
  heap_trim(heap, 0);
  if (budget_held(&heap->budget) <= budget)
    return true;
  __atomic_store_n(&heap->budget.limit, had, __ATOMIC_RELAXED);
  return false;
}

/* ---- walking ---- */

typedef struct walk {
  heap_t        *heap;
  pool_visit_fn *visit;
  void          *context;
} walk_t;

static bool visit_block(const walk_t *walk, char *start, size_t size)
{
  pool_block_t block = {start, walk->heap->checked ? heap_usable_size(start, "pool_heap_walk") : size};
  return walk->visit(&block, walk->context);
}

/* Live are the blocks below the fresh mark that are not in the bitmap: every magazine has been flushed. The bitmap is asked
 * anew for each block, so that the visitor may free the one it is given. */
static bool walk_slab(const walk_t *walk, const run_t *slab)
{
  size_t size = ((const pool_t *)slab->owner)->block_size;
  for (size_t i = 0; i < slab->fresh; i++)
    if (!bit_test(slab->bitmap, i) && !visit_block(walk, slab->start + i * size, size))
      return false;
  return true;
}

static bool is_run_of(const run_t *run, const void *context)
{
  const heap_t *heap = context;
  run_kind_t kind = run_kind(run);
  return (kind == RUN_SLAB && ((const pool_t *)run->owner)->heap == heap) || (kind == RUN_LARGE && run->owner == heap);
}

static bool walk_space(const walk_t *walk, space_t *space)
{
  run_t *run;
  for (const char *from = NULL; (run = space_next_run(space, from, is_run_of, walk->heap)) != NULL;) {
    from = run->start + run_bytes(arena_of(space, run->start), run);
    if (!(run_kind(run) == RUN_SLAB ? walk_slab(walk, run) : visit_block(walk, run->start, run->size)))
      return false;
  }
  return true;
}

static bool walk_huge(const walk_t *walk)
{
  for (huge_t *huge = huge_next(walk->heap, NULL), *next; huge; huge = next) {
    next = huge_next(walk->heap, huge);
    if (!visit_block(walk, huge->start, huge->size))
      return false;
  }
  return true;
}

static void return_magazines(magazines_t *magazines, heap_t *heap) { heap_each_cached_pool(magazines, heap, magazines_flush); }

static void flush_all_threads(heap_t *heap)
{
  threads_visit(heap, false, return_magazines);
  if (heap == &heap_front) {
    lock_acquire(&threads_lock);
    for (thread_t *thread = threads_first(); thread; thread = thread->next)
      return_magazines(&thread->front, heap);
    lock_release(&threads_lock);
  }
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (heap->pools[c])
      pool_drain(heap->pools[c]);
}

bool heap_walk(heap_t *heap, pool_visit_fn *visit, void *context)
{
  walk_t walk = {heap, visit, context};
  flush_all_threads(heap);
  if (heap->own_space.fixed && !walk_space(&walk, &heap->own_space))
    return false;
  return heap->bounded || (walk_space(&walk, &space_of_process) && walk_huge(&walk));
}
