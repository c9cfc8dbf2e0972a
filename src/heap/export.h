/* SPDX-License-Identifier: MIT
 *
 * Figures for other processes (export=1), of which nothing is known in the paths of allocation. A thread of the library's own
 * sleeps until somebody asks by the memory that they share (heap/export_page.h), and writes the figures there. */
#ifndef EXPORT_H
#define EXPORT_H

#include "heap/heap.h"

/* Writes all figures as JSON, up to `size` bytes with the zero at the end, and returns how long the text is as a whole. Set by
 * api/stats. */
extern size_t (*export_figures)(char *buffer, size_t size);

/* Begins if it is asked for, the options have been read and a thread can be made, each of which may come last. */
void export_begin_if(void);

/* Ends the thread: what is looked at from now on has no thread of the library beside it. */
void export_end(void);

/* The process has no thread but the one that asks, after export_end(). */
bool export_is_alone(void);

/* The child of a process that had no other thread begins anew, but not before it comes by a slow path: most children become
 * another program. Nothing is made beside what other threads may have held. */
void export_fork_prepare(void);
void export_fork_child(void);
extern INTERNAL bool export_is_due;
COLD void export_begin_due(void);
static inline void export_begin_if_due(void)
{
  if (HAS_SYSTEM && unlikely(__atomic_load_n(&export_is_due, __ATOMIC_RELAXED)))
    export_begin_due();
}

#endif
