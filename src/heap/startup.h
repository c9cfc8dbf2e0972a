/* SPDX-License-Identifier: MIT
 *
 * The process-wide state comes up, once. */
#ifndef STARTUP_H
#define STARTUP_H

#include "heap/heap.h"

/* Brings it up at the first call. False: the system refuses even the least address space. Any thread, at any time. */
COLD bool manager_bring_up(void);
static inline bool manager_ready(void) { return manager_is_up() || manager_bring_up(); }

#endif
