/* SPDX-License-Identifier: MIT
 *
 * The default heap, the list of all, and of each heap its records, its bins and which class serves a size. */
#ifndef HEAP_H
#define HEAP_H

#include "heap/types.h"

/* ---- records ----
 *
 * Memory for what a heap has to know of itself: its bins, its table of classes, the records of the object pools in it. It is
 * paid for at creation where growth must not fail; it is in the caller's memory where the heap is; else it is the process's
 * metadata. */

/* Zeroed memory for the heap's own records, on its account, as long as the heap lives or until it is given back. The first
 * under the heap's lock; the second is for others than the heap itself, and not for guests. */
void *heap_take_record(heap_t *heap, size_t size);
void *heap_take_record_apart(heap_t *heap, size_t size);
void heap_give_record(heap_t *heap, void *record, size_t size);

/* Whether what stands on the heap can have its records apart: not in a caller's memory, and not where nothing may be touched
 * for the first time. */
static inline bool heap_has_records_apart(const heap_t *heap)
{
  return !heap_is_guest(heap) && (!heap->region.kind || heap_has_granules(heap) || heap->region.space.purgeable);
}

/* The account of a record that is kept elsewhere. False: over the budget. */
bool heap_charge_record(heap_t *heap, size_t size);
void heap_discharge_record(heap_t *heap, size_t size);

/* ---- heap ----
 *
 * The default heap, the list of all, and of each heap its bins and which class serves a size. */

extern INTERNAL heap_t default_heap; /* the one behind pool_alloc */
static inline bool heap_is_default(const heap_t *heap) { return HAS_SYSTEM && heap == &default_heap; }

/* The process-wide state is up (startup.h). Before that there is no block. Stored with release once everything else is set. */
extern INTERNAL bool manager_came_up;
static inline bool manager_is_up(void) { return !HAS_SYSTEM || likely(__atomic_load_n(&manager_came_up, __ATOMIC_ACQUIRE)); }

/* Every heap, under heaps_lock. While it is held no heap's records go: a thread that finds a run by its address may look at the
 * bin and the heap it belongs to. */
extern lock_t heaps_lock;
heap_t *heaps_first(void);

/* Returns the first heap from `heap` on, itself included, that has locks. A heap of one thread has none, and no other thread
 * may touch it. */
heap_t *heaps_shared_from(heap_t *heap);

/* What the layer of object pools has to do with heaps, called under heaps_lock: a heap with object pools is about to end all
 * its blocks; a process with threads is about to fork or has forked. Without the lock: a thread ends, and calls that itself. */
struct object_pool_figures;
typedef void heap_dependent_visit_fn(const struct object_pool_figures *figures, void *context);
typedef struct heap_dependents {
  void (*verify)(heap_t *heap, bool alone,
                 const char *call); /* objects that were put; not under the lock. NULL: of all heaps */
  void (*drop)(heap_t *heap);
  void (*visit)(heap_dependent_visit_fn *visit, void *context); /* not under the lock */
  void (*thread_ends)(void);
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
} heap_dependents_t;
extern const heap_dependents_t *heap_dependents; /* NULL: no object pool yet. Set under heaps_lock, once */

/* What object pools may have in threads: whether one can be waited for until it is in no call (os_fence_others), and whether
 * the calling thread will say when it ends. */
static inline bool heap_reaches_threads(void) { return threads_can_be_reached; }
static inline bool heap_watches_thread(void) { return thread_current() != NULL; }

/* For so many processors; before the default heap has a bin. */
void heap_size_depots(unsigned processors);

/* It or an ancestor has a budget. */
static inline bool heap_is_bounded(const heap_t *heap)
{
  while (heap && !budget_limit(&heap->budget))
    heap = heap->parent;
  return heap != NULL;
}

/* Its blocks are apart, or samples of them. A profile sets and clears it while others allocate. */
static inline bool heap_may_be_apart(const heap_t *heap)
{
  return HAS_SYSTEM && unlikely(__atomic_load_n(&heap->apart, __ATOMIC_RELAXED));
}

static inline bin_t *published_bin(const heap_t *heap, unsigned size_class)
{
  return __atomic_load_n(&heap->bins[size_class], __ATOMIC_ACQUIRE);
}
bin_t *heap_bin(heap_t *heap, unsigned size_class); /* made if need be; NULL: no memory */

/* The bin of class `from` or the next one that exists; NULL: none. Heaps of granules have none. */
bin_t *heap_bin_from(const heap_t *heap, unsigned from);
#define FOR_EACH_BIN(bin, heap) \
  for (bin_t *bin = HAS_SYSTEM ? heap_bin_from(heap, 1) : NULL; bin; bin = heap_bin_from(heap, bin->size_class + 1u))

/* Calls `act` with the magazines and each bin of the heap that threads keep magazines of. */
void heap_each_cached_bin(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *magazines, bin_t *bin));

/* Gives what the magazines hold back to the heap's bins. */
static inline void heap_flush_magazines(magazines_t *magazines, heap_t *heap)
{
  heap_each_cached_bin(magazines, heap, magazines_flush);
}

/* The magazines of the heap that any thread has; NULL: none. Under threads_lock. */
static inline const magazines_t *heap_magazines_in(const thread_t *thread, const heap_t *heap)
{
  return heap_is_default(heap) && !heap->reached ? &thread->default_magazines : thread_magazines_if_any(thread, heap);
}

/* The calling thread's magazines of the heap, which it is busy with until it leaves; NULL: it has none. */
magazines_t *heap_enter(heap_t *heap, thread_t *thread);
static inline void heap_leave(heap_t *heap, thread_t *thread)
{
  if (!heap_is_default(heap) || heap->reached)
    thread_leave(thread);
}

/* How long idle memory of the heap is kept. */
static inline uint32_t heap_purge_delay_ms(const heap_t *heap)
{
  return heap_has_granules(heap) ? heap->region.purge_delay_ms : heap->space->purge_delay_ms;
}

uint32_t heap_block_size(const heap_t *heap, unsigned size_class);
size_t heap_good_size(const heap_t *heap, size_t size);

/* Returns which class serves a size at an alignment; 0: none does, and the block is a run or a mapping. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment);

#endif
