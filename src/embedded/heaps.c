/* SPDX-License-Identifier: MIT
 * Heaps are created, reset and destroyed, and their figures are read. */
#include "embedded/front.h"
#include "heap/granular.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include "misuse.h"
#include <errno.h>
#include <string.h>
#include <tidepool/stats.h>

/* ---- options ---- */

enum {
  FLAGS_KNOWN = POOL_HEAP_SINGLE_THREAD | POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_ZERO_ON_FREE |
                POOL_HEAP_CHECKED | POOL_HEAP_DENSE
};

static bool parts_are_there(const pool_heap_options_t *o)
{
  if (!HAS_CHECKS && o->flags & POOL_HEAP_CHECKED)
    return invalid(INVALID_LEFT_OUT, (uintptr_t) "checks");
  if (!HAS_OVERFLOW && o->overflow)
    return invalid(INVALID_LEFT_OUT, (uintptr_t) "overflow");
  if (o->size_classes)
    return invalid(INVALID_LEFT_OUT, (uintptr_t) "size_classes");
  return !o->size_class_count || invalid(INVALID_CLASSES_ARE_NULL, o->size_class_count);
}

static bool options_are_valid(const pool_heap_options_t *o)
{
  unsigned unknown = o->flags & ~(unsigned)FLAGS_KNOWN;
  if (unknown)
    return invalid(INVALID_FLAGS, o->flags, unknown);
  if (!o->memory)
    return invalid(INVALID_MEMORY_IS_NULL, o->memory_size);
  if (!o->memory_size)
    return invalid(INVALID_MEMORY_SIZE_IS_0);
  if (o->reserve)
    return invalid(INVALID_MEMORY_WITH_RESERVE, o->reserve);
  if (o->flags & POOL_HEAP_DENSE && o->memory_size > SMALL_REGION)
    return invalid(INVALID_DENSE, o->flags, SMALL_REGION);
  if (o->purge_delay_ms && o->purge_delay_ms != POOL_PURGE_NEVER)
    return invalid(INVALID_PURGE_DELAY_OF_MEMORY, o->purge_delay_ms);
  return parts_are_there(o);
}

static bool is_given_heap(const heap_t *heap, const char *call)
{
  return likely(heap_is_live(heap)) || invalid_heap(heap, call);
}

/* Memory that does not exist yet is assumed to begin at any address. */
size_t pool_heap_least_memory_sized(const pool_heap_options_t *options, size_t size)
{
  static char anywhere;
  pool_heap_options_t own;
  if (!heap_take_options(&own, options, size))
    return 0;
  uintptr_t memory = (uintptr_t)own.memory;
  bool any = own.memory || own.memory_size;
  own.memory = own.memory || !any ? own.memory : &anywhere;
  own.memory_size = any ? max_size(own.memory_size, 1) : 0;
  if (!options_are_valid(&own))
    return 0;
  size_t least = guest_least(&own, memory ? memory : 1), records = least - heap_least_granules(&own) * GRANULE;
  if (own.budget && own.budget < records)
    return invalid(INVALID_BUDGET, own.budget, records), 0;
  return memory + least >= memory || invalid(INVALID_MEMORY_WRAPS, least) ? least : 0;
}

static heap_t *create_guest_here(const pool_heap_options_t *o)
{
  heap_t *heap = options_are_valid(o) ? guest_create(o) : NULL;
  if (!heap)
    return NULL;
  size_t head = heap->head_bytes;
  if (o->budget && head > o->budget)
    return invalid(INVALID_BUDGET, o->budget, head);
  heap_set_options(heap, o);
  heap->region.purge_delay_ms = POOL_PURGE_NEVER;
  granular_begin(heap);
  if (!budget_charge(&heap->budget, head)) {
    heap->mark = 0;
    errno = ENOMEM;
    return NULL;
  }
  budget_note_peak(&heap->budget);
  heaps_enter(heap);
  return heap;
}

pool_heap_t *pool_heap_create_sized(const pool_heap_options_t *options, size_t size)
{
  pool_heap_options_t own;
  if (!heap_take_options(&own, options, size) || (own.parent && !is_given_heap(own.parent, "pool_heap_create")) ||
      (own.overflow && !is_given_heap(own.overflow, "pool_heap_create")))
    return NULL;
  return create_guest_here(&own);
}

