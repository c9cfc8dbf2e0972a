/* SPDX-License-Identifier: MIT
 *
 * A fork holds the queue of a kind while that is closed. Whoever finds it closed passes through the queue, and so sleeps until
 * the fork is over. */
#include "os/closure.h"

/* Every slow path reads it, so it is in a line where nothing else is written. */
_Alignas(64) bool closure_closed[LOCK_KINDS];

static struct {
  _Alignas(64) lock_t lock;
} queues[LOCK_KINDS];

lock_t *closure_queue(lock_kind_t kind) { return &queues[kind].lock; }

static bool is_closed(lock_kind_t kind) { return __atomic_load_n(&closure_closed[kind], __ATOMIC_SEQ_CST); }

/* A thread that ends the process does not wait for long, for itself may be what it waits for. */
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

/* To have had the lock is enough: whoever has it next sees that the kind is closed. */
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
