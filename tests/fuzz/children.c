/* SPDX-License-Identifier: MIT
 *
 * Children of a fork, which go on with what there was. */
#include "check/check.h"
#include "operations.h"
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the other thread had cached is lost to the child and looks live there, so only this thread's own view is checked. */
static void live_on(void)
{
  model.is_child = true;
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block)
      verify(slot, slot->block, slot->size);
  for (unsigned n = byte() % 64, first = byte(), i = 0; i < n; i++)
    let_go(&model.slots[(first + i) % SLOTS]);
  for (unsigned n = byte() % 16, i = 0; i < n; i++) {
    take(i & 1 ? some_size() : some_large_size());
    take_zeroed(i & 1 ? some_size() & 0x1ffff : some_large_size());
  }
  for (unsigned n = 1; n < HEAPS; n++)
    if (model.heaps[n].heap && byte() & 1)
      destroy(n);
  pool_trim(0);
  must(check_everything());
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block)
      verify(slot, slot->block, slot->size);
}

void op_fork(void)
{
  if (model.is_child)
    return;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    live_on();
    _exit(0);
  }
  int status;
  must(waitpid(child, &status, 0) == child && status == 0);
  errno = 0;
}
