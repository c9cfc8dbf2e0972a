/* SPDX-License-Identifier: MIT
 *
 * Exports figures to other processes (export=1). The allocation paths are not involved. A thread of the library sleeps until a
 * process asks through shared memory (debug/export_page.h), and writes the figures there.
 *
 * The thread takes only the locks that any question takes. But it makes a single-threaded process multithreaded: locks are
 * taken that one thread does not need, and a fork in a signal handler may wait for the call that the handler interrupted. */
#ifndef EXPORT_H
#define EXPORT_H

#include "heap/heap.h"

/* Writes all figures as JSON, up to `size` bytes with the NUL, and returns the length of the whole. Set first. */
extern size_t (*export_figures)(char *buffer, size_t size);

/* Starts the export if the option asks for it, once options have been read and threads can be started. */
void export_begin_if(void);

/* Ends the thread, so that it cannot disturb the checks at exit. */
void export_end(void);

/* Called around a fork. export_fork_child() runs in the child, which shares nothing, and returns true if its parent did. */
bool export_is_there(void);
bool export_fork_child(void);
void export_begin_due(void); /* in such a child, once it is due */

#endif
