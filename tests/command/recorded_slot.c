/* SPDX-License-Identifier: MIT
 *
 * A malloc with one block of SLOT_BYTES, for which a thread waits that does not get it. realloc() to nothing frees it, and is
 * over some time after another thread has it and its malloc() has returned: what is recorded after it is too late, by more than
 * who reads recordings takes for a difference between processors' clocks. */
#include "recorded_slot.h"
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

volatile int slot_was_handed_on;

static char slot[SLOT_BYTES] __attribute__((aligned(16)));
static int is_taken;

/* Not by a name of the C library's own, which the recorder has, too. */
static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

void *malloc(size_t size)
{
  if (size != SLOT_BYTES)
    return ((void *(*)(size_t))next("malloc"))(size);
  while (__atomic_exchange_n(&is_taken, 1, __ATOMIC_ACQUIRE))
    sched_yield();
  return slot;
}

void *realloc(void *block, size_t size)
{
  if (block != slot)
    return ((void *(*)(void *, size_t))next("realloc"))(block, size);
  __atomic_store_n(&is_taken, 0, __ATOMIC_RELEASE);
  while (!slot_was_handed_on)
    sched_yield();
  usleep(20000);
  return NULL;
}
