/* SPDX-License-Identifier: MIT
 *
 * What the manager knows of a thread. A record is made at a thread's first slow path and comes back when the thread ends,
 * after its magazines have been flushed; a thread that goes on allocating in later destructors has no record and works on
 * the bins directly. So does a thread whose end cannot be arranged, and one that only frees and may be at its end.
 *
 * The magazines of a heap with a budget can be reached while their owner does something else, so that a thread that sleeps keeps
 * nothing back from the others. Their slot says so, and only for them the owner says that it is busy before it looks whether they
 * are still there. It pays no fence for it:
 *
 *     owner                                        another thread, under threads_lock
 *     busy = true                                  the slot is empty, the cache claimed
 *     is the heap's cache in its slot?             a fence in every thread (os_fence_others)
 *       pop or push                                wait until the owner is not busy
 *     busy = false, with release                   flush; the cache is no longer claimed
 *
 * Either the owner's look comes after the fence and finds the slot empty, or its `busy` came before it and is seen. An owner that
 * finds nothing in its slot takes the slow path, and there the lock. (D. Dice, H. Huang, M. Yang, "Asymmetric Dekker
 * synchronization", 2001.)
 *
 *   T1 a record is in the list of live ones from its creation to the thread's end, and its cache can be read meanwhile */
#ifndef THREAD_H
#define THREAD_H

#include "thread/magazines.h"

struct pool_heap;

/* The magazines of a heap other than the default one. */
typedef struct heap_cache {
  struct pool_heap  *heap;
  struct heap_cache *next;      /* of the same chain, or unused */
  struct heap_cache *due_next, *due_previous;
  bool               due;       /* for a tick of its thread: something may be in it. Its owner's and, with the heap's end, its ender's */
  bool               claimed;   /* by another thread that flushes it */
  struct thread     *owner;
  struct heap_cache *reach_next, **reach_link;   /* of a heap whose magazines others may reach for; link NULL: it is in no list */
  magazines_t        magazines;
  cache_t            cache;
} heap_cache_t;

/* A heap's caches that may have something in them: those that were entered since they were last emptied. Under threads_lock. */
typedef struct reach_list { heap_cache_t *first; } reach_list_t;

/* Large runs of the default heap that the thread has freed and keeps for its next blocks of the same length. */
enum {
  SPARE_UNITS_MOST = 16,        /* runs of up to 1 MiB, */
  SPARE_DEPTH = 4,              /* so many of a length, */
  SPARE_BYTES = 2 << 20,        /* and so much in all, */
  SPARE_BYTES_ALL = 4 << 20     /* or this divided among the threads */
};
typedef struct spares {
  run_t   *of[SPARE_UNITS_MOST][SPARE_DEPTH];
  uint8_t  count[SPARE_UNITS_MOST];
  uint8_t  low[SPARE_UNITS_MOST];   /* the fewest since the last tick */
  uint32_t units;               /* in all of them */
  size_t   live_blocks, live_bytes;   /* what is to be added to the default heap's figures, modulo 2^64. The owner's to write */
} spares_t;

/* Where pool_heap_alloc() finds the cache of a heap: by a byte of the heap's address. Another heap with the same byte takes the
 * slot over; the chains below have them all. No heap has the address NOT_A_HEAP, which keeps NULL out of its slot, 0. A heap whose
 * magazines others may reach for has its address and one in its slot. */
enum { CACHE_SLOTS = 256, HEAP_ALIGNMENT_LOG2 = 8 };
#define NOT_A_HEAP ((struct pool_heap *)-1)
static inline size_t cache_slot_of(const struct pool_heap *heap) { return (uint8_t)((uintptr_t)heap >> HEAP_ALIGNMENT_LOG2); }
static inline struct pool_heap *within_reach(const struct pool_heap *heap) { return (struct pool_heap *)((uintptr_t)heap + 1); }

typedef struct thread {
  struct pool_heap *heap_at[CACHE_SLOTS];
  cache_t          *cache_at[CACHE_SLOTS];
  bool           busy;          /* with the magazines of a heap in `chains` */
  uint8_t        shard;         /* of the bins' depots */
  bool           is_lost;       /* to this process, the child of a fork */
  uint32_t       slow_paths;    /* taken so far */
  uint64_t       looked_ms;     /* when it last let go of idle magazines */
  struct thread *next, *previous;
  magazines_t    default_magazines;
  spares_t       spares;
  heap_cache_t **chains;        /* its caches of heaps, by the heap's address: as many heads as caches, or more. Under threads_lock */
  uint32_t       chains_log2;   /* how many heads */
  uint32_t       cache_count;
  heap_cache_t  *due_first, *due_last;   /* those with something in them, the next to be ticked first. Under threads_lock */
  uint32_t       due_count;
  uint32_t       due_left;      /* of those that were there when the tick began. The owner's alone */
} thread_t;

