/* SPDX-License-Identifier: MIT
 *
 * All pools are in one list, by age, and the pools of a heap are in a list of that heap. */
#include "object_pool/registry.h"
#include "base/list.h"
#include "heap/blocks.h"
#include "heap/heap.h"
#include "heap/locate.h"
#include "misuse.h"
#include "object_pool/cache.h"
#include "object_pool/hooks.h"
#include "object_pool/object_misuse.h"
#include "object_pool/watch.h"
#include "space/metadata.h"
#include <string.h>

static object_pool_t *all_pools, *newest_pool; /* under heaps_lock, oldest first */

/* Takes a pool out of both lists. */
static void leave_all(object_pool_t *pool)
{
  if (HAS_SYSTEM)
    caches_leave_pool(pool);
  QUEUE_REMOVE(all_pools, newest_pool, pool, next, previous);
  LIST_REMOVE(pool->heap->object_pools, pool, next_in_heap, previous_in_heap);
}

void registry_leave(object_pool_t *pool)
{
  lock_acquire(&heaps_lock);
  leave_all(pool);
  lock_release(&heaps_lock);
}

static bool is_in_list(const object_pool_t *wanted)
{
  const object_pool_t *pool = all_pools;
  while (pool && pool != wanted)
    pool = pool->next;
  return pool != NULL;
}

/* Returns how many objects stand before those of `to` in the chain of `pool`; 0 if the chain does not lead there. The record of
 * a pool that others overflow to may have ended with its heap. The list tells. */
static size_t objects_before(const object_pool_t *pool, const object_pool_t *to)
{
  size_t before = 0;
  for (; pool != to; pool = overflow_of(pool)) {
    if (!is_in_list(pool))
      return 0;
    before += LOAD(pool->capacity);
  }
  return before;
}

/* Looks through all pools for each pool of each chain. Only a pool that lacks indices does so. */
bool registry_recount_indices(object_pool_t *pool)
{
  size_t most = 0;
  lock_acquire(&heaps_lock);
  for (const object_pool_t *other = all_pools; other; other = other->next)
    most = max_size(most, objects_before(other, pool));
  lock_acquire(&pool->lock);
  bool any = most < pool->indices_before;
  if (any)
    pool->indices_before = (uint32_t)most;
  lock_release(&pool->lock);
  lock_release(&heaps_lock);
  return any;
}

/* Leaves a record that no fast path serves, so that a call with the destroyed pool gets to must_be_live(). */
static void end_record(object_pool_t *pool)
{
  pool->hot_single.state = pool->hot_shared.state = 0;
  pool->walked_bytes = 0;
  pool->mark = pool->path = 0;
}

/* Pool records that are no blocks of a heap. They serve only later pools, so a stale pointer finds a record that says so. */
static object_pool_t *unused_pools;                                                                     /* under heaps_lock */
static metadata_kind_t pool_records = {.size = sizeof(object_pool_t), .alignment = METADATA_ALIGNMENT}; /* under heaps_lock */

static object_pool_t *record_take_in_heap(const attempt_t *from)
{
  object_pool_t *pool = heap_probe(from, sizeof *pool, NATURAL_ALIGNMENT);
  if (pool)
    pool->is_outside = false;
  return pool;
}

/* The record is a block of the heap if the heap cannot have records outside of its blocks, or its budget refuses. */
object_pool_t *registry_take_record(heap_t *heap, const attempt_t *from)
{
  if (!heap_has_records_outside(heap) || watch_keeps_records() || !heap_charge_record(heap, sizeof(object_pool_t)))
    return record_take_in_heap(from);
  lock_acquire(&heaps_lock);
  object_pool_t *pool = unused_pools;
  if (pool)
    unused_pools = pool->next;
  else
    pool = metadata_take_kind(&pool_records);
  lock_release(&heaps_lock);
  if (pool)
    pool->is_outside = true;
  else
    heap_discharge_record(heap, sizeof *pool);
  return pool;
}

