/* SPDX-License-Identifier: MIT
 *
 * A heap is a manager: one pool for each size class, large blocks, a budget, counters. This is where a request becomes a
 * block when the calling thread's magazines cannot serve it, and where a pointer that the class map does not know is looked
 * up. The front end's fast path never comes here.
 *
 *   H1 a pool exists from the first request of its class on and stays as long as the heap
 *   H2 budget.held == the bytes of the slabs of all pools and of all large and huge blocks
 *   H3 the list of large runs holds exactly the heap's runs of kind RUN_LARGE */
#ifndef HEAP_INTERNAL_H
#define HEAP_INTERNAL_H

#include "huge.h"
#include "thread.h"

enum { HEAP_NAME_SIZE = 32 };

typedef struct pool_heap {
  lock_t    lock;                       /* the making of pools, the list of large runs, their counts */
  bool      checked;
  uint8_t   plane;                      /* POOL_PLANE_*, of its pools */
  pool_t   *pools[CLASS_COUNT];         /* NULL: no request of the class yet. Published with release, read with acquire */
  space_t  *space;
  budget_t  budget;
  run_t    *large;
  size_t    large_blocks, large_bytes;  /* live: how many, and their usable bytes; with huge ones */
  uint64_t  exhausted_count, retried_count, overflowed_count;
  char      name[HEAP_NAME_SIZE];
  struct pool_heap *next;
} heap_t;

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

extern INTERNAL heap_t heap_front;             /* the one behind pool_alloc */

/* Brings the process-wide state up, once. False: the system refuses even the least address space. */
bool heap_front_ready(void);

/* Every heap, under heaps_lock. */
extern lock_t heaps_lock;
heap_t *heaps_first(void);

pool_t *heap_pool(heap_t *heap, unsigned size_class);   /* made if need be; NULL: no memory */

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero);

/* Takes back any block of any heap; `call` is what a misuse is put down to. */
void heap_free(void *block, const char *call);

/* As pool_realloc with a block and a size, in the heap the block came from. */
void *heap_reallocate(void *block, size_t size, const char *call);
bool  heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

size_t heap_good_size(size_t size);

/* Which class serves a size at an alignment; 0: none, it takes a run of its own. */
unsigned heap_class_for(size_t size, size_t alignment);

/* Any address at all. */
located_t heap_locate(const void *address);

/* Gives idle memory beyond `keep` bytes back, the calling thread's magazines first. */
size_t heap_trim(heap_t *heap, size_t keep);

/* Called at each trip of a thread to its pools: now and then it lets go of what was not needed lately. */
enum { TRIPS_PER_LOOK = 32 };
void heap_look_at_clock(thread_t *thread);
static inline void heap_trip(thread_t *thread)
{
  if (unlikely(++thread->trips % TRIPS_PER_LOOK == 0))
    heap_look_at_clock(thread);
}

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap);

#endif
