/* SPDX-License-Identifier: MIT
 *
 * A heap is a manager: one bin for each size class, large blocks, a budget, counters. This is where a request becomes a
 * block when the calling thread's magazines cannot serve it, and where a pointer that the class map does not know is looked
 * up. The fast path (api/fast_path.h) never comes here.
 *
 * A heap takes its slabs and runs from the process's space, or from a region of its own: the caller's memory, what was
 * reserved at creation, or, for a small budget, as much as the budget allows, cut into smaller units so that few bytes
 * serve many size classes.
 *
 *   H1 a bin exists from the first request of its class on and stays as long as the heap
 *   H2 budget.held == head_bytes, the records, the slabs of all bins, and the large and huge blocks, as far as they are not in a
 *      prepaid region, and what the heaps hold whose parent this is
 *   H3 the list of large runs holds exactly the heap's runs of the kinds RUN_LARGE and RUN_SPARE */
#ifndef HEAP_INTERNAL_H
#define HEAP_INTERNAL_H

#include "space/huge.h"
#include "thread/thread.h"

enum { HEAP_NAME_SIZE = 32 };
#define HEAP_LIVE_MARK ((uint64_t)0x6c6f6f7065646974)   /* "tidepool" in memory */

typedef struct pool_heap heap_t;
typedef bool heap_exhausted_fn(heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

/* Where a heap's memory is. */
typedef enum heap_region {
  REGION_NONE,                          /* in the process's space */
  REGION_GUEST,                         /* in the caller's memory, the heap itself and all records too */
  REGION_SMALL,                         /* in a run or a huge block, in small units */
  REGION_SLOTS                          /* in slots of the window */
} heap_region_t;

struct pool_heap {
  uint64_t  mark;                       /* HEAP_LIVE_MARK until it is destroyed */
  lock_t    lock;                       /* the making of bins, the list of large runs, records */
  bool      checked, zero_on_free;
  bool      cached;                     /* threads may keep magazines of its blocks */
  bool      has_cache_slot;                   /* and find them by the heap's address */
  bool      budgeted;                   /* it or an ancestor had a budget when it was made */
  bool      reached;                    /* what threads have cached of it is within reach of the others */
  bool      locked_memory;
  bool      own_page;                   /* its record has one, which may be locked */
  uint8_t   plane;                      /* POOL_PLANE_*, of its bins */
  uint8_t   region_kind;                /* heap_region_t */
  uint8_t   class_count;                /* classes of its own, 1 to class_count; 0: the built-in table */
  uint32_t  class_most;                 /* larger requests take runs of their own: small units leave little slack */
  const uint32_t *class_sizes;          /* with class 0 */
  space_t  *space;
  budget_t  budget;
  huge_t   *huge;                       /* the newest of its mappings; under huge_lock */
  run_t    *large;                      /* and of its runs */
  size_t    large_blocks, large_bytes;  /* live: how many, and their usable bytes; with huge ones */
  size_t    large_held;                 /* what they take, and spares */
  uint64_t  exhausted_count, retried_count, overflowed_count;
  uint64_t  purged_bytes;               /* by its own trims, where it has no region to count them */
  heap_exhausted_fn *on_exhausted;
  void     *context;
  reach_list_t reach;                   /* if so, what they have */
  heap_t   *parent, *overflow;
  heap_t   *next, *previous;            /* in the list of all heaps */
  struct object_pool *object_pools;     /* in it, the newest first; under heaps_lock */
  size_t    users;                      /* heaps whose parent or overflow it is; under heaps_lock */

  size_t    head_bytes;                 /* held by the heap's own records from the start */
  size_t    metadata_bytes;             /* of those bytes: what is no block's */
  size_t    metadata_shared;            /* and what of that is the process's metadata; fixed */
  size_t    record_bytes;               /* charged for records since */
  size_t    record_run_bytes;           /* a guest's, in runs of its region */
  char     *records, *records_end;      /* room for more of them, paid for; then, of a guest in runs of its region */
  void     *records_start;              /* of those of a reserve, of reserve_records bytes */
  size_t    reserve_records;
  char     *region;                     /* its units, or the caller's memory */
  size_t    region_size;
  run_t    *region_run;                 /* REGION_SMALL: one of the two */
  huge_t   *region_huge;
  void     *arena_records;              /* REGION_SMALL */
  size_t    arena_record_bytes;
  range_t   guest;                      /* REGION_GUEST: the caller's memory among others' */
  heap_t   *guest_around;               /* in whose memory it is */
  space_t   own_space;                  /* the region as a space */
  arena_t   own_arena;
  char      name[HEAP_NAME_SIZE];
  bin_t   *bins[CLASS_COUNT];         /* NULL: no request of the class yet. Published with release, read with acquire */
  unsigned  bins_end;                  /* beyond the highest class that has one; published after it */
};

/* A bin's record. */
typedef struct bin_record {
  bin_t  bin;
  depot_t depots[DEPOT_SHARDS];         /* of cached classes alone */
} bin_record_t;

extern INTERNAL heap_t default_heap;      /* the one behind pool_alloc */

/* A heap that has no memory but its region. */
static inline bool heap_is_bounded(const heap_t *heap) { return heap->region_kind == REGION_GUEST; }

/* ---- heap.c: all heaps, the bins and records of one ---- */

/* Every heap, under heaps_lock. While it is held no heap's records go: who finds a run by its address may look at the bin and
 * the heap it belongs to. */
extern lock_t heaps_lock;
heap_t *heaps_first(void);

/* The next one behind `heap`, itself included, that has locks: one that one thread uses is nobody else's business. */
heap_t *heaps_shared_from(heap_t *heap);

/* What the layer of object pools has to do with heaps, called under heaps_lock: a heap with object pools is about to end all
 * its blocks; a process with threads is about to fork or has forked. */
struct object_pool_figures;
typedef void heap_dependent_visit_fn(const struct object_pool_figures *figures, void *context);
typedef struct heap_dependents {
  void (*drop)(heap_t *heap);
  void (*visit)(heap_dependent_visit_fn *visit, void *context);   /* not under the lock */
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
} heap_dependents_t;
extern const heap_dependents_t *heap_dependents;   /* NULL: no object pool yet. Under heaps_lock */

static inline bin_t *published_bin(const heap_t *heap, unsigned size_class)
{
  return __atomic_load_n(&heap->bins[size_class], __ATOMIC_ACQUIRE);
}
bin_t *heap_bin(heap_t *heap, unsigned size_class);   /* made if need be; NULL: no memory */

/* The bin of class `from` or the next one that exists; NULL: none. */
bin_t *heap_bin_from(const heap_t *heap, unsigned from);
#define FOR_EACH_BIN(bin, heap)                                                                                       \
  for (bin_t *bin = heap_bin_from(heap, 1); bin; bin = heap_bin_from(heap, bin->size_class + 1u))

/* Calls `act` with the magazines and each bin of the heap that threads keep magazines of. */
void heap_each_cached_bin(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *magazines, bin_t *bin));

