/* SPDX-License-Identifier: MIT
 *
 * What the manager knows of a thread. A record is made at a thread's first slow path and comes back when the thread ends,
 * after its magazines have been flushed; a thread that goes on allocating in later destructors has no record and works on
 * the bins directly. So does a thread whose end cannot be arranged, and one that only frees and may be at its end.
 *
 *   T1 a record is in the list of live ones from its creation to the thread's end, and its cache can be read meanwhile. The
 *      list is under threads_lock; in the child of a fork T1 holds again after threads_forget_others() */
#ifndef THREAD_H
#define THREAD_H

#include "thread/caches.h"

/* Threads have their caches of the default heap as they have those of others, within reach (caches.h). Settled at bring-up. */
extern INTERNAL bool threads_default_is_reached;

/* Registers what is called when a thread ends, unless that is done; under the lock of the start-up. As early as can be: while
 * there are keys for which a thread has room of its own. For another the C library allocates at a thread's first value. Where
 * that is the program's own value, and this is its malloc, the thread's record would be registered within that call, and lost
 * at the end of it. */
void threads_watch_ends(void);

/* Called once, before any thread has a record. When a thread ends it calls `end`, then `flush_own` with its record, and under
 * threads_lock `flush`, before the record goes; and `last` if no thread has a record then. */
void threads_init(void (*end)(void), void (*flush_own)(thread_t *thread), void (*flush)(thread_t *thread), void (*last)(void));

/* The calling thread's record, made if there is none yet. NULL: the thread is ending, its end cannot be arranged, or there is
 * no memory. */
thread_t *thread_current(void);

/* The same for a call that frees. A thread that has only freed so far may be past its end: the C library frees what it had for
 * threads after all destructors have run, where a record would stay for ever, with a cache in memory that goes. If it may be
 * there it gets none before it has freed more than can be freed there. */
thread_t *thread_current_to_free(void);

/* From now on the calling thread's fast paths find no magazine, so that each of its calls comes by a slow path, which knows for
 * which profile it counts; thread_stop_counting() has them find what they found before. False: there is no memory. Not in a
 * call with a heap's magazines. */
bool thread_start_counting(thread_t *thread, uint32_t profile);
void thread_stop_counting(thread_t *thread);

/* For a thread that is about to end the process, at any point of any call. From now on it has no record and no magazines; what
 * is in them is lost. */
void thread_forget_own(void);

/* Calls `visit` with a heap's magazines in every thread, and takes them away if `forget`. The threads are not in a call with
 * the heap meanwhile: its end, a reset, a walk. */
void threads_visit(struct pool_heap *heap, bool forget, threads_visit_fn *visit);

/* Empties the caches within reach that no live thread has used for so many calls of this. Returns whether any is left that has
 * something in it. */
bool threads_reach_unused(unsigned looks, threads_visit_fn *flush);

/* Returns the first of all live records, under threads_lock. */
thread_t *threads_first(void);

/* In the child of a fork: the others are not in this process. What they had cached is lost to it, since one of them may have
 * had it in its hands; but it is with no caller, and so their records stay, to be asked. `give` is called with each, for
 * the rest that they held. */
void threads_forget_others(void (*give)(thread_t *thread));

/* Returns the first of the threads that a fork has lost, under threads_lock. */
thread_t *threads_first_lost(void);

/* What lost threads had cached of a heap does not count any more, because its blocks have all come back. The magazines may have
 * been in the hands of such a thread, and are not used again. */
void threads_drop_lost(struct pool_heap *heap, bool forget);

/* Where the lists begin, for whoever reads the memory of the process from outside. */
thread_t *const *threads_list(void);
thread_t *const *threads_lost_list(void);

#endif
