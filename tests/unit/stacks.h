/* SPDX-License-Identifier: MIT
 * A stack is taken in each of the ways that there are, and is the same. */
#ifndef STACKS_H
#define STACKS_H

#include "os/os.h"
#include "unit.h"

/* The compiler must not see through the calls, nor make jumps of them. */
#define OPAQUE __attribute__((noinline))

/* By what the thread's last stack led to, whatever that was, from this function on and from the one that returns to `from`. */
static inline void must_be_same_after_last(const os_stack_t *expected, uint32_t modules, const void *from,
                                           const void *const *frame)
{
  static _Thread_local os_last_stack_t last[2];
  os_stack_t after = {.most = expected->most};
  for (int i = 0; i < 2; i++) {
    last[i].modules = modules;
    last[i].frame = i ? frame : NULL;
    os_take_stack_after(&last[i], from, &after);
    must(after.count == expected->count && !memcmp(after.frames, expected->frames, after.count * sizeof *after.frames));
  }
}

#endif
