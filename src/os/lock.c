/* SPDX-License-Identifier: MIT */
#include "os/lock.h"

enum {
  SPINS = 40,             /* some 2 us: a slow path under a bin's lock takes less than one */
  LAST_WAITS = 3          /* of up to 10 ms, of a thread that is about to end the process */
};

THREAD_LOCAL bool lock_may_be_own;

/* Nobody else opens what the thread itself holds. True: the wait is over, with the lock or without it. */
static bool stop_waiting(unsigned waits)
{
  static bool given_up;   /* once it has, it does so at once: it may meet the same lock many times */
  if (!lock_may_be_own || (waits < LAST_WAITS && !__atomic_load_n(&given_up, __ATOMIC_RELAXED)))
    return false;
  __atomic_store_n(&given_up, true, __ATOMIC_RELAXED);
  return true;
}

/* Nobody else wakes up by the clock: of thousands of sleepers so many would at any moment that the one who has the lock hardly ran. */
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
  for (unsigned waits = 0; __atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0 && !stop_waiting(waits); waits++)
    os_wait(&lock->word, 2, lock_may_be_own);
}