/* ---- the end ---- */

static bool wipe(const pool_block_t *block, void *context)
{
  (void)context;
  memset(block->start, 0, block->size);
  return true;
}

/* Last chance to find writes outside blocks or to freed ones. Nothing has ended yet if one is reported. */
static void verify(heap_t *heap, const char *call)
{
  if (HAS_CHECKS && heap->object_pools)
    heap_dependents->verify(heap, true, call);
  if (heap_is_headed(heap))
    verify_blocks(heap, call);
}

/* Object pools end without their hooks, because their objects are blocks of the heap. */
static void end_blocks(heap_t *heap, const char *call)
{
  verify(heap, call);
  if (heap->object_pools) {
    lock_acquire(&heaps_lock);
    heap_dependents->drop(heap);
    lock_release(&heaps_lock);
  }
  if (heap->flags & POOL_HEAP_ZERO_ON_FREE)
    visit_blocks(heap, wipe, NULL);
  granular_end_blocks(heap);
}

void pool_heap_reset(pool_heap_t *heap)
{
  if (is_given_heap(heap, "pool_heap_reset"))
    end_blocks(heap, "pool_heap_reset");
}

/* A heap that has this one as its parent or overflow would keep a pointer to a dead record. */
void pool_heap_destroy(pool_heap_t *heap)
{
  if (!heap || !is_given_heap(heap, "pool_heap_destroy"))
    return;
  if (heap_is_needed(heap))
    fatal_misuse("pool_heap_destroy", heap, HEAP_IS_NEEDED);
  end_blocks(heap, "pool_heap_destroy");
  heaps_leave(heap);
  budget_discharge(&heap->budget, budget_held(&heap->budget));
  heap->mark = 0;
}

/* ---- blocks ---- */

NOINLINE static void *allocate_given(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call)
{
  return is_given_heap(heap, call) ? heap_allocate(heap, size, alignment, zero, ORIGIN(call)) : NULL;
}

/* A plain heap first tries what is likely. */
void *pool_heap_alloc(pool_heap_t *heap, size_t size)
{
  bool plain = HAS_SPEED && heap_is_live(heap) && heap->flags & HEAP_PLAIN_GRANULES;
  void *block = plain ? granular_take_plain(heap, size) : NULL;
  return block ? block : allocate_given(heap, size, 1, false, "pool_heap_alloc");
}

void *pool_heap_zalloc(pool_heap_t *heap, size_t size) { return allocate_given(heap, size, 1, true, "pool_heap_zalloc"); }

void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size)
{
  size_t bytes;
  return allocate_given(heap, __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes, 1, true, "pool_heap_calloc");
}

void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size)
{
  if (is_given_heap(heap, "pool_heap_aligned_alloc") && !is_power_of_two(alignment))
    return invalid(INVALID_ALIGNMENT, alignment);
  return allocate_given(heap, size, alignment, false, "pool_heap_aligned_alloc");
}

/* A plain heap looks the block up and frees it in one step. A free that it refuses is examined. */
static void free_given(heap_t *heap, void *block, const char *call)
{
  if (block && !(heap->flags & HEAP_PLAIN_GRANULES && granular_give(heap, block)))
    heap_free(heap, block, ORIGIN(call));
}

void pool_heap_free(pool_heap_t *heap, void *block)
{
  if (is_given_heap(heap, "pool_heap_free"))
    free_given(heap, block, "pool_heap_free");
}

void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size)
{
  if (!block)
    return allocate_given(heap, size, 1, false, "pool_heap_realloc");
  if (!is_given_heap(heap, "pool_heap_realloc"))
    return NULL;
  if (size)
    return heap_reallocate(heap, block, size, ORIGIN("pool_heap_realloc"));
  free_given(heap, block, "pool_heap_realloc");
  return NULL;
}

bool pool_heap_walk(pool_heap_t *heap, pool_visit_fn *visit, void *context)
{
  if (!is_given_heap(heap, "pool_heap_walk"))
    return false;
  return visit ? visit_blocks(heap, visit, context) : invalid(INVALID_VISIT_IS_NULL, (uintptr_t) "pool_heap_walk") != NULL;
}

/* ---- figures and budgets ---- */

/* Heaps of 500 KiB and more keep freed blocks. */
static void drain(heap_t *heap)
{
  if (HAS_SPEED)
    granular_drain(heap);
}

