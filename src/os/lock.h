/* SPDX-License-Identifier: MIT
 * How threads wait for one another: locks of one word, closures and gates for forks, claims of caches, and the sleeper. */
#ifndef OS_LOCK_H
#define OS_LOCK_H

#include "base/bits.h"
#include "base/machine.h"
#include "os/os.h"

/* ---- locks ----
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

/* ---- closures ----
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

/* ---- gates ----
 *
 * A fork copies memory at an arbitrary moment of the other threads. A call that changes several records without a common lock
 * is inside a gate from before the first change until the records agree again. A fork closes the gate first, so it finds each
 * such call finished or not begun, and nothing is lost to the child.
 *
 * Each kind has eight gates, and a thread takes a free one, so threads only wait for each other if eight are inside. A thread
 * enters at most one gate of a kind, because a waiting fork lets no other thread in. */

/* docs/DESIGN.md (The order of locks) has the place of each in the order of locks. */
typedef enum gate_kind {
  GATE_LIFE,   /* creation and destruction of heaps and object pools */
  GATE_ARRAYS, /* an array of an object pool is removed */
  GATE_ENDS,   /* an exiting thread returns its memory of the default heap */
  GATE_HEADED, /* a block with a head is freed, or leaves the quarantine */
  GATE_LARGE,  /* a large block: its charge, its place in a list, the figures */
  GATE_SYSTEM, /* units and ranges that are in no list during a system call */
  GATE_KINDS
} gate_kind_t;

/* Returns the gate that the thread is in. NULL means that the process has one thread, and no other starts meanwhile. */
lock_t *gate_enter_beside_others(gate_kind_t kind);
static inline lock_t *gate_enter(gate_kind_t kind) { return os_single_threaded() ? NULL : gate_enter_beside_others(kind); }
static inline void gate_leave(lock_t *gate)
{
  if (gate)
    lock_release(gate);
}

/* Keeps the thread inside a gate until the block ends in which this stands. */
#define INSIDE_GATE(kind) __attribute__((cleanup(gate_leave_scope), unused)) lock_t *inside_gate = gate_enter(kind)
static inline void gate_leave_scope(lock_t *const *gate) { gate_leave(*gate); }

/* For fork(), and for a walk, which waits for exiting threads. gate_close() waits for the threads inside, but not for later
 * ones. `open` is lock_release, or lock_reset in the child, which has no other threads. */
void gate_close(gate_kind_t kind);
void gate_open(gate_kind_t kind, void (*open)(lock_t *));

void gate_each(gate_kind_t kind, void (*act)(lock_t *));

/* ---- sleeper ----
 *
 * The thread that returns memory (heap/tick.h) sleeps while there is nothing to return. Every change that makes
 * something returnable checks for it, on paths that take a lock anyway: units that become free, a bin that becomes due, the
 * first blocks in a cache within reach.
 *
 * The sleeper sets `waits`, sleeps for an epoch, and checks once more before it sleeps without a timeout. So a thread that does
 * not see `waits` yet has made its change long before that check. */

typedef struct sleeper {
  uint32_t waits; /* it sleeps until it is woken, or is about to */
  uint32_t word;  /* the futex; counts wake-ups */
} sleeper_t;
extern INTERNAL sleeper_t sleeper;

COLD void sleeper_wake(void);
static inline void sleeper_note(void)
{
  if (unlikely(__atomic_load_n(&sleeper.waits, __ATOMIC_RELAXED)))
    sleeper_wake();
}

/* ---- claims ----
 *
 * A thread empties the caches of others, whatever their owners do. The owners execute no fence for it.
 *
 * An owner finds its cache by a slot. It declares itself busy before it checks the slot:
 *
 *     owner                                        claiming thread, under a lock
 *     busy = true                                  the slots of all caches in question are empty
 *     is the slot full?                            a fence in every thread (os_fence_others)
 *       use the cache                              wait until the owner is not busy
 *     busy = false, with release                   flush the cache
 *
 * Either the owner's check comes after the fence and finds the slot empty, or its `busy` came before the fence and is seen. An
 * owner that finds its slot empty takes a slow path. It may also become busy under the lock, and then needs no check. A slot
 * is filled again only when the claim is over. (D. Dice, H. Huang, M. Yang, "Asymmetric Dekker synchronization", 2001.)
 *
 * An owner can be busy for long if a signal handler interrupted it and waits for the claiming thread. So the wait has a limit.
 * A cache whose owner stays busy, or any cache if there is no fence, keeps its contents.
 *
 * tests/models/claim.pml is a model of this. The users are heaps, whose slots are in the threads (thread/thread.h), and object
 * pools, each of which has one slot for all threads (object_pool/cache.h). */

/* The thread sanitizer does not know the fence, so it sees a stronger order. */
#ifdef UNDER_SANITIZER
#define CLAIM_ORDER __ATOMIC_SEQ_CST
#else
#define CLAIM_ORDER __ATOMIC_RELAXED
#endif

/* The owner's half. `busy` covers one cache or several of the thread. */
static inline void claim_set_busy(bool *busy)
{
  __atomic_store_n(busy, true, CLAIM_ORDER);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void claim_clear_busy(bool *busy) { __atomic_store_n(busy, false, __ATOMIC_RELEASE); }

/* A cache whose slot is empty, in a list of those that a thread claims. */
typedef struct claim {
  struct claim *next;
  const bool *busy;
} claim_t;

static inline void claim_push(claim_t **claims, claim_t *claim, const bool *busy)
{
  *claim = (claim_t){*claims, busy};
  *claims = claim;
}

/* Returns those claims whose owners are not in their caches. Waits for each owner by spinning and naps, 20 ms at most, and then
 * sleeps up to `sleeps` times for 10 ms. */
COLD claim_t *claims_settle(claim_t *claims, unsigned sleeps);

#endif
