/* SPDX-License-Identifier: MIT
 *
 * A budget counts the bytes that are held on its account and refuses what would exceed its limit, in itself and in every
 * ancestor: held <= limit at every instant, since each level is raised by a compare-and-swap that checks the sum, the
 * innermost first, and a refusal further up undoes the levels below before it returns.
 *
 * Order: relaxed. The counts publish nothing; the memory they stand for is handed over under locks. There is no ABA, only
 * a number. A parent outlives its children. */
#ifndef BUDGET_H
#define BUDGET_H

#include "base/bits.h"

typedef struct budget {
  size_t         limit;       /* bytes; 0: none */
  size_t         held, peak;
  struct budget *parent;
} budget_t;

bool budget_charge(budget_t *budget, size_t bytes);
void budget_discharge(budget_t *budget, size_t bytes);

/* What was charged has become memory: it counts for the peak, here and upward. */
void budget_note_peak(budget_t *budget);

static inline size_t budget_held(const budget_t *budget) { return __atomic_load_n(&budget->held, __ATOMIC_RELAXED); }

#endif
