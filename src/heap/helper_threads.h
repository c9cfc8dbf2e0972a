/* SPDX-License-Identifier: MIT
 *
 * Threads of the library itself: what they have in common, and the one that returns memory. */
#ifndef HELPER_THREADS_H
#define HELPER_THREADS_H

#include "base/bits.h"
#include "heap/heap.h"
#include "os/os.h"

/* ---- helper threads ----
 *
 * Threads of the library's own: one answers other processes (export.h), one returns memory (background.h). Neither keeps a
 * process alive: each ends when no thread of the program is left, and before the process is looked at when it exits. */

/* Returns how many threads the process has but for its helpers, also those of another library of this kind. More than a few
 * cannot be told apart at no cost. It reads files. */
enum { HELPERS_FEW = 8 };
unsigned helpers_beside(void);

/* Threads can be made from here on, and figures be written: the library has begun. */
extern bool helpers_may_begin;

/* Notes that a helper has ended at exit. helpers_are_alone(): the process has no thread but the one that asks, and had none
 * when the last helper ended. */
void helpers_note_end(void);
bool helpers_are_alone(void);

/* The child of a process that had no thread beside its helpers begins them anew, but not before it comes by a slow path: most
 * children become another program. Nothing is made beside what other threads may have held. */
typedef enum helper { HELPER_EXPORT = 1 << 0, HELPER_BACKGROUND = 1 << 1 } helper_t;
void helpers_fork_prepare(bool are_there);
void helpers_fork_child(unsigned those); /* that were there */
extern INTERNAL uint32_t helpers_due;
bool helpers_take_due(helper_t helper);

/* Ends a thread that sleeps at a word: woken again and again by `wake`, since it may have looked before, and sleep after.
 * False: it does not come to its end, because it waits for what the caller has interrupted. */
bool helpers_join(os_helper_t thread, void (*wake)(void), unsigned most_ms);

/* ---- background ----
 *
 * A thread of the library's own that returns memory after the purge delay, also in a process that makes no calls, and empties
 * what sleeping threads have cached of heaps whose caches can be reached. While it is there the threads of the program do not
 * purge. It looks four times in a purge delay while something is left to return, and sleeps without an end while nothing is. */

/* Does all that is due. False: there is nothing left that time alone would return. Set by heap/startup. */
extern bool (*background_tick)(void);

/* Begins, or ends. Of several callers each waits for the one before. background_start() returns 0, or the error. */
int background_start(void);
void background_stop(void);

/* Begins if the option asks for it, the options have been read and a thread can be made, each of which may come last. */
void background_begin_if(void);

/* At exit. A thread that waits for what the exit has interrupted is left. */
void background_end(void);

/* No thread with a record is left: it looks whether any is. */
void background_note_last(void);

/* Around a fork. The second in the child, which has no such thread; true: its parent had one. */
bool background_is_there(void);
bool background_fork_child(void);
void background_begin_due(void); /* in such a child, once it is due */

/* It has looked lately, so others need not. A thread that does not see it yet ticks too, which does no harm. */
extern INTERNAL bool background_runs;
bool background_has_looked(uint64_t now_ms);
static inline bool background_looks(uint64_t now_ms)
{
  return HAS_SYSTEM && unlikely(__atomic_load_n(&background_runs, __ATOMIC_RELAXED)) && background_has_looked(now_ms);
}

#endif
