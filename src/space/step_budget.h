/* SPDX-License-Identifier: MIT
 *
 * A purge is made in steps by the threads that take slow paths. A step budget says how many steps the caller makes: one, or one
 * for each STEP_MS since the last caller. So frequent callers pay little, and in a program that seldom calls memory is still
 * returned in time. */
#ifndef STEP_BUDGET_H
#define STEP_BUDGET_H

#include "base/bits.h"

enum { STEP_MS = 4, STEPS_MOST = 128 };

/* When the last caller came; 0: there was none yet. */
typedef uint64_t step_budget_t;

/* Returns how many steps the caller makes. Any thread may call this. Two threads may read the clock in one order and come here
 * in the other: a step more or fewer does no harm. */
static inline size_t step_budget_take(step_budget_t *budget, uint64_t now_ms)
{
  uint64_t last = __atomic_load_n(budget, __ATOMIC_RELAXED), since = last && now_ms > last ? now_ms - last : 0;
  if (now_ms != last)
    __atomic_store_n(budget, now_ms, __ATOMIC_RELAXED);
  return max_size(min_size(since / STEP_MS, STEPS_MOST), 1);
}

#endif
