/* SPDX-License-Identifier: MIT
 *
 * Locks of which there may be tens of thousands: one for each heap, bin, depot or budget. A fork does not take them. Each page
 * that a fork has written to is copied when the process writes to it again, and ten thousand heaps have thousands of pages with
 * a lock in them. So a fork closes all locks of a kind by one word, and only looks at each:
 *
 *     whoever acquires                              the fork
 *     the lock's word: 0 -> 1                       closed = true
 *     is its kind closed?                           is the lock's word 0?
 *       yes: release it, wait for the fork, again     no: acquire it and release it
 *
 * Both sides write first and read then, in sequential order. So either the one who acquires sees that the kind is closed, and
 * has changed nothing; or the fork sees that the lock is held, and waits. tests/models has a model of it.
 *
 * A thread that holds a lock of the kind may take a second one by lock_acquire(), as budgets do with their parents: the fork
 * waits for it at the first one, which it releases when all is done. */
#ifndef OS_CLOSURE_H
#define OS_CLOSURE_H

#include "os/lock.h"

typedef enum lock_kind { LOCKS_OF_HEAPS, LOCKS_OF_BINS, LOCKS_OF_DEPOTS, LOCKS_OF_BUDGETS, LOCK_KINDS } lock_kind_t;

extern INTERNAL bool closure_closed[LOCK_KINDS];

/* Releases the lock until its kind is open, and has it again. */
void closure_wait(lock_kind_t kind, lock_t *lock);

/* As lock_acquire(), for the locks of a kind. A lock of one thread is in no closure. Returns whether others may want the lock,
 * for closure_release(): lock_release() would find it out again. */
static inline bool closure_acquire(lock_kind_t kind, lock_t *lock)
{
  if (!HAS_SYSTEM) { /* and no forks */
    lock_acquire(lock);
    return true;
  }
  if (os_single_threaded() || lock->solo) {
    lock->word = 1;
    return false;
  }
  if (!lock_try(lock))
    lock_wait(lock);
  if (unlikely(__atomic_load_n(&closure_closed[kind], __ATOMIC_SEQ_CST)))
    closure_wait(kind, lock);
  return true;
}

static inline void closure_release(lock_t *lock, bool shared)
{
  if (!HAS_SYSTEM)
    lock_release(lock);
  else if (!shared)
    lock->word = 0;
  else if (lock_open(lock))
    os_wake(&lock->word);
}

/* These are for fork(), which closes a kind and then passes each of its locks. A lock that is passed stays free, but for
 * moments in which somebody looks at it as above. In the child these may be caught, so each lock is reset there. */
void closure_close(lock_kind_t kind);
void closure_pass(lock_t *lock);
void closure_open(lock_kind_t kind, void (*open)(lock_t *));

/* Its own lock, which a fork holds while the kind is closed. */
lock_t *closure_queue(lock_kind_t kind);

#endif
