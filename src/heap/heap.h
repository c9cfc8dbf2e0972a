/* SPDX-License-Identifier: MIT
 * The default heap, the list of all heaps, and of each heap its records, bins and classes. */
#ifndef HEAP_H
#define HEAP_H

#include "heap/debug_hooks.h"
#include "heap/types.h"

/* ---- records ----
 *
 * A heap needs memory for its bins, its table of classes, and the records of its object pools. That memory is paid for at
 * creation if growth must not fail. It is in the caller's memory if the heap is. Otherwise it is the process's metadata. */

/* Take zeroed memory, charged to the heap until it is given back or the heap ends. heap_take_record() is called under the
 * heap's lock. heap_take_record_outside() serves the layers above and not for guests. */
void *heap_take_record(heap_t *heap, size_t size);
void *heap_take_record_outside(heap_t *heap, size_t size);
void heap_give_record(heap_t *heap, void *record, size_t size);

/* Returns whether the layers above can have records outside of its blocks: not in a caller's memory, nor if nothing may be
 * faulted in. */
static inline bool heap_has_records_outside(const heap_t *heap)
{
  return !heap_is_guest(heap) && !(heap->flags & HEAP_REAL_TIME);
}

/* Charge the heap for a record that is kept elsewhere. False: the budget is exhausted. */
bool heap_charge_record(heap_t *heap, size_t size);
void heap_discharge_record(heap_t *heap, size_t size);

/* ---- heaps ---- */

extern INTERNAL heap_t default_heap; /* the heap behind pool_alloc() */
static inline bool heap_is_default(const heap_t *heap) { return heap == &default_heap; }

/* Brings the process-wide state up if the heap needs it. Returns false if the system refuses. */
bool heap_is_ready(const heap_t *heap);

/* The process-wide state is up (heap/life.h). No block exists before that. Stored last, with release. */
extern INTERNAL bool manager_came_up;
static inline bool manager_is_up(void) { return likely(__atomic_load_n(&manager_came_up, __ATOMIC_ACQUIRE)); }

/* Protects the list of heaps, and keeps their records for threads that find a run by its address and look at its bin. */
extern lock_t heaps_lock;
heap_t *heaps_first(void); /* the default heap; NULL: firmware has none */

/* Returns the first heap from `heap` on, itself included, that has locks. Single-threaded heaps have none. */
heap_t *heaps_shared_from(heap_t *heap);

/* The layer of object pools. Called under heaps_lock when a heap with object pools is about to end all its blocks, and around
 * forks of a process with threads. Called without the lock by a thread that ends. */
struct object_pool_figures;
typedef void heap_dependent_visit_fn(const struct object_pool_figures *figures, void *context);
typedef struct heap_dependents {
  void (*verify)(heap_t *heap, bool alone,
                 const char *call); /* verifies objects that were put; without the lock. NULL: of all heaps */
  void (*drop)(heap_t *heap);
  void (*visit)(heap_dependent_visit_fn *visit, void *context); /* without the lock */
  void (*thread_ends)(void);
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
} heap_dependents_t;
extern const heap_dependents_t *heap_dependents; /* NULL: no object pool exists yet. Set once, under heaps_lock */

/* Questions of object pools that keep objects in threads. heap_reaches_threads(): a caller can wait until a thread is in no
 * call (os_fence_others). heap_watches_thread(): the calling thread's end will be noticed. */
static inline bool heap_reaches_threads(void) { return threads_can_be_reached; }
static inline bool heap_watches_thread(void) { return thread_current() != NULL; }

/* Called before the default heap has a bin. */
void heap_size_depots(unsigned processors);

static inline bool heap_is_bounded(const heap_t *heap)
{
  while (heap && !budget_limit(&heap->budget))
    heap = heap->parent;
  return heap != NULL;
}

/* Returns how the heap serves requests if not by heap_take_plain(): its blocks, or samples of them, may be standalone. Not NULL
 * before the manager is up, so that heap_serve() serves the very first request. */
static inline heap_take_fn *heap_take_otherwise(const heap_t *heap) { return __atomic_load_n(&heap->take, __ATOMIC_ACQUIRE); }
static inline bool heap_may_have_standalone(const heap_t *heap) { return unlikely(heap_take_otherwise(heap) != NULL); }

/* Takes from a magazine, a bin, a run, a mapping, or granules. */
void *heap_take_plain(heap_t *heap, request_t *r);

static inline bin_t *published_bin(const heap_t *heap, unsigned size_class)
{
  return __atomic_load_n(&heap->bins[size_class], __ATOMIC_ACQUIRE);
}
bin_t *heap_bin(heap_t *heap, unsigned size_class); /* creates it if needed; NULL: no memory */

static inline void heap_mark_guest(heap_t *heap, guest_step_t step)
{
  if (heads)
    heads->mark_guest(heap, step);
}

/* Returns the bin of class `from` or the next one that exists; NULL: none. Heaps of granules have no bins. */
bin_t *heap_bin_from(const heap_t *heap, unsigned from);
#define FOR_EACH_BIN(bin, heap) for (bin_t *bin = heap_bin_from(heap, 1); bin; bin = heap_bin_from(heap, bin->size_class + 1u))

void heap_each_cached_bin(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *magazines, bin_t *bin));

static inline void heap_flush_magazines(magazines_t *magazines, heap_t *heap)
{
  heap_each_cached_bin(magazines, heap, magazines_flush);
}

/* Returns a thread's magazines of the heap; NULL: none. Under threads_lock. */
static inline const magazines_t *heap_magazines_in(const thread_t *thread, const heap_t *heap)
{
  return heap_is_default(heap) && !(heap->flags & HEAP_WITHIN_REACH) ? &thread->default_magazines
                                                                     : thread_magazines_if_any(thread, heap);
}

/* Returns whether threads find their magazines by the heap's address, for the fast path: the class follows from the size. */
static inline bool heap_has_cache_slot(const heap_t *heap)
{
  return heap->flags & HEAP_CACHED && !heap->overflow && !heap->class_count;
}

/* Returns the calling thread's magazines of the heap, with which it is busy until it leaves. NULL: it has none. */
magazines_t *heap_enter(heap_t *heap, thread_t *thread);
static inline void heap_leave(heap_t *heap, thread_t *thread)
{
  if (!heap_is_default(heap) || heap->flags & HEAP_WITHIN_REACH)
    thread_leave(thread);
}

static inline uint32_t heap_purge_delay_ms(const heap_t *heap)
{
  return heap_has_granules(heap) ? heap->region.purge_delay_ms : heap->space->purge_delay_ms;
}

uint32_t heap_block_size(const heap_t *heap, unsigned size_class);
size_t heap_good_size(const heap_t *heap, size_t size);

/* Returns the size of the block of granules that serves a size: that of a class if the heap has its own. */
size_t heap_own_class_size(const heap_t *heap, size_t size);
static inline size_t heap_granular_size(const heap_t *heap, size_t size)
{
  return HAS_SYSTEM && unlikely(heap->class_count) ? heap_own_class_size(heap, size) : size;
}

/* Returns the class that serves a size at an alignment. 0: the block is a run or a mapping. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment);

#endif
