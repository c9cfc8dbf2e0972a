/* SPDX-License-Identifier: MIT
 *
 * A heap is a manager: one pool for each size class, large blocks, a budget, counters. This is where a request becomes a
 * block when the calling thread's magazines cannot serve it, and where a pointer that the class map does not know is looked
 * up. The front end's fast path never comes here.
 *
 * A heap takes its slabs and runs from the process's space, or from a region of its own: the caller's memory, what was
 * reserved at creation, or, for a small budget, as much as the budget allows, cut into smaller units so that few bytes
 * serve many size classes.
 *
 *   H1 a pool exists from the first request of its class on and stays as long as the heap
 *   H2 budget.held == head_bytes, the records and the slabs of all pools, the large and huge blocks, as far as they are not in a
 *      prepaid region, and what the heaps hold whose parent this is
 *   H3 the list of large runs holds exactly the heap's runs of kind RUN_LARGE */
#ifndef HEAP_INTERNAL_H
#define HEAP_INTERNAL_H

#include "huge.h"
#include "thread.h"

enum { HEAP_NAME_SIZE = 32 };
#define HEAP_LIVE_MARK ((uint64_t)0x6c6f6f7065646974)   /* "tidepool" in memory */

typedef struct pool_heap heap_t;
typedef bool heap_exhausted_fn(heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

struct pool_heap {
  uint64_t  mark;                       /* HEAP_LIVE_MARK until it is destroyed */
  lock_t    lock;                       /* the making of pools, the list of large runs, their counts */
  bool      checked, zero_on_free;
  bool      cached;                     /* threads may keep magazines of its blocks */
  bool      placed;                     /* and find them by the heap's address */
  uint8_t   plane;                      /* POOL_PLANE_*, of its pools */
  bool      bounded;                    /* its region is all it has */
  uint8_t   class_count;                /* classes of its own, 1 to class_count; 0: the built-in table */
  uint32_t  class_most;                 /* larger requests take runs of their own: small units leave little slack */
  const uint32_t *class_sizes;          /* with class 0 */
  space_t  *space;
  budget_t  budget;
  run_t    *large;
  size_t    large_blocks, large_bytes;  /* live: how many, and their usable bytes; with huge ones */
  uint64_t  exhausted_count, retried_count, overflowed_count;
  uint64_t  purged_bytes;               /* by its own trims, where it has no region to count them */
  heap_exhausted_fn *on_exhausted;
  void     *context;
  heap_t   *parent, *overflow;
  heap_t   *next, *previous;            /* in the list of all heaps */
  size_t    dependents;                 /* object pools in it; under heaps_lock */

  size_t    head_bytes;                 /* held by the heap's own records */
  char     *records, *records_end;      /* room for more of them */
  run_t    *records_beyond;             /* runs of them that the region had no room for */
  run_t    *region_run;                 /* of the process's space, that the region is in; NULL: there is none */
  char     *region;
  size_t    region_size;
  bool      locked_memory;
  space_t   own_space;                  /* the region as a space */
  arena_t   own_arena;
  char      name[HEAP_NAME_SIZE];
  pool_t   *pools[CLASS_COUNT];         /* NULL: no request of the class yet. Published with release, read with acquire */
};

/* A pool's record, and all the records a heap can need: a pool for each class, and a table of classes in the place of class 0's. */
typedef struct pool_record {
  pool_t  pool;
  depot_t depots[DEPOT_SHARDS];         /* of cached classes alone */
} pool_record_t;
enum { HEAP_RECORDS_MOST = CLASS_COUNT * sizeof(pool_record_t) };

/* What a block is, whoever's it is. `heap` NULL: none of ours. */
typedef struct located {
  heap_t *heap;
  pool_t *pool;         /* of a slab's block */
  run_t  *run;          /* of a slab's block, or a large one */
  huge_t *huge;
  char   *start;        /* the block, free or not */
  size_t  size;         /* its usable bytes */
  bool    live;         /* with the caller; false for a block free in its slab */
} located_t;

extern INTERNAL heap_t heap_front;      /* the one behind pool_alloc */

/* Brings the process-wide state up, once. False: the system refuses even the least address space. */
bool heap_front_ready(void);

/* How many heaps are in a caller's memory. */
extern uint32_t heap_guests;

/* Every heap, under heaps_lock. */
extern lock_t heaps_lock;
heap_t *heaps_first(void);

/* What the layer of object pools has to do with heaps, called under heaps_lock: a heap with dependents is about to end all
 * its blocks; a process with threads is about to fork or has forked. */
typedef struct heap_dependents {
  void (*drop)(heap_t *heap);
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
} heap_dependents_t;
extern const heap_dependents_t *heap_dependents;   /* NULL: no object pool yet. Under heaps_lock */

static inline pool_t *published_pool(const heap_t *heap, unsigned size_class)
{
  return __atomic_load_n(&heap->pools[size_class], __ATOMIC_ACQUIRE);
}
pool_t *heap_pool(heap_t *heap, unsigned size_class);   /* made if need be; NULL: no memory */

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero);

/* Takes back any block of any heap; `call` is what a misuse is put down to. With a heap: a block of it, or of one that it
 * overflows to. */
void heap_free(heap_t *heap, void *block, const char *call);

/* As pool_realloc with a block and a size, in the heap the block came from. */
void  *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call);
bool   heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

size_t heap_good_size(const heap_t *heap, size_t size);

/* Which class serves a size at an alignment; 0: none, it takes a run of its own. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment);

/* Any address at all. */
located_t heap_locate(const void *address);

/* Gives idle memory beyond `keep` bytes back, the calling thread's magazines first. */
size_t heap_trim(heap_t *heap, size_t keep);

/* Calls `act` with the magazines and each pool of the heap that threads keep magazines of. */
void heap_each_cached_pool(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *magazines, pool_t *pool));

/* The calling thread's magazines of the heap; NULL: it has none. */
magazines_t *heap_magazines(heap_t *heap, thread_t *thread);

/* Called at each trip of a thread to its pools: now and then it lets go of what was not needed lately. */
enum { TRIPS_PER_LOOK = 8 };
void heap_look_at_clock(thread_t *thread);
static inline void heap_trip(thread_t *thread)
{
  if (unlikely(++thread->trips % TRIPS_PER_LOOK == 0))
    heap_look_at_clock(thread);
}

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap);

/* Zeroed memory for the heap's own records, as long as the heap lives. */
void *heap_take_record(heap_t *heap, size_t size);
void  heap_give_record(const heap_t *heap, void *record);

/* One large block, one huge one: gone. */
void heap_free_run(heap_t *heap, run_t *run, bool dirty);
void heap_free_huge(heap_t *heap, huge_t *huge);

#endif