/* The calling thread's magazines of the heap, which it is busy with until it leaves; NULL: it has none. */
magazines_t *heap_enter(heap_t *heap, thread_t *thread);
static inline void heap_leave(heap_t *heap, thread_t *thread)
{
  if (heap != &default_heap)
    thread_leave(thread);
}

/* Zeroed memory for the heap's own records, on its account, as long as the heap lives or until it is given back. The first under
 * the heap's lock; the second is for others than the heap itself, and not for guests. */
void *heap_take_record(heap_t *heap, size_t size);
void *heap_take_record_apart(heap_t *heap, size_t size);
void  heap_give_record(heap_t *heap, void *record, size_t size);

/* Whether what stands on the heap can have its records apart: not in a caller's memory, and not where nothing may be touched for the
 * first time. */
static inline bool heap_has_records_apart(const heap_t *heap)
{
  return heap->region_kind != REGION_GUEST && (!heap->region_kind || heap->own_space.purgeable);
}

/* The account of a record that is kept elsewhere. False: over the budget. */
bool heap_charge_record(heap_t *heap, size_t size);
void heap_discharge_record(heap_t *heap, size_t size);

uint32_t heap_block_size(const heap_t *heap, unsigned size_class);
size_t   heap_good_size(const heap_t *heap, size_t size);

/* Which class serves a size at an alignment; 0: none, it takes a run of its own. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment);

/* ---- stats.c ---- */

/* The figures of the default heap, as one line on standard error. */
void heap_print_figures(void);

/* ---- startup.c ---- */

/* Brings the process-wide state up, once. False: the system refuses even the least address space. */
bool manager_ready(void);

/* The calling thread is about to end the process, maybe in the middle of a call that holds locks. What it still allocates comes
 * straight from the system, and what it frees is left. */
extern INTERNAL THREAD_LOCAL bool heap_is_dying;
void  *dying_allocate(size_t size, size_t alignment);
size_t dying_usable_size(const void *block);

/* ---- tick.c: giving back what is not needed ---- */

