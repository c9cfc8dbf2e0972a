/* SPDX-License-Identifier: MIT
 * A lock of one word, and closures, by which a fork closes all locks of a kind at once. */
#ifndef LOCK_H
#define LOCK_H

#include "base/bits.h"
#include "os/os.h"
#include "os/thread_local.h"

/* ---- lock ----
 *
 * The word is 0 if the lock is free, 1 if held, 2 if held with sleepers. A waiter spins briefly and then sleeps, so that
 * waiting threads do not take the holder's processor time. While the process has one thread, the word is written without a
 * locked instruction: no second thread can start meanwhile, because the only one is here.
 *
 * Order: lock_release() stores with release, lock_acquire() loads with acquire. This pair publishes everything that a lock
 * protects, and the contents of blocks that pass between threads under it.
 *
 * Firmware replaces all this by two functions of its own (<tidepool/embedded.h>). */

typedef struct lock {
  uint32_t word;
  bool solo; /* the heap is used by only one thread */
} lock_t;

void lock_wait(lock_t *lock);

/* Set by a thread that is about to end the process, maybe while it holds locks. It then waits only briefly for a lock. */
extern INTERNAL THREAD_LOCAL bool lock_may_be_own;

#ifdef TIDEPOOL_EMBEDDED
/* The firmware's one lock stands for all. It nests, so there is no order of locks. */
static inline bool lock_try(lock_t *lock)
{
  if (!lock->solo)
    pool_embedded_lock();
  return true;
}
static inline bool lock_open(lock_t *lock)
{
  if (!lock->solo)
    pool_embedded_unlock();
  return false;
}
static inline void lock_acquire(lock_t *lock) { lock_try(lock); }
static inline void lock_release(lock_t *lock) { lock_open(lock); }
static inline bool lock_attempt(lock_t *lock) { return lock_try(lock); }
#else

/* Halves of lock_acquire() and lock_release(), for a caller that knows that the process has threads and the lock is not solo.
 * If lock_try() returns false, the caller must call lock_wait(). If lock_open() returns true, it must call os_wake().
 * lock_try() is sequentially consistent, at no cost on x86, for closures, which check a second word under the lock. */
static inline bool lock_try(lock_t *lock)
{
  uint32_t free = 0;
  return likely(__atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}
static inline bool lock_open(lock_t *lock) { return unlikely(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2); }

static inline void lock_acquire(lock_t *lock)
{
  if (os_single_threaded() || lock->solo)
    lock->word = 1;
  else if (!lock_try(lock))
    lock_wait(lock);
}

static inline void lock_release(lock_t *lock)
{
  if (os_single_threaded() || lock->solo)
    lock->word = 0;
  else if (lock_open(lock))
    os_wake(&lock->word);
}

/* Takes the lock, and returns whether it was free. In a single thread a caller further up may hold it; it then stays held. */
static inline bool lock_attempt(lock_t *lock)
{
  if (!os_single_threaded() && !lock->solo)
    return lock_try(lock);
  bool free = !lock->word;
  lock->word = 1;
  return free;
}

#endif

/* Holds a lock until the block ends in which this stands. */
#define LOCKED(lock) __attribute__((cleanup(lock_leave_scope), unused)) lock_t *locked = (lock_acquire(lock), (lock))
static inline void lock_leave_scope(lock_t *const *lock) { lock_release(*lock); }

/* Releases a lock that the holder will retake at once, many times. A sleeper takes longer to wake than the lock is free, and
 * could wait until the holder is done. So the holder naps if there may be a sleeper. */
static inline void lock_let_in(lock_t *lock)
{
  if (os_single_threaded() || lock->solo) {
    lock_release(lock);
  } else if (lock_open(lock)) {
    os_wake(&lock->word);
    os_nap();
  }
}

/* Opens a lock in the child of a fork, where no thread sleeps at it. A free lock is not written, which saves its page. */
static inline void lock_reset(lock_t *lock)
{
  if (lock->word)
    lock->word = 0;
}

/* ---- closure ----
 *
 * There may be tens of thousands of locks: one for each heap, bin, depot and budget. A fork does not take them all. That would
 * write to thousands of pages, and the kernel would copy each of them. Instead a fork closes all locks of a kind by one word,
 * and only reads each lock:
 *
 *     an acquiring thread                           the fork
 *     the lock's word: 0 -> 1                       closed = true
 *     is its kind closed?                           is the lock's word 0?
 *       yes: release it, wait for the fork, retry     no: acquire it and release it
 *
 * Each side writes before it reads, in sequentially consistent order. So either the acquiring thread sees that the kind is
 * closed, and has changed nothing, or the fork sees that the lock is held, and waits. tests/models has a model of this.
 *
 * A thread that holds a lock of a kind may take a second one of it by lock_acquire(), as budgets do with their parents. The
 * fork waits at the first lock, which is released last. */

typedef enum lock_kind { LOCKS_OF_HEAPS, LOCKS_OF_BINS, LOCKS_OF_DEPOTS, LOCKS_OF_BUDGETS, LOCK_KINDS } lock_kind_t;

extern INTERNAL bool closure_closed[LOCK_KINDS];

/* Releases the lock until its kind is open, and takes it again. */
void closure_wait(lock_kind_t kind, lock_t *lock);

#ifdef TIDEPOOL_EMBEDDED
static inline bool closure_acquire(lock_kind_t kind, lock_t *lock)
{
  (void)kind;
  lock_acquire(lock);
  return true;
}
static inline void closure_release(lock_t *lock, bool is_shared)
{
  (void)is_shared;
  lock_release(lock);
}
#else

/* Takes a lock of a kind. Returns whether other threads may want it, which saves closure_release() a test. */
static inline bool closure_acquire(lock_kind_t kind, lock_t *lock)
{
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

static inline void closure_release(lock_t *lock, bool is_shared)
{
  if (!is_shared)
    lock->word = 0;
  else if (lock_open(lock))
    os_wake(&lock->word);
}

#endif

/* These are for fork(), which closes a kind and then passes each of its locks. A passed lock stays free, except for moments in
 * which a thread tries it as above. A fork may catch such a moment, so the child resets each lock. */
void closure_close(lock_kind_t kind);
void closure_pass(lock_t *lock);
void closure_open(lock_kind_t kind, void (*open)(lock_t *));

/* Returns the lock that a fork holds while the kind is closed. */
lock_t *closure_queue(lock_kind_t kind);

#endif
