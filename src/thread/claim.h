/* SPDX-License-Identifier: MIT
 *
 * Claims: a thread empties the caches of others, whatever their owners do. The owners execute no fence for it.
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
 * tests/models/claim.pml is a model of this. The users are heaps, whose slots are in the threads (thread/caches.h), and object
 * pools, each of which has one slot for all threads (object_pool/cache.h). */
#ifndef CLAIM_H
#define CLAIM_H

#include "os/lock.h"

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
