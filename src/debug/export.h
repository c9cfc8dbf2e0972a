/* SPDX-License-Identifier: MIT
 *
 * Figures for other processes (export=1), of which nothing is known in the paths of allocation. A thread of the library's own
 * sleeps until somebody asks by the memory that they share (heap/export_page.h), and writes the figures there.
 *
 * The thread takes only the locks that any question takes. But it makes two threads of one: locks are taken that one thread
 * does not need, and a fork in a signal handler may wait for the call that the handler interrupted. */
#ifndef EXPORT_H
#define EXPORT_H

#include "heap/heap.h"

/* Writes all figures as JSON, up to `size` bytes with the zero at the end, and returns how long the text is as a whole. Set
 * before the first of what follows. */
extern size_t (*export_figures)(char *buffer, size_t size);

/* Begins if it is asked for, the options have been read and a thread can be made, each of which may come last. */
void export_begin_if(void);

/* Ends the thread: what is looked at from now on has no thread of the library beside it. */
void export_end(void);

/* Around a fork. The second in the child, which shares nothing; true: its parent did. */
bool export_is_there(void);
bool export_fork_child(void);
void export_begin_due(void); /* in such a child, once it is due */

#endif
