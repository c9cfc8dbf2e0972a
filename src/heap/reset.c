/* SPDX-License-Identifier: MIT */
#include "heap/block_source.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/tick.h"
#include "heap/walk.h"
#include "option.h"
#include "os/probe.h"
#include <string.h>

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
