/* SPDX-License-Identifier: MIT
 *
 * Returns memory that is not needed: a little at a time by the clock, all of it when a heap is exhausted or trimmed. Helper
 * threads do the former for a process that makes no calls. */
#ifndef HEAP_TICK_H
#define HEAP_TICK_H

#include "base/bits.h"
#include "heap/heap.h"
#include "os/os.h"

/* Does what is due by the clock. */
void heap_look_at_clock(thread_t *thread);

/* Grows the thread's allowance or shrinks its caches, which exceed it. */
void heap_fit_allowance(thread_t *thread);

/* Called after a thread has used its bins. Looks at the clock now and then, and continues a purge that is under way. */
enum { SLOW_PATHS_PER_LOOK = 8 };
static inline void heap_after_slow_path(thread_t *thread)
{
  if (unlikely(++thread->allowance.slow_paths % SLOW_PATHS_PER_LOOK == 0 || space_purge_is_under_way(&space_of_process)))
    heap_look_at_clock(thread);
}

/* Does all that is due at once, for the background thread. Returns false if time alone would return nothing more. */
bool heap_tick_all(void);

/* The heap at which the round over granules continues; NULL: the first. Under heaps_lock; moves on when that heap ends. */
extern heap_t *heaps_round_at;
void heap_leave_ticks(const heap_t *heap);

/* Returns the heap's cached and idle memory to its space: the caches of all threads if they can be reached, else the calling
 * thread's. Withheld blocks of a checked heap are released too: `call` is named if one was overwritten. Unless `all` goes, the
 * only thread of a process keeps blocks whose return would end no slab. */
void heap_drain(heap_t *heap, const char *call, bool all);

/* Returns idle memory beyond `keep` bytes to the system, the calling thread's magazines first. */
size_t heap_trim(heap_t *heap, size_t keep);

/* Return what an ending thread caches: of the default heap, and of all others. */
void heap_flush_own(thread_t *thread);
void heap_flush_thread(thread_t *thread);

/* Runs before these, without locks. */
void heap_end_of_thread(void);

/* 0: no limit. False: the heap holds more than that even after a trim. */
bool heap_set_budget(heap_t *heap, size_t budget);

/* ---- helper threads ----
 *
 * One helper answers other processes (debug/export.h), one returns memory (below). Neither keeps a process alive. Each ends
 * when no thread of the program is left, and before the heaps are examined at exit. */

/* Returns the number of threads of the process besides helpers, also those of another library of this kind. The result is exact
 * for up to HELPERS_FEW threads only: telling more apart is expensive. Reads files. */
enum { HELPERS_FEW = 8 };
unsigned helpers_beside(void);

/* The library has begun: threads can be started and figures be written. */
extern bool helpers_may_begin;

/* A helper has ended at exit. helpers_are_alone(): the caller is the only thread, and was when the last helper ended. */
void helpers_note_end(void);
bool helpers_are_alone(void);

/* The child of a process whose only other threads were helpers starts them anew, on its first slow path, because most children
 * become another program. Other children start none: threads that are gone may have held anything. */
typedef enum helper { HELPER_EXPORT = 1 << 0, HELPER_BACKGROUND = 1 << 1 } helper_t;
void helpers_fork_prepare(bool are_there);
void helpers_fork_child(unsigned those); /* `those` were running */
extern INTERNAL uint32_t helpers_due;
bool helpers_take_due(helper_t helper);

/* Ends a thread that sleeps at a word. `wake` is called repeatedly, since the thread may have looked before and sleep after.
 * False: it did not end in time, because it waits for what the caller has interrupted. */
bool helpers_join(os_helper_t thread, void (*wake)(void), unsigned most_ms);

/* ---- background ----
 *
 * A thread that returns memory after the purge delay, also in a process that makes no calls. It also empties the caches of
 * sleeping threads, for heaps whose caches can be reached. The program's threads do not purge while it runs. It looks four
 * times per purge delay while something is left to return, and otherwise sleeps without a limit. */

/* Concurrent callers wait for each other. background_start() returns 0 or an error. */
int background_start(void);
void background_stop(void);

/* Starts the thread if the option asks for it, once options have been read and threads can be started. */
void background_begin_if(void);

/* Called at exit. Abandons a thread that waits for what the exit has interrupted. */
void background_end(void);

/* No thread with a record is left: the background thread checks for others. */
void background_note_last(void);

/* Called around a fork. background_fork_child() runs in the child, without the thread; true: the parent had it. */
bool background_is_there(void);
bool background_fork_child(void);
void background_begin_due(void); /* in such a child, once it is due */

/* The background thread has looked lately, so others need not. A thread that does not see that ticks too, which is harmless. */
extern INTERNAL bool background_runs;
bool background_has_looked(uint64_t now_ms);
static inline bool background_looks(uint64_t now_ms)
{
  return unlikely(__atomic_load_n(&background_runs, __ATOMIC_RELAXED)) && background_has_looked(now_ms);
}

#endif
