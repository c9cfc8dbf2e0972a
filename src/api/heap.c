/* SPDX-License-Identifier: MIT
 * The interface of heap.h. */
#include "heap/heap.h"
#include "api/fast_path.h"
#include "heap/blocks.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "misuse.h"
#include "space/class_map.h"
#include <errno.h>
#include <string.h>
#include <tidepool/heap.h>

/* ---- the fast path: the calling thread's cache of the heap, if the heap's slot in its record holds it ---- */

static bool is_live_or_error(const heap_t *heap, const char *call) { return heap_is_live(heap) || invalid_heap(heap, call); }

/* A small heap has no magazines and a short path of its own. */
NOINLINE BY_REGISTER static void *alloc_granules(heap_t *heap, size_t size, const char *call)
{
  void *block = likely(!process_is_ending()) ? granular_take_plain(heap, size) : NULL;
  return likely(block) ? block : heap_allocate(heap, size, 1, false, ORIGIN(call));
}

/* The default heap has no cache slot, so calls that name it get here. Messages name the call if it has no magazines. */
static ALWAYS_INLINE void *alloc_without_magazine(heap_t *heap, size_t size, bool zero, const char *call)
{
  if (unlikely(!heap_is_live(heap)))
    return invalid_heap(heap, call);
  if (heap_is_default(heap) && heap->flags & HEAP_CACHED)
    return zero ? default_zalloc(size) : default_alloc(size);
  if (heap->flags & HEAP_PLAIN_GRANULES && !zero)
    return alloc_granules(heap, size, call);
  return heap_allocate(heap, size, 1, zero, ORIGIN(call));
}

NOINLINE BY_REGISTER static void *alloc_slower(heap_t *heap, size_t size, bool zero, const char *call)
{
  return alloc_without_magazine(heap, size, zero, call);
}

/* The slot of a heap within reach holds a different word, so the fast path does not find it. */
NOINLINE static void *alloc_slow(heap_t *heap, size_t size)
{
  thread_t *thread = thread_self;
  void *block = NULL;
  if (likely(size <= SIZE_CACHED && thread_has_within_reach(thread, heap)))
    block = pop_within_reach(thread, heap, size_class_cached(size));
  return likely(block) ? block : alloc_without_magazine(heap, size, false, "pool_heap_alloc");
}

/* A destroyed heap is known only by its mark. The fast path need not read that: no slot holds a destroyed heap. */
static ALWAYS_INLINE void free_slower(heap_t *heap, void *block, const char *call)
{
  thread_t *thread = thread_self;
  if (likely(thread_has_within_reach(thread, heap) && push_within_reach(thread, heap, class_map_of_heap_block(block), block)))
    return;
  if (unlikely(!heap_is_live(heap)))
    invalid_heap(heap, call);
  else if (block)
    heap_free(heap, block, ORIGIN(call));
}

/* A free that granules refuse is examined below. */
NOINLINE static void free_slow(heap_t *heap, void *block)
{
  if (heap && heap->flags & HEAP_PLAIN_GRANULES && heap_is_live(heap) && !process_is_ending() &&
      likely(granular_give(heap, block)))
    return;
  free_slower(heap, block, "pool_heap_free");
}

/* pool_heap_alloc() for classes that need the table. Inlined there, it costs small sizes 14 % more time. Sizes around
 * SIZE_LINEAR now pay a branch that goes either way, but small sizes are what heaps are for (docs/experiments.md). */
NOINLINE static void *alloc_medium(heap_t *heap, size_t size)
{
  const thread_t *thread = thread_self;
  void *block = NULL;
  if (likely(size <= SIZE_CACHED && thread_has_in_slot(thread, heap)))
    block = MAGAZINE_POP(loaded_of(thread, heap, size_class_cached(size)));
  return likely(block) ? block : alloc_slow(heap, size);
}

void *pool_heap_alloc(pool_heap_t *heap, size_t size)
{
  if (unlikely(size > SIZE_LINEAR))
    return alloc_medium(heap, size);
  const thread_t *thread = thread_self;
  void *block = NULL;
  if (likely(thread_has_in_slot(thread, heap)))
    block = MAGAZINE_POP(loaded_of(thread, heap, size_class_linear(size)));
  return likely(block) ? block : alloc_slow(heap, size);
}

