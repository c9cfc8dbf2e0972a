/* SPDX-License-Identifier: MIT
 *
 * Records of threads. A record is made at a thread's first slow path and returned when the thread ends, after its magazines
 * have been flushed. A thread that allocates in later destructors has no record and uses the bins directly. So does a thread
 * whose end cannot be observed, and one that only frees and may be at its end.
 *
 *   T1 a record is in the list of live ones from its creation to the thread's end, and its cache can be read meanwhile. The
 *      list is under threads_lock; in the child of a fork T1 holds again after threads_forget_others() */
#ifndef THREAD_H
#define THREAD_H

#include "thread/caches.h"

/* Other threads may flush the caches of the default heap too, as those within reach (caches.h). Set at startup. */
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
