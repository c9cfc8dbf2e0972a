/* SPDX-License-Identifier: MIT */
#include "space/gate.h"

enum { GATES = 8, STACK_DISTANCE_LOG2 = 18 };   /* the stacks of two threads are further apart than that, mostly */

typedef struct gate { _Alignas(64) lock_t lock; } gate_t;
static gate_t gates[GATE_KINDS][GATES];

lock_t *gate_enter_beside_others(gate_kind_t kind)
{
  lock_t *gate = &gates[kind][((uintptr_t)&gate >> STACK_DISTANCE_LOG2) * 0x9e3779b97f4a7c15u >> 61].lock;
  lock_acquire(gate);
  return gate;
}

void gate_close(gate_kind_t kind) { gate_each(kind, lock_acquire); }

void gate_each(gate_kind_t kind, void (*act)(lock_t *))
{
  for (unsigned i = 0; i < GATES; i++)
    act(&gates[kind][i].lock);
}
