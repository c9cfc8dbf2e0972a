/* SPDX-License-Identifier: MIT
 *
 * A budget counts the bytes that are held on its account and refuses what would exceed its limit, in itself and in every
 * ancestor. A charge takes the locks of all levels, the innermost first, and then counts at all of them or at none; so
 * held <= limit at every instant, and nobody is refused for the sake of a charge that is refused itself. The locks are taken
 * by the slab, not by the block.
 *
 * Order: the counts publish nothing; the memory they stand for is handed over under other locks. So figures are read without
 * the lock, relaxed. A parent outlives its children. */
#ifndef BUDGET_H
#define BUDGET_H

#include "base/bits.h"
#include "os/lock.h"

typedef struct budget {
  lock_t lock;
  size_t limit; /* bytes; 0: none */
  size_t held, peak;
  size_t below; /* of what is held: on the account of budgets whose parent this is */
  struct budget *parent;
} budget_t;

bool budget_charge(budget_t *budget, size_t bytes);
/* Says whether it would be charged now. The answer may be out of date the next moment. */
bool budget_allows(budget_t *budget, size_t bytes);
/* Returns the most that would be charged now. */
size_t budget_room(budget_t *budget);
void budget_discharge(budget_t *budget, size_t bytes);

/* Called when what was charged has become memory, which counts for the peak, here and upward. */
void budget_note_peak(budget_t *budget);

/* False: more than that is held, together with `beside`, and nothing has changed. 0: no limit. */
bool budget_set_limit(budget_t *budget, size_t limit, size_t beside);

static inline size_t budget_held(const budget_t *budget) { return __atomic_load_n(&budget->held, __ATOMIC_RELAXED); }
static inline size_t budget_below(const budget_t *budget) { return __atomic_load_n(&budget->below, __ATOMIC_RELAXED); }
static inline size_t budget_peak(const budget_t *budget) { return __atomic_load_n(&budget->peak, __ATOMIC_RELAXED); }
static inline size_t budget_limit(const budget_t *budget) { return __atomic_load_n(&budget->limit, __ATOMIC_RELAXED); }

#endif