/* The calling thread's record; one without anything in it before the first and after the last of the thread's. */
extern INTERNAL THREAD_LOCAL thread_t *thread_self;

static inline bool thread_is_usable(const thread_t *thread) { return thread->default_magazines.cache != NULL; }

/* Once, before any thread has a record: `flush` is called with the record of a thread that ends, before the record goes. */
void threads_init(void (*flush)(thread_t *thread));

/* The calling thread's record, made if there is none yet. NULL: the thread is ending, its end cannot be arranged, or there is no
 * memory. */
thread_t *thread_current(void);

/* The same for a call that frees. A thread that has only freed so far may be past its end: the C library frees what it had for threads
 * after all destructors have run, where a record would stay for ever, with a cache in memory that goes. If it may be there it gets none
 * before it has freed more than can be freed there. */
thread_t *thread_current_to_free(void);

/* From now on the calling thread has no record, and its magazines are out of reach; what is in them is lost. For a thread that is
 * about to end the process, at any point of any call. */
void thread_abandon(void);

/* ---- magazines of heaps other than the default one ---- */

/* The thread's magazines of a heap, made if need be. NULL: no memory. With `in_slot`, the fast path will find them; with a list others
 * may reach for them. The thread is busy with them from here to thread_leave(). */
magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach);

/* Under threads_lock. */
magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap);

/* All caches of the thread; `cache` NULL: the first. NULL: there are no more. Under threads_lock. */
heap_cache_t *thread_next_cache(const thread_t *thread, const heap_cache_t *cache);

/* Only caches that were entered since they were last found empty are due: a thread may have used very many heaps. A tick begins with all
 * of those; thread_tick_caches() calls `tick` with up to `most` of those that are left, under threads_lock. By their thread. */
typedef void threads_visit_fn(magazines_t *magazines, struct pool_heap *heap);
void thread_begin_tick(thread_t *thread);
static inline bool thread_tick_is_under_way(const thread_t *thread) { return thread->due_left != 0; }
void thread_tick_caches(thread_t *thread, unsigned most, threads_visit_fn *tick);

/* The thread sanitizer does not know of the fence, so it is shown a stronger order. */
#ifdef UNDER_SANITIZER
#define BUSY_ORDER __ATOMIC_SEQ_CST
#else
#define BUSY_ORDER __ATOMIC_RELAXED
#endif
static inline void thread_set_busy(thread_t *thread)
{
  __atomic_store_n(&thread->busy, true, BUSY_ORDER);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void thread_leave(thread_t *thread) { __atomic_store_n(&thread->busy, false, __ATOMIC_RELEASE); }

/* The heap's cache is in its slot, and nobody else takes it away while the heap is in use. */
static inline bool thread_has_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return OWNER_LOAD(thread->heap_at[cache_slot_of(heap)]) == heap;
}

/* The same for a heap whose magazines others may reach for. Busy first, then this. */
static inline bool thread_has_within_reach(const thread_t *thread, const struct pool_heap *heap)
{
  return __atomic_load_n(&thread->heap_at[cache_slot_of(heap)], BUSY_ORDER) == within_reach(heap);
}

/* Calls `visit` with a heap's magazines in every thread, and takes them away if `forget`. The threads are not in a call with the
 * heap meanwhile: its end, a reset, a walk. */
void threads_visit(struct pool_heap *heap, bool forget, threads_visit_fn *visit);

/* Empties those of every other thread that may have something in them, whatever it does; one that does not come out of them soon is
 * left out. `flush` takes everything. It costs what there is to look at: a heap that stays exhausted looks at nothing again. */
void threads_reach(struct pool_heap *heap, reach_list_t *reach, threads_visit_fn *flush);

/* Whether that can be done at all. */
extern bool threads_can_be_reached;

/* ---- all threads ---- */

/* All live records, under threads_lock. */
extern lock_t threads_lock;
thread_t *threads_first(void);

/* In the child of a fork: the others are not in this process. What they had cached is lost to it, since one of them may have had it in
 * its hands; but it is with no caller, and so their records stay, to be asked. `forget` is called with each for the rest. */
void threads_forget_others(void (*forget)(thread_t *thread));

/* Those, under threads_lock. */
thread_t *threads_first_lost(void);

/* What they had cached of a heap does not count any more: its blocks have all come back. The magazines may have been in somebody's
 * hands and are not used again. */
void threads_drop_lost(struct pool_heap *heap, bool forget);

#endif
