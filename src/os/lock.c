/* SPDX-License-Identifier: MIT
 * The slow paths of locks, closures, gates and the sleeper. */
#include "os/lock.h"

/* ---- locks ---- */

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

/* ---- closures ----
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

/* ---- gates ----
 *
 * A gate is a lock. A thread is inside while it holds one of the eight gates of its kind. Closing a kind takes all eight. */

enum { GATES = 8, STACK_DISTANCE_LOG2 = 18 }; /* the stacks of most threads are further apart than 256 KiB */

typedef struct gate {
  _Alignas(64) lock_t lock;
} gate_t;
static gate_t gates[GATE_KINDS][GATES];

/* Locks are not fair. A fork that competes with repeatedly entering threads would wait for seconds at each gate, while it holds
 * the gates before. So newcomers wait in the queue of a kind as soon as a fork begins to close it. */
static gate_t gate_queues[GATE_KINDS];
static uint32_t closing[GATE_KINDS]; /* forks that close the kind, or wait for one that does */

static lock_t *gate_at(gate_kind_t kind, size_t i) { return &gates[kind][i % GATES].lock; }

/* The stack's address chooses the first gate, so most threads begin at different ones. The queue only delays them in a fork. */
lock_t *gate_enter_beside_others(gate_kind_t kind)
{
  if (unlikely(__atomic_load_n(&closing[kind], __ATOMIC_RELAXED))) {
    lock_acquire(&gate_queues[kind].lock);
    lock_release(&gate_queues[kind].lock);
  }
  size_t own = ((uintptr_t)&kind >> STACK_DISTANCE_LOG2) * 0x9e3779b97f4a7c15u >> 61;
  /* A thread may be inside while the system maps gigabytes. Other threads do not wait for it while another gate is free. */
  for (size_t i = own; i < own + GATES; i++)
    if (lock_attempt(gate_at(kind, i)))
      return gate_at(kind, i);
  lock_acquire(gate_at(kind, own));
  return gate_at(kind, own);
}

void gate_close(gate_kind_t kind)
{
  __atomic_fetch_add(&closing[kind], 1, __ATOMIC_RELAXED);
  gate_each(kind, lock_acquire);
}

/* Other threads that fork at the same moment exist only in the parent. In the child nothing closes the gates any more. */
void gate_open(gate_kind_t kind, void (*open)(lock_t *))
{
  if (open == lock_reset)
    __atomic_store_n(&closing[kind], 0, __ATOMIC_RELAXED); /* the other forking threads do not exist in this process */
  else
    __atomic_fetch_sub(&closing[kind], 1, __ATOMIC_RELAXED);
  for (size_t i = 0; i < GATES; i++)
    open(gate_at(kind, i));
  open(&gate_queues[kind].lock);
}

/* The queue comes first, so that no thread enters a gate behind the one that is being closed. */
void gate_each(gate_kind_t kind, void (*act)(lock_t *))
{
  act(&gate_queues[kind].lock);
  for (size_t i = 0; i < GATES; i++)
    act(gate_at(kind, i));
}

/* ---- sleeper ---- */

sleeper_t sleeper;

/* Only one of several simultaneous callers wakes it. */
COLD void sleeper_wake(void)
{
  __atomic_store_n(&sleeper.waits, 0, __ATOMIC_RELAXED);
  __atomic_add_fetch(&sleeper.word, 1, __ATOMIC_RELEASE);
  os_wake(&sleeper.word);
}

/* ---- claims ----
 *
 * The claiming thread waits for the owners. */

enum {
  CLAIM_SPINS = 20, /* reads of `busy` without a nap */
  NAPS = 200,       /* reads with a nap of about 100 us before each */
  SLEEP_US = 10000
};

/* The owner is busy for a few instructions, or while it waits for a lock. */
static bool owner_comes_out(const bool *busy, unsigned sleeps)
{
  uint32_t nothing = 0;
  for (unsigned i = 0; i < CLAIM_SPINS + NAPS + sleeps; i++) {
    if (!__atomic_load_n(busy, __ATOMIC_ACQUIRE))
      return true;
    if (i >= CLAIM_SPINS + NAPS)
      os_wait(&nothing, 0, SLEEP_US);
    else if (i >= CLAIM_SPINS)
      os_nap();
  }
  return false;
}

/* One fence serves all claims. Without it, no owner is known to be out. */
claim_t *claims_settle(claim_t *claims, unsigned sleeps)
{
  claim_t *settled = NULL;
  if (!claims || !os_fence_others())
    return NULL;
  for (claim_t *claim = claims, *next; claim; claim = next) {
    next = claim->next;
    if (owner_comes_out(claim->busy, sleeps))
      claim_push(&settled, claim, claim->busy);
  }
  return settled;
}