/* A block in no magazine of this plane has class 0, whose magazine is always full: the slow path needs no test. */
static ALWAYS_INLINE bool push_in_slot(heap_t *heap, void *block)
{
  const thread_t *thread = thread_self;
  if (unlikely(!thread_has_in_slot(thread, heap)))
    return false;
  loaded_t *loaded = loaded_of(thread, heap, class_map_of_heap_block(block));
  return likely(loaded->top != block) && MAGAZINE_PUSH(loaded, block);
}

void pool_heap_free(pool_heap_t *heap, void *block)
{
  if (unlikely(!push_in_slot(heap, block)))
    free_slow(heap, block);
}

/* ---- the rest of the family ---- */

/* Pops a block wherever the thread has the heap's magazines. NULL: it has none, or the magazine is empty. */
static ALWAYS_INLINE void *pop_any(heap_t *heap, size_t size_class)
{
  thread_t *thread = thread_self;
  if (likely(thread_has_in_slot(thread, heap)))
    return MAGAZINE_POP(loaded_of(thread, heap, size_class));
  return thread_has_within_reach(thread, heap) ? pop_within_reach(thread, heap, size_class) : NULL;
}

static ALWAYS_INLINE void *zalloc(heap_t *heap, size_t size, const char *call)
{
  size_t c = size <= SIZE_CACHED ? size_class_cached(size) : 0;
  void *block = c ? pop_any(heap, c) : NULL;
  return likely(block) ? memset(block, 0, size_class_size(c)) : alloc_slower(heap, size, true, call);
}

void *pool_heap_zalloc(pool_heap_t *heap, size_t size) { return zalloc(heap, size, "pool_heap_zalloc"); }

/* A product that overflows fails like any request that is too large. */
void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size)
{
  size_t bytes;
  return zalloc(heap, unlikely(__builtin_mul_overflow(count, size, &bytes)) ? SIZE_MAX : bytes, "pool_heap_calloc");
}

/* Moves a block of the heap between cached classes, as move_cached() in fast_path.c does. NULL: no block is at hand. */
static inline void *move_in_heap(heap_t *heap, void *block, size_t had_class, size_t size)
{
  size_t size_class = size_class_cached(size);
  if (size_class == had_class)
    return block;
  void *to = pop_any(heap, size_class);
  if (to) {
    memcpy(to, block, min_size(size_class_size(had_class), size));
    if (!push_in_slot(heap, block))
      free_slower(heap, block, "pool_heap_realloc");
  }
  return to;
}

/* Resizes in a heap whose magazines the thread has. Misuse takes the slow path. */
NOINLINE BY_REGISTER static void *reallocate_cached(heap_t *heap, void *block, size_t size)
{
  size_t had_class = size <= SIZE_CACHED ? class_map_of_heap_block(block) : 0;
  if (likely(had_class && heap_has_cached_block(heap, had_class, block))) {
    const size_class_range_t *had = &size_class_range[had_class];
    void *to = had->size - size < had->half ? block : move_in_heap(heap, block, had_class, size);
    if (likely(to))
      return to;
  }
  return heap_reallocate(heap, block, size, ORIGIN("pool_heap_realloc"));
}

/* No block means an allocation and a size of 0 a free, as in the C library. */
void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size)
{
  if (unlikely(!heap_is_live(heap)))
    return invalid_heap(heap, "pool_heap_realloc");
  if (!block)
    return heap_is_checked(heap) ? alloc_slower(heap, size, false, "pool_heap_realloc") : pool_heap_alloc(heap, size);
  if (size)
    return thread_has_slot(thread_self, heap) ? reallocate_cached(heap, block, size)
                                              : heap_reallocate(heap, block, size, ORIGIN("pool_heap_realloc"));
  if (heap_is_headed(heap))
    heap_free(heap, block, ORIGIN("pool_heap_realloc"));
  else if (!push_in_slot(heap, block))
    free_slower(heap, block, "pool_heap_realloc");
  return NULL;
}

