/* SPDX-License-Identifier: MIT
 *
 * The process-wide state comes up, once. */
#ifndef STARTUP_H
#define STARTUP_H

#include "base/bits.h"

/* Brings it up at the first call. False: the system refuses even the least address space. Any thread, at any time. */
bool manager_ready(void);

/* The figures of the default heap, as one line on standard error: api/stats.c has them. */
void heap_print_figures(void);

#endif
