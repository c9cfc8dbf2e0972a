/* SPDX-License-Identifier: MIT
 *
 * A fork copies memory at whatever moment the other threads are in. A call that changes several records which have no lock in
 * common is inside a gate from before the first change until the records agree again. A fork closes the gate first. It finds
 * each such call finished or not begun, and nothing is lost to the child.
 *
 * Of each kind there are eight gates side by side, and a thread takes one that is free, so that threads wait for each other
 * only where eight are inside already. A thread is in one of a kind at most: while a fork waits, nobody else comes in. */
#ifndef GATE_H
#define GATE_H

#include "os/lock.h"

/* Where each stands among the locks, docs/DESIGN.md says (The order of locks). */
typedef enum gate_kind {
  GATE_LIFE,   /* heaps and object pools come and go */
  GATE_ARRAYS, /* an array of an object pool leaves */
  GATE_ENDS,   /* a thread that ends gives back what it has of the default heap */
  GATE_HEADED, /* a block with a head comes back, or leaves the quarantine */
  GATE_LARGE,  /* a large block, what it is charged, its place in a list, the figures */
  GATE_SYSTEM, /* units and ranges that are in no list while the system is asked */
  GATE_KINDS
} gate_kind_t;

/* Returns the gate that the thread is in. NULL: the process has one thread, and no other begins while it is inside. */
lock_t *gate_enter_beside_others(gate_kind_t kind);
static inline lock_t *gate_enter(gate_kind_t kind)
{
  return !HAS_SYSTEM || os_single_threaded() ? NULL : gate_enter_beside_others(kind);
}
static inline void gate_leave(lock_t *gate)
{
  if (HAS_SYSTEM && gate)
    lock_release(gate);
}

/* These are for fork(), and for a walk, which waits for threads that end. gate_close() waits for the threads inside, and for
 * none that comes later. `open` is lock_release, or lock_reset in the child, where no other thread is. */
void gate_close(gate_kind_t kind);
void gate_open(gate_kind_t kind, void (*open)(lock_t *));

/* Its locks in the order in which they are closed. */
void gate_each(gate_kind_t kind, void (*act)(lock_t *));

#endif
