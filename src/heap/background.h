/* SPDX-License-Identifier: MIT
 *
 * A thread of the library's own that returns memory after the purge delay, also in a process that makes no calls, and empties
 * what sleeping threads have cached of heaps whose caches can be reached. While it is there the threads of the program do not
 * purge. It looks four times in a purge delay while something is left to return, and sleeps without an end while nothing is. */
#ifndef BACKGROUND_H
#define BACKGROUND_H

#include "heap/heap.h"

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
