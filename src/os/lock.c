/* SPDX-License-Identifier: MIT
 * The slow paths of locks, and closures. */
#include "os/lock.h"

/* ---- lock ---- */

enum {
  SPINS = 40,     /* about 2 us: a slow path under a bin's lock takes less than 1 us */
  LAST_WAITS = 3, /* waits of LONG_US by a thread that is about to end the process */
  LONG_US = 10000
};

THREAD_LOCAL bool lock_may_be_own;

/* Returns whether a thread that is about to end the process continues without the lock, which it may hold itself. */
static bool stop_waiting(unsigned waits)
{
  static bool given_up; /* later waits give up at once: the thread may meet the lock many times */
  if (!lock_may_be_own || (waits < LAST_WAITS && !__atomic_load_n(&given_up, __ATOMIC_RELAXED)))
    return false;
  __atomic_store_n(&given_up, true, __ATOMIC_RELAXED);
  return true;
}

/* Sleepers wait until they are woken; only a thread that ends the process has a timeout. If thousands of sleepers had one, the
 * holder would hardly run. The lock is then taken as 2, not 1, because there may be other sleepers. */
COLD void lock_wait(lock_t *lock)
{
  for (int i = 0; i < SPINS; i++) {
    if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && lock_try(lock))
      return;
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
  }
  for (unsigned waits = 0; __atomic_exchange_n(&lock->word, 2, __ATOMIC_SEQ_CST) != 0 && !stop_waiting(waits); waits++)
    os_wait(&lock->word, 2, lock_may_be_own ? LONG_US : 0);
}

/* ---- closure ----
 *
 * A fork holds the queue of a kind while the kind is closed. A thread that finds the kind closed passes through the queue, so
 * it sleeps until the fork is over. */

/* Every slow path reads it, so it has a cache line without writes. */
_Alignas(64) bool closure_closed[LOCK_KINDS];

static struct {
  _Alignas(64) lock_t lock;
} queues[LOCK_KINDS];

lock_t *closure_queue(lock_kind_t kind) { return &queues[kind].lock; }

static bool is_closed(lock_kind_t kind) { return __atomic_load_n(&closure_closed[kind], __ATOMIC_SEQ_CST); }

/* A thread that ends the process does not wait for long, because it may wait for itself. */
COLD void closure_wait(lock_kind_t kind, lock_t *lock)
{
  do {
    lock_release(lock);
    lock_acquire(closure_queue(kind));
    lock_release(closure_queue(kind));
    lock_acquire(lock);
  } while (is_closed(kind) && !lock_may_be_own);
}

void closure_close(lock_kind_t kind)
{
  lock_acquire(closure_queue(kind));
  __atomic_store_n(&closure_closed[kind], true, __ATOMIC_SEQ_CST);
}

/* Taking the lock once is enough: the next holder sees that the kind is closed. */
void closure_pass(lock_t *lock)
{
  if (!__atomic_load_n(&lock->word, __ATOMIC_SEQ_CST))
    return;
  lock_acquire(lock);
  lock_release(lock);
}

void closure_open(lock_kind_t kind, void (*open)(lock_t *))
{
  __atomic_store_n(&closure_closed[kind], false, __ATOMIC_SEQ_CST);
  open(closure_queue(kind));
}
