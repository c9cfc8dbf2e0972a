/* SPDX-License-Identifier: MIT
 *
 * A fork copies memory at whatever moment the other threads are in. Who asks the system for something, with the lock of the records
 * that say so open, is inside the gate from before the records change until they agree with the system again. A fork closes
 * the gate first: it finds each such call finished or not begun, and nothing is lost to the child.
 *
 * There are several gates side by side, so that threads seldom meet there. */
#ifndef GATE_H
#define GATE_H

#include "os/lock.h"

/* Taken before the lock of any space or of huge blocks, and after all others. */
lock_t *gate_enter(void);
static inline void gate_leave(lock_t *gate) { lock_release(gate); }

/* For fork(). In the child there is nobody inside. */
void gate_close(void);
void gate_each(void (*act)(lock_t *));

#endif
