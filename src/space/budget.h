/* SPDX-License-Identifier: MIT
 *
 * A budget counts held bytes and refuses charges that would exceed its limit or that of an ancestor. A charge takes the locks
 * of all levels, the innermost first, and then counts at all of them or at none. So held <= limit always, and a refused charge
 * never makes another one fail. There is one charge for each slab, not for each block.
 *
 * Order: the counts publish nothing, because memory is handed over under other locks. So figures are read without the lock,
 * relaxed. A parent outlives its children. */
#ifndef BUDGET_H
#define BUDGET_H

#include "base/bits.h"
#include "os/lock.h"

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

#endif
