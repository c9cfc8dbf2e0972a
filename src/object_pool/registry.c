/* SPDX-License-Identifier: MIT
 *
 * All pools are in one list, by age, and the pools of a heap are in a list of that heap. */
#include "base/list.h"
#include "heap/heap.h"
#include "object_pool/cache.h"
#include "object_pool/operations.h"
#include "space/metadata.h"
#include <string.h>

void *misuse_no_pool(const char *call) { return invalid(INVALID_POOL_IS_NULL, (uintptr_t)call); }

/* A message has no name for such a pool: only the address is known. */
void misuse_no_live_pool(const object_pool_t *pool, const char *call) { fatal_misuse(call, pool, NOT_AN_OBJECT_POOL); }

static object_pool_t *all_pools, *newest_pool; /* oldest first, under heaps_lock */

/* Takes a pool out of both lists. */
static void leave_all(object_pool_t *pool)
{
  if (home_of(pool))
    caches_leave_pool(pool);
  QUEUE_REMOVE(all_pools, newest_pool, pool, next, previous);
  LIST_REMOVE(pool->heap->object_pools, pool, next_in_heap, previous_in_heap);
}

void registry_leave(object_pool_t *pool)
{
  LOCKED(&heaps_lock);
  leave_all(pool);
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

/* Pool records that are no blocks of a heap; under heaps_lock. A pointer to a destroyed pool finds a record that says so. */
static metadata_kind_t pool_records = {
  .size = sizeof(object_pool_t), .alignment = METADATA_ALIGNMENT, .link = offsetof(object_pool_t, next)};

/* The record is a block of the heap if the heap cannot have records outside of its blocks, or its budget refuses. */
object_pool_t *registry_take_record(const attempt_t *from)
{
  heap_t *heap = from->first;
  bool outside = heap_has_records_outside(heap) && !watch_keeps_records() && heap_charge_record(heap, sizeof(object_pool_t));
  object_pool_t *pool;
  if (outside) {
    LOCKED(&heaps_lock);
    pool = metadata_take_kind(&pool_records);
  } else {
    pool = heap_probe(from, sizeof *pool, NATURAL_ALIGNMENT);
  }
  if (pool)
    pool->is_outside = outside;
  else if (outside)
    heap_discharge_record(heap, sizeof *pool);
  return pool;
}

/* Leaves a record that no fast path serves, so that a call with the destroyed pool gets to must_be_live(). A record outside of
 * the heap serves the next pool, and is charged to no heap. */
void registry_end(object_pool_t *pool, const char *call, bool with_heap)
{
  heap_t *heap = pool->heap;
  pool->hot_single.state = pool->hot_shared.state = 0;
  pool->walked_bytes = 0;
  pool->mark = pool->path = 0;
  if (is_watched(pool))
    os_tool_end_blocks(pool, !pool->is_outside);
  for (uint32_t k = 0; k < pool->array_count; k++)
    array_destroy(pool, pool->arrays[k], call, with_heap);
  if (!heap_has_records_outside(heap) || !pool->is_outside) {
    pool_give_block(pool, pool, call, with_heap);
    return;
  }
  if (!with_heap)
    lock_acquire(&heaps_lock);
  metadata_give_kind(&pool_records, pool);
  if (!with_heap)
    lock_release(&heaps_lock);
  heap_discharge_record(heap, sizeof *pool);
}

/* Ends all pools of a heap that ends. Called under heaps_lock. */
static void drop_pools_of(heap_t *heap)
{
  for (object_pool_t *pool; (pool = heap->object_pools) != NULL;) {
    leave_all(pool);
    registry_end(pool, "pool_heap_destroy", true);
  }
}

/* ---- for heaps, figures and forks ---- */

/* A tool itself sees writes to objects that are closed to the program. A single-threaded pool has no lock. */
static const void *look_for_written(object_pool_t *pool, bool alone)
{
  if (!is_checked(pool) || is_watched(pool) || pool->ending || (pool->single_thread && !alone))
    return NULL;
  LOCKED(&pool->lock);
  return array_find_written(pool);
}

/* Reports with no lock held, because a handler for the end of the program may use pools. */
static void verify_pools(heap_t *heap, bool alone, const char *call)
{
  const void *written = NULL;
  lock_acquire(&heaps_lock);
  bool all = HAS_SYSTEM && !heap;
  object_pool_t *pool = all ? all_pools : heap->object_pools;
  while (pool && !(written = look_for_written(pool, alone)))
    pool = all ? pool->next : pool->next_in_heap;
  lock_release(&heaps_lock);
  if (written)
    misuse_verify_dead(pool, written, call);
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
      hooks_free_deserted(pool);
  }
  caches_forget_blocks();
}

/* Reads only the pool's own words: a single-threaded pool has no lock, so its arrays may leave at any moment. */
static void visit_pools(heap_dependent_visit_fn *visit, void *context)
{
  LOCKED(&heaps_lock);
  for (const object_pool_t *pool = all_pools; pool; pool = pool->next) {
    object_pool_figures_t figures = {.object_size = pool->object_size,
                                     .capacity = LOAD(pool->capacity),
                                     .live = live_count(pool),
                                     .arrays = LOAD(pool->array_count),
                                     .held_bytes = sizeof *pool + LOAD(pool->held_bytes)};
    memcpy(figures.name, pool->name, sizeof figures.name);
    memcpy(figures.heap, pool->heap->name, sizeof figures.heap);
    visit(&figures, context);
  }
}

/* Firmware has no threads, no forks and no figures of all pools. */
static const heap_dependents_t object_pools = {.verify = HAS_CHECKS ? verify_pools : NULL,
                                               .drop = drop_pools_of,
                                               .visit = HAS_SYSTEM ? visit_pools : NULL,
                                               .thread_ends = HAS_SYSTEM ? caches_end_of_thread : NULL,
                                               .fork_prepare = HAS_SYSTEM ? acquire_pools : NULL,
                                               .fork_parent = HAS_SYSTEM ? release_pools : NULL,
                                               .fork_child = HAS_SYSTEM ? reset_pools : NULL};

/* The first pool registers the pools with the heaps. */
void registry_enter(object_pool_t *pool)
{
  LOCKED(&heaps_lock);
  __atomic_store_n(&heap_dependents, &object_pools, __ATOMIC_RELEASE);
  if (HAS_CACHES)
    caches_enter_pool(pool);
  QUEUE_APPEND(all_pools, newest_pool, pool, next, previous);
  LIST_PUSH(pool->heap->object_pools, pool, next_in_heap, previous_in_heap);
}
