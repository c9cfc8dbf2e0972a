/* SPDX-License-Identifier: MIT
 *
 * All pools are in one list, by age, and the pools of a heap are in a list of that heap. */
#include "object_pool/registry.h"
#include "base/list.h"
#include "heap/blocks.h"
#include "heap/heap.h"
#include "misuse.h"
#include "object_pool/cache.h"
#include "object_pool/hooks.h"
#include "object_pool/object_misuse.h"
#include "space/metadata.h"
#include <string.h>

object_pool_t *all_pools;
static object_pool_t *newest_pool; /* under heaps_lock */

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
object_pool_t *registry_take_record(heap_t *heap, const attempt_t *from)
{
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
  if (!pool_is_outside(pool)) {
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

void registry_drop_pools_of(heap_t *heap)
{
  for (object_pool_t *pool; (pool = heap->object_pools) != NULL;) {
    leave_all(pool);
    registry_end(pool, "pool_heap_destroy", true);
  }
}

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
