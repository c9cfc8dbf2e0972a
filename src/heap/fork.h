/* SPDX-License-Identifier: MIT
 *
 * A fork finds nothing half done. fork.c takes all locks and closes all gates, in the order in which they nest: docs/DESIGN.md,
 * The order of locks. */
#ifndef FORK_H
#define FORK_H

#include "os/lock.h"

/* Held while the process-wide state comes up. */
extern lock_t startup_lock;

/* Registers the fork handlers, once. Called as early as can be: handlers that are registered later run before these in the
 * parent, and may allocate. Handlers that a program registered before it opened the library run after these. They must neither
 * allocate from the library nor wait for a thread that does. May allocate itself. */
void fork_watch(void);

/* The process is a child of one that had other threads at the fork: it has what they had in their hands, half done. */
extern INTERNAL bool fork_lost_threads;

#endif
