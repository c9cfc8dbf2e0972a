/* SPDX-License-Identifier: MIT
 *
 * A fork copies memory at an arbitrary moment of the other threads. A call that changes several records without a common lock
 * is inside a gate from before the first change until the records agree again. A fork closes the gate first, so it finds each
 * such call finished or not begun, and nothing is lost to the child.
 *
 * Each kind has eight gates, and a thread takes a free one, so threads only wait for each other if eight are inside. A thread
 * enters at most one gate of a kind, because a waiting fork lets no other thread in. */
#ifndef GATE_H
#define GATE_H

#include "os/lock.h"

/* docs/DESIGN.md (The order of locks) has the place of each in the order of locks. */
typedef enum gate_kind {
  GATE_LIFE,   /* creation and destruction of heaps and object pools */
  GATE_ARRAYS, /* an array of an object pool is removed */
  GATE_ENDS,   /* an exiting thread returns its memory of the default heap */
  GATE_HEADED, /* a block with a head is freed, or leaves the quarantine */
  GATE_LARGE,  /* a large block: its charge, its place in a list, the figures */
  GATE_SYSTEM, /* units and ranges that are in no list during a system call */
  GATE_KINDS
} gate_kind_t;

/* Returns the gate that the thread is in. NULL means that the process has one thread, and no other starts meanwhile. */
lock_t *gate_enter_beside_others(gate_kind_t kind);
static inline lock_t *gate_enter(gate_kind_t kind) { return os_single_threaded() ? NULL : gate_enter_beside_others(kind); }
static inline void gate_leave(lock_t *gate)
{
  if (gate)
    lock_release(gate);
}

/* Keeps the thread inside a gate until the block ends in which this stands. */
#define INSIDE_GATE(kind) __attribute__((cleanup(gate_leave_scope), unused)) lock_t *inside_gate = gate_enter(kind)
static inline void gate_leave_scope(lock_t *const *gate) { gate_leave(*gate); }

/* For fork(), and for a walk, which waits for exiting threads. gate_close() waits for the threads inside, but not for later
 * ones. `open` is lock_release, or lock_reset in the child, which has no other threads. */
void gate_close(gate_kind_t kind);
void gate_open(gate_kind_t kind, void (*open)(lock_t *));

void gate_each(gate_kind_t kind, void (*act)(lock_t *));

#endif
