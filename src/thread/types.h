/* SPDX-License-Identifier: MIT
 * The record of a thread: its magazines of each heap, and its spares. */
#ifndef THREAD_TYPES_H
#define THREAD_TYPES_H

#include "thread/claim.h"
#include "thread/magazines.h"

struct pool_heap;

/* The magazines of a heap other than the default one. */
typedef struct heap_cache {
  struct pool_heap *heap;
  struct heap_cache *next; /* of the same chain, or unused */
  struct heap_cache *due_next, *due_previous;
  bool due; /* for a tick of its thread: it may have magazines. Changed by its owner and the heap's end */
  struct thread *owner;
  uint64_t stamp;                              /* of its magazines, as other threads last saw them */
  uint32_t unused_for;                         /* looks since the stamp changed. Under threads_lock */
  struct heap_cache *reach_next, **reach_link; /* in the heap's list of caches within reach; link NULL: in no list */
  claim_t claim;
  magazines_t magazines;
  cache_t cache;
} heap_cache_t;

/* A heap's caches that may have magazines: those entered since they were last emptied. Under threads_lock. */
typedef struct reach_list {
  heap_cache_t *first;
} reach_list_t;

/* Large runs of the default heap that the thread has freed and keeps for blocks of the same length. */
enum {
  SPARE_UNITS_MOST = 16, /* the longest: 1 MiB */
  SPARE_DEPTH = 4        /* of one length */
};
typedef struct spares {
  run_t *of[SPARE_UNITS_MOST][SPARE_DEPTH];
  uint8_t count[SPARE_UNITS_MOST];
  uint8_t low[SPARE_UNITS_MOST];  /* the fewest since the last tick */
  size_t live_blocks, live_bytes; /* to be added to the default heap's figures, modulo 2^64. Only the owner writes them */
} spares_t;

static inline size_t thread_spare_units(const spares_t *spares)
{
  size_t units = 0;
  for (size_t i = 0; i < SPARE_UNITS_MOST; i++)
    units += spares->count[i] * (i + 1);
  return units;
}

/* pool_heap_alloc() finds the cache of a heap by a byte of the heap's address. Another heap with the same byte takes over the
 * slot; the chains below have all caches. NOT_A_HEAP, the address of no heap, keeps NULL out of slot 0. The slot has the heap's
 * address, plus 1 if other threads may flush the magazines, plus 2 if the thread counts. */
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

/* The error of the thread's last invalid argument (heap/invalid.h): its numbers, and the text once it was requested. It is at
 * the end of the record, in memory that is otherwise untouched. */
enum { INVALID_TEXT_SIZE = 256 };
typedef struct thread_invalid {
  uintptr_t numbers[3];
  char text[INVALID_TEXT_SIZE];
} thread_invalid_t;

/* The fields that every thread uses come first, in one page. Threads without own heaps do not touch the others. */
typedef struct thread {
  bool busy;            /* with the magazines of a heap in `chains` */
  uint8_t number;       /* modulo 256 */
  bool is_lost;         /* to this process, the child of a fork */
  uint32_t sample_left; /* blocks up to and including the next sample; 0: not drawn yet */
  uint32_t counts;      /* the profile for which the thread counts its allocations; 0: none */
  uint64_t count_left;  /* bytes up to the next block in that profile, including its first */
  uint64_t looked_ms;   /* when it last gave up idle magazines */
  allowance_t allowance;
  struct thread *next, *previous;
  cache_t *ready; /* default_magazines.cache if the fast paths find it, or NULL */
  magazines_t default_magazines;
  spares_t spares;
  heap_cache_t **chains; /* hash table of its caches by heap address, with no fewer heads than caches. Under threads_lock */
  uint32_t chains_log2;  /* of the number of heads */
  uint32_t cache_count;
  heap_cache_t *due_first, *due_last; /* caches that may have magazines, the next to be ticked first. Under threads_lock */
  uint32_t due_count;
  uint32_t due_left; /* left of those that were due when the tick began. Only the owner uses it */
  cache_t *hidden;   /* the default heap's cache while it is hidden from the fast paths; kept for the next time */
  struct pool_heap *heap_at[CACHE_SLOTS]; /* slot 0 is written when the record is made */
  cache_t *cache_at[CACHE_SLOTS];
  thread_invalid_t invalid;
} thread_t;

/* The calling thread's record, or an empty record before the thread has one and after its end. */
extern INTERNAL THREAD_LOCAL thread_t *thread_self;

static inline bool thread_is_usable(const thread_t *thread) { return thread->default_magazines.cache != NULL; }

/* The thread is usable, and its fast paths are in use: they leave an empty magazine or a full one. */
static inline bool thread_is_ready(const thread_t *thread) { return thread->ready != NULL; }

/* Protects the lists of threads, and the caches of each. */
extern lock_t threads_lock;

#endif