/* Keeps the record for the next pool, charged to no heap. Called under heaps_lock. */
static void record_keep(heap_t *heap, object_pool_t *pool)
{
  pool->next = unused_pools;
  unused_pools = pool;
  heap_discharge_record(heap, sizeof *pool);
}

/* The record loses its mark before anything else can use it. */
void registry_give_record(heap_t *heap, object_pool_t *pool, const char *call)
{
  end_record(pool);
  if (!pool->is_outside) {
    heap_free(heap, pool, ORIGIN(call));
    return;
  }
  lock_acquire(&heaps_lock);
  record_keep(heap, pool);
  lock_release(&heaps_lock);
}

/* Frees a block that the heap's overflow served, because it does not end with the heap. */
static void give_overflowed(const heap_t *heap, void *block, const char *call)
{
  if (heap_overflow(heap) && heap_locate_block(heap, block, call, FREED_TWICE).heap != heap)
    heap_free(NULL, block, ORIGIN(call));
}

/* Drops a pool of a heap that ends, without hooks. Memory apart from the heap, or from its overflow, is freed. */
static void drop_pool(heap_t *heap, object_pool_t *pool)
{
  static const char call[] = "pool_heap_destroy";
  leave_all(pool);
  end_record(pool);
  watch_end(pool);
  for (uint32_t k = 0; k < pool->array_count; k++) {
    object_array_t *array = pool->arrays[k];
    if (is_watched(pool))
      watch_end_array(pool, array);
    if (array->place != ARRAY_IN_FRONT)
      give_overflowed(heap, array->objects, call);
    if (array->place == ARRAY_APART)
      heap_give_record(heap, array, array->record_bytes);
    else
      give_overflowed(heap, array, call);
  }
  if (pool->is_outside)
    record_keep(heap, pool);
  else
    give_overflowed(heap, pool, call);
}

/* Returns a free object that was written to after its put, or NULL. Called under the pool's lock. */
static const void *find_written(const object_pool_t *pool)
{
  for (uint32_t k = 0; k < pool->array_count; k++) {
    const object_array_t *array = pool->arrays[k];
    for (size_t i = 0; i < array->capacity; i++) {
      const void *object = object_at(pool, array, i);
      if (bit_tree_test(&array->free, i) && !bit_test(array->made, i) && misuse_was_written(pool, object))
        return object;
    }
  }
  return NULL;
}

/* A tool itself sees writes to objects that are closed to the program. A single-threaded pool has no lock. */
static const void *look_for_written(object_pool_t *pool, bool alone)
{
  if (!is_checked(pool) || is_watched(pool) || pool->ending || (pool->single_thread && !alone))
    return NULL;
  lock_acquire(&pool->lock);
  const void *object = find_written(pool);
  lock_release(&pool->lock);
  return object;
}

/* Reports with no lock held, because a handler for the end of the program may use pools. */
static void verify_pools(heap_t *heap, bool alone, const char *call)
{
  const void *written = NULL;
  lock_acquire(&heaps_lock);
  object_pool_t *pool = heap ? heap->object_pools : all_pools;
  while (pool && !(written = look_for_written(pool, alone)))
    pool = heap ? pool->next_in_heap : pool->next;
  lock_release(&heaps_lock);
  if (written)
    misuse_verify_dead(pool, written, call);
}

static void drop_pools_of(heap_t *heap)
{
  while (heap->object_pools)
    drop_pool(heap, heap->object_pools);
}

/* No call holds the locks of two pools, so their order does not matter. Single-threaded pools have no lock. */
static void for_each_shared(void (*act)(lock_t *))
{
  for (object_pool_t *pool = all_pools; pool; pool = pool->next)
    if (!pool->single_thread)
      act(&pool->lock);
}

static void acquire_pools(void)
{
  lock_acquire(&object_caches_lock);
  for_each_shared(lock_acquire);
}

