/* SPDX-License-Identifier: MIT
 *
 * A lock of one word: 0 free, 1 held, 2 held with sleepers. A waiter spins a little, then sleeps, so that many threads on
 * few cores do not burn the time of the one that holds it. While the process has one thread the word is written without
 * a locked instruction; no second thread can start in between, because the only one is here.
 *
 * Order: lock_release stores with release, lock_acquire loads with acquire; everything a lock protects, and the contents
 * of blocks handed from thread to thread under it, is carried by that pair.
 *
 * A firmware has two functions of its own in place of all this (<tidepool/embedded.h>). */
#ifndef OS_LOCK_H
#define OS_LOCK_H

#include "base/bits.h"
#include "os/os.h"
#include "os/thread_local.h"

typedef struct lock {
  uint32_t word;
  bool solo; /* of a heap that only one thread uses */
} lock_t;

void lock_wait(lock_t *lock);

/* Set by a thread that is about to end the process, maybe in the middle of what it holds locks for. From then on it waits for a
 * lock only a moment, and then goes on without it. */
extern INTERNAL THREAD_LOCAL bool lock_may_be_own;

#ifdef TIDEPOOL_EMBEDDED
/* One lock stands for all, the firmware's, which nests; so none of them has a place in an order. */
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
 * If lock_try() returns false, the caller must call lock_wait(). If lock_open() returns true, it must call os_wake(). The order
 * is sequential for those who look at a second word once they have the lock (closure.h); it costs nothing more on x86. */
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

/* Takes the lock if it is free. Without other threads it may be held too: by a caller further up. */
static inline bool lock_attempt(lock_t *lock)
{
  if (!os_single_threaded() && !lock->solo)
    return lock_try(lock);
  bool free = !lock->word;
  lock->word = 1;
  return free;
}

#endif

/* Releases a lock that the holder takes again at once, and again and again. A thread that sleeps at the lock takes longer to
 * wake up than the lock is free, and would wait for the end of it all. So the holder naps if somebody may sleep there. */
static inline void lock_let_in(lock_t *lock)
{
  if (!HAS_SYSTEM || os_single_threaded() || lock->solo) {
    lock_release(lock);
  } else if (lock_open(lock)) {
    os_wake(&lock->word);
    os_nap();
  }
}

/* Waits until a flag is clear that another thread sets around some instructions, or while it waits for a lock: for a moment,
 * and then for so many sleeps of some milliseconds. False: it stays set. */
bool lock_flag_clears(const bool *flag, unsigned sleeps);

/* Opens a lock in the child of a fork. The threads that slept at it are not in this process, so nobody is woken. One that is
 * free is not written to: the system would copy its page. */
static inline void lock_reset(lock_t *lock)
{
  if (lock->word)
    lock->word = 0;
}

#endif
