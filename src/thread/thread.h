/* SPDX-License-Identifier: MIT
 * The record of a thread: its magazines of each heap, and its spares. */
#ifndef THREAD_THREAD_H
#define THREAD_THREAD_H

#include "os/lock.h"
#include "thread/magazines.h"

struct pool_heap;

/* The magazines of a heap other than the default one, or of that one if it is within reach. */
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

/* ---- caches of heaps ----
 *
 * Other threads can flush the magazines of a heap with a budget, so that a sleeping thread withholds nothing (os/lock.h). The
 * slots of such heaps are marked, and the owner declares itself busy before it checks that the heap is still in its slot. An
 * owner that finds its slot empty takes threads_lock, under which all claims are made, and fills the slot. */

/* Returns the thread's magazines of a heap, which are created if needed; NULL if there is no memory. With `in_slot` the fast
 * path will find them; with `reach` other threads may flush them. The thread is busy with them until thread_leave(). */
magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach);

/* Returns the thread's magazines of the heap; NULL if there are none. Called under threads_lock. */
magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap);

/* Returns the next cache of the thread, or the first if `cache` is NULL; NULL at the end. Called under threads_lock. */
heap_cache_t *thread_next_cache(const thread_t *thread, const heap_cache_t *cache);

/* Only caches that were entered since they were last found empty are due, because a thread may have used many heaps. A tick
 * visits all due caches, up to `most` in each call, under threads_lock. Only the thread itself calls these. */
typedef void threads_visit_fn(magazines_t *magazines, struct pool_heap *heap);
void thread_begin_tick(thread_t *thread);
static inline bool thread_tick_is_under_way(const thread_t *thread) { return thread->due_left != 0; }
void thread_tick_caches(thread_t *thread, unsigned most, threads_visit_fn *tick);

static inline void thread_set_busy(thread_t *thread) { claim_set_busy(&thread->busy); }
static inline void thread_leave(thread_t *thread) { claim_clear_busy(&thread->busy); }

/* Returns whether the heap's cache is in its slot. No other thread removes it while this thread is in a call with the heap. */
static inline bool thread_has_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return OWNER_LOAD(thread->heap_at[cache_slot_of(heap)]) == heap;
}

/* Returns whether the cache of a heap within reach is in its slot. The thread must be busy before the call. */
static inline bool thread_has_within_reach(const thread_t *thread, const struct pool_heap *heap)
{
  return __atomic_load_n(&thread->heap_at[cache_slot_of(heap)], CLAIM_ORDER) == within_reach(heap);
}

/* Returns whether the slot is the heap's in either way, and the thread does not count. Heaps without a cache slot never have
 * one. */
static inline bool thread_has_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return thread_has_in_slot(thread, heap) || thread_has_within_reach(thread, heap);
}

/* Empties all slots, so that the fast paths find no heap until it is entered again. */
void thread_empty_slots(thread_t *thread);

/* Flushes the heap's caches of all other threads by `flush`, whatever those threads do. A thread that stays busy is skipped.
 * The cost is proportional to the caches that may have blocks, so a heap that stays exhausted visits none again. */
void threads_reach(reach_list_t *reach, threads_visit_fn *flush);

/* Flushes the caches within reach of a list of threads that were not used during the last `looks` calls of this function.
 * Returns whether a cache with magazines is left. Called under threads_lock. */
bool threads_reach_unused_of(thread_t *first, unsigned looks, threads_visit_fn *flush);

/* The system has the fence that reaching into other threads needs. */
extern bool threads_can_be_reached;

/* These act on one thread, under threads_lock. thread_visit_cache() visits its magazines of the heap; with `forget` the heap
 * ends, and the cache is removed. thread_drop_cache() is for a lost thread, whose cached blocks of the heap no longer count.
 * thread_forget_caches() is for a thread that ends. */
void thread_visit_cache(thread_t *thread, struct pool_heap *heap, bool forget, threads_visit_fn *visit);
void thread_drop_cache(thread_t *thread, struct pool_heap *heap, bool forget);
void thread_forget_caches(thread_t *thread);

/* ---- records ----
 *
 * Records of threads. A record is made at a thread's first slow path and returned when the thread ends, after its magazines
 * have been flushed. A thread that allocates in later destructors has no record and uses the bins directly. So does a thread
 * whose end cannot be observed, and one that only frees and may be at its end.
 *
 *   T1 a record is in the list of live ones from its creation to the thread's end, and its cache can be read meanwhile. The
 *      list is under threads_lock; in the child of a fork T1 holds again after threads_forget_others() */

/* Other threads may flush the caches of the default heap too, as those within reach (caches.c). Set at startup. */
extern INTERNAL bool threads_default_within_reach;

/* Registers the function for the end of a thread, once, under the startup lock. This must come early, while there are keys for
 * which threads have room of their own. For later keys, the C library allocates at a thread's first value. If that is the
 * program's own value, and this is its malloc, the thread's record would be registered within that call and lost at its end. */
void threads_watch_ends(void);

/* Called once, before any thread has a record. A thread that ends calls `end`, then `flush_own` with its record, and `flush`
 * under threads_lock, before the record goes. It calls `last` if no thread has a record then. */
void threads_init(void (*end)(void), void (*flush_own)(thread_t *thread), void (*flush)(thread_t *thread), void (*last)(void));

/* Returns the calling thread's record. NULL if the thread is ending, its end cannot be observed, or there is no memory. */
thread_t *thread_current(void);

/* Returns the record for a call that frees. A thread that has only freed so far may be past its destructors, where the C
 * library frees its own memory of the thread. A record would then stay forever, with a cache in memory that goes. So a thread
 * that may be there gets a record only after it has freed more than the C library can. */
thread_t *thread_current_to_free(void);

/* Hides the magazines from the thread's fast paths, so that each call takes a slow path, which counts for `profile`. Returns
 * false if there is no memory. thread_stop_counting() undoes it. Must not be called during a call with a heap's magazines. */
bool thread_start_counting(thread_t *thread, uint32_t profile);
void thread_stop_counting(thread_t *thread);

/* For a thread that is about to end the process, at any point. It loses its record, and the contents of its magazines. */
void thread_forget_own(void);

/* Calls `visit` with a heap's magazines in every thread, and removes them if `forget`. No thread may be in a call with it. */
void threads_visit(struct pool_heap *heap, bool forget, threads_visit_fn *visit);

/* Flushes the caches within reach that were unused for `looks` calls of this function. Returns whether a used one is left. */
bool threads_reach_unused(unsigned looks, threads_visit_fn *flush);

thread_t *threads_first(void);

/* For the child of a fork, which lacks the other threads. Their cached blocks are lost, because a thread may have been
 * exchanging a magazine, but no caller has them, so the records stay for queries. `give` is called with each record. */
void threads_forget_others(void (*give)(thread_t *thread));

/* Returns the first record of the threads lost in a fork. Called under threads_lock. */
thread_t *threads_first_lost(void);

/* Forgets what lost threads have cached of a heap, whose blocks have all come back. Their magazines are not used again. */
void threads_drop_lost(struct pool_heap *heap, bool forget);

/* Return the list heads, for a reader of the process's memory from outside. */
thread_t *const *threads_list(void);
thread_t *const *threads_lost_list(void);

#endif
