/* SPDX-License-Identifier: MIT */
#include "space/sleeper.h"

sleeper_t sleeper;

/* One of those that come at once wakes it. */
COLD void sleeper_wake(void)
{
  __atomic_store_n(&sleeper.waits, 0, __ATOMIC_RELAXED);
  __atomic_add_fetch(&sleeper.word, 1, __ATOMIC_RELEASE);
  os_wake(&sleeper.word);
}
