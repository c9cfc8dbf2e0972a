/* SPDX-License-Identifier: MIT
 *
 * What the manager knows of a thread. A record is made at a thread's first slow path and comes back when the thread ends,
 * after its magazines have been flushed; a thread that goes on allocating in later destructors has no record and works on
 * the pools directly.
 *
 *   T1 a record is in the list of live ones from its creation to the thread's end, and its cache can be read meanwhile */
#ifndef THREAD_H
#define THREAD_H

#include "magazine.h"

struct pool_heap;

/* The magazines of a heap other than the default one. */
typedef struct heap_cache {
  struct pool_heap  *heap;
  struct heap_cache *next;      /* of the same thread */
  magazines_t        magazines;
  cache_t            cache;
} heap_cache_t;

/* Where pool_heap_alloc() finds the cache of a heap: by a byte of the heap's address. Another heap with the same byte takes the
 * place over; the list below has them all. No heap has the address NOT_A_HEAP, which keeps NULL out of its place, 0. */
enum { THREAD_PLACES = 256, HEAP_ALIGNMENT_LOG2 = 8 };
#define NOT_A_HEAP ((struct pool_heap *)-1)
static inline size_t thread_place(const struct pool_heap *heap) { return (uint8_t)((uintptr_t)heap >> HEAP_ALIGNMENT_LOG2); }

typedef struct thread {
  struct pool_heap *heap_at[THREAD_PLACES];
  cache_t          *cache_at[THREAD_PLACES];
  struct thread *next, *previous;
  bool           end_arranged;
  uint8_t        shard;         /* of the pools' depots */
  uint32_t       trips;         /* slow paths so far */
  uint64_t       looked_ms;     /* when it last let go of idle magazines */
  magazines_t    front;
  heap_cache_t  *heaps;
} thread_t;

/* The calling thread's record; one without anything in it before the first and after the last of the thread's. */
extern INTERNAL THREAD_LOCAL thread_t *thread_self;

static inline bool thread_is_usable(const thread_t *thread) { return thread->front.cache != NULL; }

/* The same, made if there is none yet. NULL: the thread is ending, or there is no memory. */
thread_t *thread_current(void);

/* Called with a thread's record when it ends, before the record goes: flushes every magazine. */
extern void (*thread_flush)(thread_t *thread);

/* Called once, when the process first has a second thread. */
extern void (*thread_second)(void);

/* The first thread of a process arranges for its end only when there is a second one: most programs end with it. */
void thread_notice_second(thread_t *thread);

/* The thread's magazines of a heap other than the default one, made if need be. NULL: no memory. With `placed`, the fast path
 * will find them. */
magazines_t *thread_magazines(thread_t *thread, struct pool_heap *heap, bool placed);
/* Under threads_lock. */
magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap);

/* Takes a heap's caches away from every thread: calls `visit` with each, and forgets it if `forget`. */
void threads_visit(struct pool_heap *heap, bool forget, void (*visit)(magazines_t *magazines, struct pool_heap *heap));

/* All live records, under threads_lock. */
extern lock_t threads_lock;
thread_t *threads_first(void);

/* In the child of a fork: the others are not in this process. What they had cached is lost to it. */
void threads_forget_others(void);

#endif
