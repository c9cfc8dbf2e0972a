/* SPDX-License-Identifier: MIT
 *
 * Threads of the library's own: one answers other processes (export.h), one returns memory (background.h). Neither keeps a
 * process alive: each ends when no thread of the program is left, and before the process is looked at when it exits. */
#ifndef HELPER_THREADS_H
#define HELPER_THREADS_H

#include "base/bits.h"
#include "os/os.h"

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

#endif
