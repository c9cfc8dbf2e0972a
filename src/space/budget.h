/* SPDX-License-Identifier: MIT
 *
 * A budget counts held bytes and refuses charges that would exceed its limit or that of an ancestor. A charge takes the locks
 * of all levels, the innermost first, and then counts at all of them or at none. So held <= limit always, and a refused charge
 * never makes another one fail. There is one charge for each slab, not for each block.
 *
 * Order: the counts publish nothing, because memory is handed over under other locks. So figures are read without the lock,
 * relaxed. A parent outlives its children. */
#ifndef SPACE_BUDGET_H
#define SPACE_BUDGET_H

#include "base/bits.h"
#include "base/machine.h"
#include "os/lock.h"
#include "os/os.h"

typedef struct budget {
  lock_t lock;
  size_t limit; /* bytes; 0: none */
  size_t held, peak;
  size_t below; /* the part of `held` that is charged to children */
  struct budget *parent;
} budget_t;

bool budget_charge(budget_t *budget, size_t bytes);
/* Returns the innermost level that would refuse a charge now, or NULL. This may change the next moment. */
const budget_t *budget_that_refuses(budget_t *budget, size_t bytes);
/* Returns the largest charge that would succeed now. */
size_t budget_room(budget_t *budget);
void budget_discharge(budget_t *budget, size_t bytes);

/* Called when charged bytes have become memory, which counts for the peak, here and in all ancestors. */
void budget_note_peak(budget_t *budget);

/* Sets the limit; 0 means none. If `held` and `beside` together exceed it, it returns false and changes nothing. */
bool budget_set_limit(budget_t *budget, size_t limit, size_t beside);

static inline size_t budget_held(const budget_t *budget) { return __atomic_load_n(&budget->held, __ATOMIC_RELAXED); }
static inline size_t budget_below(const budget_t *budget) { return __atomic_load_n(&budget->below, __ATOMIC_RELAXED); }
static inline size_t budget_peak(const budget_t *budget) { return __atomic_load_n(&budget->peak, __ATOMIC_RELAXED); }
static inline size_t budget_limit(const budget_t *budget) { return __atomic_load_n(&budget->limit, __ATOMIC_RELAXED); }

/* ---- refusals ----
 *
 * A process that lives at its limit needs memory at every few requests, and the system refuses it each time. So each thread
 * remembers the smallest size that it was refused, and mapping as much fails without a system call. All threads forget when any
 * thread unmaps something, and every 64th such attempt makes the call.
 *
 * The program may have unmapped memory of its own, or raised its limit. So no request fails because of what is remembered: the
 * last attempt forgets it and makes one system call (heap/exhausted.c, heap/reallocate.c). Each thread remembers for itself, so
 * refusals of other threads do not affect that call. */

/* os_map_at(), or OS_NO_MEMORY without a system call if the thread was refused as much. */
os_mapped_t refusals_map_at(void *address, size_t size);

/* The process's space was searched in vain for a run, and has counted `changes` so far. refusals_answer() returns whether
 * another search would fail too: for no shorter run, without a change since, and the system would refuse as much. */
extern INTERNAL THREAD_LOCAL uint8_t refusals_searched; /* units of it; 0: more than 255, or none since the thread forgot */
void refusals_note_search(size_t units, uint64_t changes);
bool refusals_answer_search(size_t units, uint64_t changes);
static inline bool refusals_answer(size_t units, uint64_t changes)
{
  return unlikely(refusals_searched) && refusals_answer_search(units, changes);
}

/* os_unmap(). If it succeeds, nothing is remembered in any thread. refusals_note_unmap() is for memory that goes otherwise. */
bool refusals_unmap(void *address, size_t size);
void refusals_note_unmap(void);

/* Returns whether an attempt of the thread was refused without a system call since it forgot last. */
bool refusals_have_answered(void);

/* Call it before an attempt that must not fail in vain. */
void refusals_forget(void);

#endif
