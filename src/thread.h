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

typedef struct thread {
  struct thread *next, *previous;
  uint32_t       trips;         /* slow paths so far */
  uint64_t       looked_ms;     /* when it last let go of idle magazines */
  magazines_t    front;
  heap_cache_t  *heaps;
} thread_t;

/* The calling thread's record; NULL: none yet; not a usable one when the thread is ending. For thread_current(). */
extern INTERNAL THREAD_LOCAL thread_t *thread_self;

static inline bool thread_is_usable(const thread_t *thread) { return thread && thread->front.cache; }

/* The same, made if there is none yet. NULL: the thread is ending, or there is no memory. */
thread_t *thread_current(void);

/* Called with a thread's record when it ends, before the record goes: flushes every magazine. */
extern void (*thread_flush)(thread_t *thread);

/* All live records, under threads_lock. */
extern lock_t threads_lock;
thread_t *threads_first(void);

/* In the child of a fork: the others are not in this process. What they had cached is lost to it. */
void threads_forget_others(void);

#endif
