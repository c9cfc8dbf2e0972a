/* SPDX-License-Identifier: MIT
 * A gate is a lock. A thread is inside while it holds one of the eight gates of its kind. Closing a kind takes all eight. */
#include "space/gate.h"

enum { GATES = 8, STACK_DISTANCE_LOG2 = 18 }; /* the stacks of most threads are further apart than 256 KiB */

typedef struct gate {
  _Alignas(64) lock_t lock;
} gate_t;
static gate_t gates[GATE_KINDS][GATES];

/* Locks are not fair. A fork that competes with repeatedly entering threads would wait for seconds at each gate, while it holds
 * the gates before. So newcomers wait in the queue of a kind as soon as a fork begins to close it. */
static gate_t queues[GATE_KINDS];
static uint32_t closing[GATE_KINDS]; /* forks that close the kind, or wait for one that does */

static lock_t *gate_at(gate_kind_t kind, size_t i) { return &gates[kind][i % GATES].lock; }

/* The stack's address chooses the first gate, so most threads begin at different ones. The queue only delays them in a fork. */
lock_t *gate_enter_beside_others(gate_kind_t kind)
{
  if (unlikely(__atomic_load_n(&closing[kind], __ATOMIC_RELAXED))) {
    lock_acquire(&queues[kind].lock);
    lock_release(&queues[kind].lock);
  }
  size_t own = ((uintptr_t)&kind >> STACK_DISTANCE_LOG2) * 0x9e3779b97f4a7c15u >> 61;
  /* A thread may be inside while the system maps gigabytes. Other threads do not wait for it while another gate is free. */
  for (size_t i = own; i < own + GATES; i++)
    if (lock_attempt(gate_at(kind, i)))
      return gate_at(kind, i);
  lock_acquire(gate_at(kind, own));
  return gate_at(kind, own);
}

void gate_close(gate_kind_t kind)
{
  __atomic_fetch_add(&closing[kind], 1, __ATOMIC_RELAXED);
  gate_each(kind, lock_acquire);
}

/* Other threads that fork at the same moment exist only in the parent. In the child nothing closes the gates any more. */
void gate_open(gate_kind_t kind, void (*open)(lock_t *))
{
  if (open == lock_reset)
    __atomic_store_n(&closing[kind], 0, __ATOMIC_RELAXED); /* the other forking threads do not exist in this process */
  else
    __atomic_fetch_sub(&closing[kind], 1, __ATOMIC_RELAXED);
  for (size_t i = 0; i < GATES; i++)
    open(gate_at(kind, i));
  open(&queues[kind].lock);
}

/* The queue comes first, so that no thread enters a gate behind the one that is being closed. */
void gate_each(gate_kind_t kind, void (*act)(lock_t *))
{
  act(&queues[kind].lock);
  for (size_t i = 0; i < GATES; i++)
    act(gate_at(kind, i));
}
