/* SPDX-License-Identifier: MIT
 * Walks from frame to frame by the tables of the modules, or by cached results. */
#ifndef DEBUG_LINUX_WALK_H
#define DEBUG_LINUX_WALK_H

#include "debug/system.h"

/* Stores addresses as os_take_stack() does. Stores none before seen_begin(), or if the walk does not reach `from` within
 * `passed_most` frames. Takes no lock and allocates nothing; a signal may interrupt it. */
void walk_take(const void *const *frame, const void *from, unsigned passed_most, os_stack_t *stack);

#endif