static size_t without_head(const heap_t *heap, size_t largest)
{
  return heap_is_headed(heap) ? largest - min_size(largest, HEAD_BYTES) : largest;
}

size_t pool_heap_largest(pool_heap_t *heap)
{
  size_t longest;
  if (!is_given_heap(heap, "pool_heap_largest"))
    return 0;
  drain(heap);
  return without_head(heap, granular_largest(heap, &longest));
}

/* Any heap of the overflow chain may serve the request, so the smallest of their sizes counts. */
size_t pool_heap_good_size(const pool_heap_t *heap, size_t size)
{
  size_t good = is_given_heap(heap, "pool_heap_good_size") ? SIZE_MAX : 0;
  for (; heap; heap = heap_overflow(heap)) {
    size_t needed = heap_is_headed(heap) ? headed_size(size, 1) : size;
    good = min_size(good, needed <= PTRDIFF_MAX ? granules_for(needed) << GRANULE_LOG2 : size);
  }
  return good;
}

bool pool_heap_set_budget(pool_heap_t *heap, size_t budget)
{
  if (!is_given_heap(heap, "pool_heap_set_budget"))
    return false;
  if (budget_set_limit(&heap->budget, budget, 0))
    return true;
  heaps_each_below(heap, drain);
  return budget_set_limit(&heap->budget, budget, 0);
}

/* There is no system to which a heap could return memory. */
size_t pool_heap_trim(pool_heap_t *heap, size_t keep)
{
  (void)keep;
  if (is_given_heap(heap, "pool_heap_trim"))
    drain(heap);
  return 0;
}

static void read_figures(heap_t *heap, pool_stats_t *stats)
{
  granular_figures_t g = granular_figures(heap);
  *stats = (pool_stats_t){.budget = budget_limit(&heap->budget),
                          .held_bytes = budget_held(&heap->budget),
                          .live_blocks = g.live_blocks,
                          .live_bytes = g.live_bytes,
                          .idle_bytes = g.held_bytes - min_size(g.live_bytes, g.held_bytes),
                          .metadata_bytes = heap->metadata_bytes,
                          .children_bytes = budget_below(&heap->budget),
                          .exhausted_count = __atomic_load_n(&heap->exhausted_count, __ATOMIC_RELAXED),
                          .retried_count = __atomic_load_n(&heap->retried_count, __ATOMIC_RELAXED),
                          .overflowed_count = __atomic_load_n(&heap->overflowed_count, __ATOMIC_RELAXED)};
  size_t longest;
  stats->peak_held_bytes = max_size(budget_peak(&heap->budget), stats->held_bytes); /* the peak is noted after the charge */
  stats->free_bytes = stats->idle_bytes;
  stats->mapped_bytes = stats->live_bytes + stats->idle_bytes + stats->metadata_bytes + stats->children_bytes;
  stats->largest_free = without_head(heap, granular_largest(heap, &longest));
  if (g.free_bytes)
    stats->fragmentation = (unsigned)(1000 - (uint64_t)min_size(longest, g.free_bytes) * 1000 / g.free_bytes);
}

bool pool_heap_stats_sized(pool_heap_t *heap, pool_stats_t *stats, size_t size)
{
  pool_stats_t own;
  if (heap && !stats)
    return invalid(INVALID_STATS_IS_NULL, (uintptr_t) "pool_heap_stats");
  if (!is_given_heap(heap, "pool_heap_stats"))
    return false;
  read_figures(heap, &own);
  grown_give(stats, size, &own, sizeof own);
  return true;
}

const char *pool_heap_name(const pool_heap_t *heap) { return is_given_heap(heap, "pool_heap_name") ? heap->name : NULL; }

/* ---- what firmware does not have ---- */

pool_heap_t *pool_heap_default(void) { return NULL; }
heap_t *heaps_first(void) { return NULL; }
bool heap_is_ready(const heap_t *heap) { return heap; }

bool pool_heap_report(pool_heap_t *heap, int fd)
{
  (void)fd;
  return is_given_heap(heap, "pool_heap_report") && invalid(INVALID_NEEDS_DEBUG, (uintptr_t) "pool_heap_report()");
}

bool pool_forbid_system_calls(bool forbid) { return (void)forbid, false; }
