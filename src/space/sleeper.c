/* SPDX-License-Identifier: MIT */
#include "space/sleeper.h"

sleeper_t sleeper;

/* Only one of several simultaneous callers wakes it. */
COLD void sleeper_wake(void)
{
  __atomic_store_n(&sleeper.waits, 0, __ATOMIC_RELAXED);
  __atomic_add_fetch(&sleeper.word, 1, __ATOMIC_RELEASE);
  os_wake(&sleeper.word);
}