static void release_pools(void)
{
  for_each_shared(lock_release);
  lock_release(&object_caches_lock);
}

/* In the child of a fork, frees an object in a lost thread's hook. It counts as never used, because its state is unknown. */
static void free_if_deserted(object_pool_t *pool, object_array_t *array, size_t i)
{
  void *object = object_at(pool, array, i);
  if (is_in_own_hook(object))
    return;
  bit_clear(array->made, i);
  if (is_watched(pool))
    watch_open(pool, array, object);
  if (is_checked(pool))
    misuse_fill_dead(pool, object);
  if (is_watched(pool))
    watch_close(pool, array, object);
  set_busy(pool, array, i, false);
  object_to_free(pool, array, i);
}

/* Arrays of pools without hooks have no map of busy objects. */
static void free_deserted(object_pool_t *pool)
{
  for (uint32_t k = 0; k < pool->array_count && pool->busy; k++) {
    object_array_t *array = pool->arrays[k];
    for (size_t i = 0; (i = bits_next_set(array->busy, i, array->capacity)) < array->capacity; i++)
      free_if_deserted(pool, array, i);
  }
}

/* In the child of a fork, no thread is creating an array, so the locks of growth are free too. A pool that is single-threaded
 * or being destroyed is left alone, because its thread may be the one that forked. */
static void reset_pools(void)
{
  for_each_shared(lock_reset);
  lock_reset(&object_caches_lock);
  for (object_pool_t *pool = all_pools; pool; pool = pool->next) {
    lock_reset(&pool->growth);
    caches_forget_others(pool);
    if (!pool->single_thread && !pool->ending)
      free_deserted(pool);
  }
  caches_forget_blocks();
}

/* Reads only the pool's own words: a single-threaded pool has no lock, so its arrays may leave at any moment. */
static void object_pool_figures_of(const object_pool_t *pool, object_pool_figures_t *f)
{
  *f = (object_pool_figures_t){.object_size = pool->object_size,
                               .capacity = LOAD(pool->capacity),
                               .live = live_count(pool),
                               .arrays = LOAD(pool->array_count),
                               .held_bytes = sizeof *pool + LOAD(pool->held_bytes)};
  memcpy(f->name, pool->name, sizeof f->name);
  memcpy(f->heap, pool->heap->name, sizeof f->heap);
}

void object_pools_visit(object_pool_visit_fn *visit, void *context)
{
  object_pool_figures_t figures;
  lock_acquire(&heaps_lock);
  for (object_pool_t *pool = all_pools; pool; pool = pool->next) {
    object_pool_figures_of(pool, &figures);
    visit(&figures, context);
  }
  lock_release(&heaps_lock);
}

/* There are no forks and no threads without a system. */
static const heap_dependents_t object_pools = {.verify = HAS_SYSTEM ? verify_pools : NULL,
                                               .drop = drop_pools_of,
                                               .visit = HAS_SYSTEM ? object_pools_visit : NULL,
                                               .thread_ends = HAS_SYSTEM ? caches_end_of_thread : NULL,
                                               .fork_prepare = HAS_SYSTEM ? acquire_pools : NULL,
                                               .fork_parent = HAS_SYSTEM ? release_pools : NULL,
                                               .fork_child = HAS_SYSTEM ? reset_pools : NULL};

/* The first pool registers the pools with the heaps. */
void registry_enter(object_pool_t *pool)
{
  lock_acquire(&heaps_lock);
  __atomic_store_n(&heap_dependents, &object_pools, __ATOMIC_RELEASE);
  if (HAS_SYSTEM)
    caches_enter_pool(pool);
  QUEUE_APPEND(all_pools, newest_pool, pool, next, previous);
  LIST_PUSH(pool->heap->object_pools, pool, next_in_heap, previous_in_heap);
  lock_release(&heaps_lock);
}
