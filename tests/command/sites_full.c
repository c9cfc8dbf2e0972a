/* SPDX-License-Identifier: MIT
 * The recorder's table of stacks and modules, which fills up: what comes then has no number, and is not looked for without end.
 */
#include "../../tools/record/recorder.h"
#include "debug/system.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 1 << 20 };

/* What recorder.c and the library have. Nothing is written. */
__thread self_t self;
void *take_memory(size_t bytes) { return calloc(1, bytes); }
bool stream_has_room(size_t bytes) { return (void)bytes, false; }
void os_load_stacks(void) {}
void os_take_stack_at(const void *const *frame, const void *from, os_stack_t *stack)
{
  (void)frame, (void)from, stack->count = 0;
}

/* With each unloaded module all that are left enter it anew, as the stacks do. */
int main(void)
{
  unsigned known = 0, unknown = 0;
  alarm(600);
  if (!sites_begin(1))
    return 2;
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t number = site_of_caller((const char *)(uintptr_t)main + 1);
    *(number ? &known : &unknown) += 1;
    if (number && unknown) /* there is no room again once there was none */
      return 1;
    sites_forget_modules();
  }
  printf("%u stacks had a number, %u had none\n", known, unknown);
  return !(known > 100000 && unknown > 1000);
}
