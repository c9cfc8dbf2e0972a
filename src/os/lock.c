/* SPDX-License-Identifier: MIT */
#include "os/lock.h"

enum { SPINS = 40 };   /* some 2 us: a slow path under a pool's lock takes less than one */

COLD void lock_wait(lock_t *lock)
{
  for (int i = 0; i < SPINS; i++) {
    if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && lock_try(lock))
      return;
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
  }
  os_yield();
  while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
    os_wait(&lock->word, 2);
}
