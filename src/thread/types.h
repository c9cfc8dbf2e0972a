/* SPDX-License-Identifier: MIT
 *
 * What is known of a thread: its magazines, those of each heap, and its spares. */
#ifndef THREAD_TYPES_H
#define THREAD_TYPES_H

#include "thread/magazines.h"

struct pool_heap;

/* The magazines of a heap other than the default one. */
typedef struct heap_cache {
  struct pool_heap *heap;
  struct heap_cache *next; /* of the same chain, or unused */
  struct heap_cache *due_next, *due_previous;
  bool due;     /* for a tick of its thread: something may be in it. Changed by its owner and the heap's end */
  bool claimed; /* by another thread that flushes it */
  struct thread *owner;
  uint64_t stamp;                              /* of its magazines, as others saw them last, and */
  uint32_t unused_for;                         /* for how many looks that was so. Under threads_lock */
  struct heap_cache *reach_next, **reach_link; /* in the heap's list of caches within reach; link NULL: it is in no list */
  magazines_t magazines;
  cache_t cache;
} heap_cache_t;

/* A heap's caches that may have something in them: those that were entered since they were last emptied. Under threads_lock. */
typedef struct reach_list {
  heap_cache_t *first;
} reach_list_t;

/* Large runs of the default heap that the thread has freed and keeps for its next blocks of the same length. */
enum {
  SPARE_UNITS_MOST = 16,    /* the length of the longest: 1 MiB */
  SPARE_DEPTH = 4,          /* how many of one length */
  SPARE_BYTES = 2 << 20,    /* the most of a thread */
  SPARE_BYTES_ALL = 4 << 20 /* the most of all threads, divided among them */
};
typedef struct spares {
  run_t *of[SPARE_UNITS_MOST][SPARE_DEPTH];
  uint8_t count[SPARE_UNITS_MOST];
  uint8_t low[SPARE_UNITS_MOST];  /* the fewest since the last tick */
  uint32_t units;                 /* in all of them */
  size_t live_blocks, live_bytes; /* what is to be added to the default heap's figures, modulo 2^64. The owner's to write */
} spares_t;

/* Where pool_heap_alloc() finds the cache of a heap: by a byte of the heap's address. Another heap with the same byte takes the
 * slot over; the chains below have them all. No heap has the address NOT_A_HEAP, which keeps NULL out of its slot, 0. A heap
 * whose magazines others may reach for has its address and one in its slot; in a thread that counts, there are two more. */
enum { CACHE_SLOTS = 256, HEAP_ALIGNMENT_LOG2 = 8 };
#define NOT_A_HEAP ((struct pool_heap *)-1)
static inline size_t cache_slot_of(const struct pool_heap *heap) { return (uint8_t)((uintptr_t)heap >> HEAP_ALIGNMENT_LOG2); }
static inline struct pool_heap *within_reach(const struct pool_heap *heap) { return (struct pool_heap *)((uintptr_t)heap + 1); }
static inline struct pool_heap *while_counting(const struct pool_heap *heap)
{
  return (struct pool_heap *)((uintptr_t)heap + 2);
}
static inline const struct pool_heap *heap_in_slot(const struct pool_heap *slot)
{
  return (const struct pool_heap *)((uintptr_t)slot & ~(uintptr_t)3);
}

/* What was wrong with the thread's last wrong argument (heap/invalid.h): the numbers, and the text once it was asked for. It
 * lies where the record has room that is not touched else. */
enum { INVALID_TEXT_SIZE = 256 };
typedef struct thread_invalid {
  uintptr_t numbers[3];
  char text[INVALID_TEXT_SIZE];
} thread_invalid_t;

/* What every thread uses stands first, in one page. Of the rest a thread that has no heap touches nothing. */
typedef struct thread {
  bool busy;            /* with the magazines of a heap in `chains` */
  uint8_t number;       /* modulo 256 */
  bool is_lost;         /* to this process, the child of a fork */
  uint32_t slow_paths;  /* taken so far */
  uint32_t sample_left; /* blocks up to the next sample, and with it; 0: not drawn yet */
  uint32_t counts;      /* for which profile the thread counts what it allocates; 0: for none */
  uint64_t count_left;  /* bytes up to the next block that is in that profile, and with its first */
  uint64_t looked_ms;   /* when it last let go of idle magazines */
  struct thread *next, *previous;
  cache_t *ready; /* default_magazines.cache, if the fast paths find it */
  magazines_t default_magazines;
  spares_t spares;
  heap_cache_t **chains; /* its caches, by the heap's address: as many heads as caches, or more. Under threads_lock */
  uint32_t chains_log2;  /* how many heads */
  uint32_t cache_count;
  heap_cache_t *due_first, *due_last; /* those with something in them, the next to be ticked first. Under threads_lock */
  uint32_t due_count;
  uint32_t due_left;                      /* of those that were there when the tick began. The owner's alone */
  struct pool_heap *heap_at[CACHE_SLOTS]; /* the first is written to when the record is made */
  cache_t *cache_at[CACHE_SLOTS];
  thread_invalid_t invalid;
  cache_t *hidden; /* where fast paths do not find the default heap's cache, if that is another place; kept for the next time */
} thread_t;

/* The calling thread's record. Before the thread has one, and after its end, this is a record with nothing in it. */
extern INTERNAL THREAD_LOCAL thread_t *thread_self;

static inline bool thread_is_usable(const thread_t *thread) { return thread->default_magazines.cache != NULL; }

/* The same, and the thread does not count: what its fast paths leave is an empty magazine or a full one. */
static inline bool thread_is_ready(const thread_t *thread) { return thread->ready != NULL; }

/* The lists of threads, and the caches of each. */
extern lock_t threads_lock;

#endif
