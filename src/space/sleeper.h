/* SPDX-License-Identifier: MIT
 *
 * The thread that returns memory (heap/helper_threads.h) sleeps while there is nothing to return. Every change that makes
 * something returnable checks for it, on paths that take a lock anyway: units that become free, a bin that becomes due, the
 * first blocks in a cache within reach.
 *
 * The sleeper sets `waits`, sleeps for an epoch, and checks once more before it sleeps without a timeout. So a thread that does
 * not see `waits` yet has made its change long before that check. */
#ifndef SLEEPER_H
#define SLEEPER_H

#include "os/os.h"

typedef struct sleeper {
  uint32_t waits; /* it sleeps until it is woken, or is about to */
  uint32_t word;  /* the futex; counts wake-ups */
} sleeper_t;
extern INTERNAL sleeper_t sleeper;

COLD void sleeper_wake(void);
static inline void sleeper_note(void)
{
  if (unlikely(__atomic_load_n(&sleeper.waits, __ATOMIC_RELAXED)))
    sleeper_wake();
}

#endif
