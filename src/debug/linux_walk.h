/* SPDX-License-Identifier: MIT
 *
 * From the frame of a call to that of its caller, and on: by the tables of the modules, or by what was found in them before. */
#ifndef OS_LINUX_WALK_H
#define OS_LINUX_WALK_H

#include "debug/system.h"

/* Stores the addresses as os_take_stack() does, or none at all: before seen_begin(), and where the walk does not come by
 * `from`, or passes that many frames before. No lock is taken, nothing is allocated, and a signal may come at any moment. */
void walk_take(const void *const *frame, const void *from, unsigned passed_most, os_stack_t *stack);

#endif
