/* SPDX-License-Identifier: MIT
 *
 * The thread that returns memory (heap/background.h) sleeps while there is nothing to return. Whatever makes something
 * returnable looks here, on paths that take a lock anyway: units that become free, a bin that becomes due, the first blocks in
 * a cache that can be reached.
 *
 * The sleeper says that it waits, sleeps for an epoch, and looks once more before it sleeps without an end. So whoever does not
 * see yet that it waits has made its change long before that look. */
#ifndef SLEEPER_H
#define SLEEPER_H

#include "os/os.h"

typedef struct sleeper {
  uint32_t waits; /* it sleeps until it is woken, or is about to */
  uint32_t word;  /* that it sleeps at: how often it was woken */
} sleeper_t;
extern INTERNAL sleeper_t sleeper;

COLD void sleeper_wake(void);
static inline void sleeper_note(void)
{
  if (HAS_SYSTEM && unlikely(__atomic_load_n(&sleeper.waits, __ATOMIC_RELAXED)))
    sleeper_wake();
}

#endif