/* heap_allocate() pops the magazines: aligned requests are too rare for a fast path. */
void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size)
{
  if (unlikely(!heap_is_live(heap)))
    return invalid_heap(heap, "pool_heap_aligned_alloc");
  if (likely(is_power_of_two(alignment)))
    return heap_allocate(heap, size, alignment, false, ORIGIN("pool_heap_aligned_alloc"));
  return invalid(INVALID_ALIGNMENT, alignment);
}

/* ---- heaps ---- */

/* Brings the manager up, so that every call that takes a heap finds the default one ready. */
pool_heap_t *pool_heap_default(void)
{
  manager_ready();
  return &default_heap;
}

const char *pool_heap_name(const pool_heap_t *heap)
{
  return heap_is_live(heap) ? heap->name : invalid_heap(heap, "pool_heap_name");
}

size_t pool_heap_least_memory_sized(const pool_heap_options_t *options, size_t size)
{
  pool_heap_options_t own;
  return heap_take_options(&own, options, size) ? heap_least_memory(&own) : 0;
}

/* A destroyed parent or overflow is a misuse like any other use of it. */
pool_heap_t *pool_heap_create_sized(const pool_heap_options_t *options, size_t size)
{
  pool_heap_options_t own;
  if (!heap_take_options(&own, options, size))
    return NULL;
  const heap_t *parent = own.parent, *overflow = own.overflow;
  if ((parent && !heap_is_live(parent)) || (overflow && !heap_is_live(overflow)))
    return invalid_heap(parent && !heap_is_live(parent) ? parent : overflow, "pool_heap_create");
  return heap_create(&own);
}

/* Returns whether the heap may be destroyed or reset. The default heap may not: every block of malloc() would end. */
static bool may_end(const heap_t *heap, const char *call)
{
  if (!heap)
    return false;
  if (!heap_is_live(heap))
    invalid_heap(heap, call);
  if (heap_is_default(heap))
    fatal_misuse(call, heap, DEFAULT_HEAP_HAS_NO_END);
  return true;
}

/* pool_heap_destroy() accepts NULL, as free() does. A reset without a heap is a wrong argument. */
void pool_heap_destroy(pool_heap_t *heap)
{
  if (may_end(heap, "pool_heap_destroy"))
    heap_destroy(heap);
}

void pool_heap_reset(pool_heap_t *heap)
{
  if (may_end(heap, "pool_heap_reset"))
    heap_reset(heap);
  else
    invalid_heap(NULL, "pool_heap_reset");
}

size_t pool_heap_good_size(const pool_heap_t *heap, size_t size)
{
  return is_live_or_error(heap, "pool_heap_good_size") ? heap_good_size(heap, size) : 0;
}

size_t pool_heap_largest(pool_heap_t *heap) { return is_live_or_error(heap, "pool_heap_largest") ? heap_largest(heap) : 0; }

size_t pool_heap_trim(pool_heap_t *heap, size_t keep)
{
  return is_live_or_error(heap, "pool_heap_trim") ? heap_trim(heap, keep) : 0;
}

bool pool_heap_set_budget(pool_heap_t *heap, size_t budget)
{
  return is_live_or_error(heap, "pool_heap_set_budget") && heap_set_budget(heap, budget);
}

typedef struct visitor {
  pool_visit_fn *visit;
  void *context;
} visitor_t;

static bool visit_walked(const walked_t *walked, void *context)
{
  const visitor_t *visitor = context;
  return visitor->visit(&walked->block, visitor->context);
}

bool pool_heap_walk(pool_heap_t *heap, pool_visit_fn *visit, void *context)
{
  return is_live_or_error(heap, "pool_heap_walk") &&
         (visit ? heap_walk(heap, WALK_ALONE, visit_walked, &(visitor_t){visit, context})
                : !!invalid(INVALID_VISIT_IS_NULL, (uintptr_t) "pool_heap_walk"));
}

bool pool_heap_report(pool_heap_t *heap, int fd)
{
  if (!is_live_or_error(heap, "pool_heap_report"))
    return false;
  if (!observer)
    return invalid(INVALID_NEEDS_DEBUG, (uintptr_t) "pool_heap_report()");
  int error = observer->report(heap, fd);
  if (error)
    errno = error;
  return !error;
}

bool pool_forbid_system_calls(bool forbid) { return os_forbid(forbid); }
