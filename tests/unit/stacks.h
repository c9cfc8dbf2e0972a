/* SPDX-License-Identifier: MIT
 * A stack is taken in each of the ways that there are, and is the same. */
#ifndef STACKS_H
#define STACKS_H

#include "debug/system.h"
#include "unit.h"

/* The compiler must not see through the calls, nor make jumps of them. */
#define OPAQUE __attribute__((noinline))

/* From the frame of the function that returns to `from` on. */
static inline void must_be_same_at(const void *const *frame, const os_stack_t *expected, const void *from)
{
  os_stack_t again = {.most = expected->most};
  os_take_stack_at(frame, from, &again);
  must(again.count == expected->count && !memcmp(again.frames, expected->frames, again.count * sizeof *again.frames));
}

#endif