/* Called whenever a thread has been at its bins: now and then it lets go of what was not needed lately. */
enum { SLOW_PATHS_PER_LOOK = 8 };
void heap_look_at_clock(thread_t *thread);
static inline void heap_after_slow_path(thread_t *thread)
{
  if (unlikely(++thread->slow_paths % SLOW_PATHS_PER_LOOK == 0))
    heap_look_at_clock(thread);
}

/* What the heap has cached and idle goes back to its space: of all threads where they can be reached, else of the calling one. */
void heap_drain(heap_t *heap);

/* Gives idle memory beyond `keep` bytes back, the calling thread's magazines first. */
size_t heap_trim(heap_t *heap, size_t keep);

/* Everything a thread holds goes back. */
void heap_flush_thread(thread_t *thread);

/* ---- large.c: blocks that are a run or a mapping of their own ---- */

/* NULL: no memory. *past is what is known of what they hold, *usable their size. */
void *large_take(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable);
void  large_give_run(heap_t *heap, run_t *run);
void  large_give_huge(heap_t *heap, huge_t *huge);

/* False: nothing changed. A huge block may move, if it may. */
bool large_resize_run(heap_t *heap, run_t *run, size_t size);
bool large_resize_huge(heap_t *heap, huge_t *huge, size_t size, bool may_move);

/* Is a block of this size and alignment a mapping of its own? */
bool large_is_huge(const heap_t *heap, size_t size, size_t alignment);

/* A block of the default heap that a thread frees and takes again, without a lock. False, NULL: not this one. */
bool  large_give_spare(thread_t *thread, void *block, const char *call);
void *large_take_spare(thread_t *thread, size_t size);   /* size > 0 */
void  large_flush_spares(thread_t *thread);
void  large_tick_spares(thread_t *thread);

/* In the child of a fork, of a thread that is not there. */
void large_forget_spares(thread_t *thread);

/* Zeroes a large block, or the end of one. */
void large_wipe(const heap_t *heap, char *start, size_t size);

void large_free_all(heap_t *heap);

/* ---- locate.c: what an address is ---- */

/* What a block is, whoever's it is. `heap` NULL: none of ours. */
typedef struct located {
  heap_t *heap;
  bin_t *bin;         /* of a slab's block */
  run_t  *run;          /* of a slab's block, or a large one */
  huge_t *huge;
  char   *start;        /* the block, free or not; NULL: none */
  size_t  size;         /* its usable bytes */
  bool    live;         /* with the caller; false for a block free in its slab */
} located_t;

/* Any address at all. */
located_t heap_locate(const void *address);

/* How many blocks of the bin are in magazines of threads. */
size_t heap_cached_in_threads(const bin_t *bin);

/* Sets a bit for each block of the slab [start, end) that is in a magazine which a fork has lost. */
void heap_mark_lost(const bin_t *bin, const char *start, const char *end, uint64_t *lost);

/* The block that starts at `block`, or the end of the program. With a heap: a block of it, or of one that it overflows to. */
located_t heap_locate_block(const heap_t *heap, const void *block, const char *call);

/* Memory of a caller in which a heap lives. */
void guests_enter(heap_t *heap);
void guests_leave(heap_t *heap);
extern lock_t guests_lock;

/* ---- allocate.c ---- */

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero);

/* For whoever needs several blocks at once, or may do with less: the same order of resorts as that of one allocation (the heap itself,
 * its callback as long as that helps, the heap it overflows to), a step at a time. A callback may leave, or reset the heap: it is called
 * by heap_next_resort() alone, with nothing of the caller's in hand. */
typedef struct resort {
  heap_t  *first, *heap;        /* the heap that was asked; where it is the turn of one that it overflows to, that one */
  unsigned attempt;             /* of its callback */
} resort_t;
resort_t heap_first_resort(heap_t *heap);

/* What the heap whose turn it is has itself; calls nobody. NULL: nothing, which does not count as exhausted; errno stays. */
void *heap_probe(const resort_t *from, size_t size, size_t alignment);

/* True: probe again. Without `may_ask` no callback is called. False: nothing is left to try; heap_exhausted() is for the caller to say. */
bool heap_next_resort(resort_t *from, size_t size, bool may_ask);

/* Takes back any block of any heap; `call` is what a misuse is put down to. With a heap: a block of it, or of one that it
 * overflows to. */
void heap_free(heap_t *heap, void *block, const char *call);

/* As pool_realloc with a block and a size, in the heap the block came from. */
void  *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call);
bool   heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap);

#endif
