/* SPDX-License-Identifier: MIT
 * A stack is taken in each of the ways that there are, and is the same. */
#ifndef STACKS_H
#define STACKS_H

#include "os/os.h"
#include "unit.h"

/* The compiler must not see through the calls, nor make jumps of them. */
#define OPAQUE __attribute__((noinline))

/* By what is known of the thread's stacks, from this function on and from the one that returns to `from`. */
static inline void must_be_same_of_own(const os_stack_t *expected, const void *from, const void *const *frame)
{
  static _Thread_local os_own_stack_t own[2];
  os_stack_t again = {.most = expected->most};
  for (int i = 0; i < 2; i++) {
    own[i].frame = i ? frame : NULL;
    os_take_stack_of(&own[i], from, &again);
    must(again.count == expected->count && !memcmp(again.frames, expected->frames, again.count * sizeof *again.frames));
  }
}

#endif
