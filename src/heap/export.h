/* SPDX-License-Identifier: MIT
 *
 * Figures for other processes (export=1), of which nothing is known in the paths of allocation. A thread of the library's own
 * sleeps until somebody asks by the page that they share (heap/export_page.h), and writes the figures there. */
#ifndef EXPORT_H
#define EXPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes all figures as JSON, up to `size` bytes with the zero at the end, and returns how long the text is as a whole. Set by
 * api/stats. */
extern size_t (*export_figures)(char *buffer, size_t size);

/* Begins if it is asked for, the options have been read and a thread can be made, each of which may come last. */
void export_begin_if(void);

/* The file goes at the end of the process. */
void export_end(void);

/* The child of a process that had no other thread begins anew. Nothing is made beside what other threads may have held. */
void export_fork_prepare(void);
void export_fork_child(void);

#endif
