/* SPDX-License-Identifier: MIT
 * Threads that take slow paths purge in steps. A step budget tells how many steps a caller makes: one, or one for each STEP_MS
 * since the last caller. So frequent callers pay little, and a program that seldom calls still returns memory in time. */
#ifndef STEP_BUDGET_H
#define STEP_BUDGET_H

#include "base/bits.h"

enum { STEP_MS = 4, STEPS_MOST = 128 };

/* Time of the last caller; 0 before the first. */
typedef uint64_t step_budget_t;

/* Returns the caller's number of steps. Threads may arrive out of order: a step more or fewer is harmless. */
static inline size_t step_budget_take(step_budget_t *budget, uint64_t now_ms)
{
  uint64_t last = __atomic_load_n(budget, __ATOMIC_RELAXED), since = last && now_ms > last ? now_ms - last : 0;
  if (now_ms != last)
    __atomic_store_n(budget, now_ms, __ATOMIC_RELAXED);
  return max_size(min_size(since / STEP_MS, STEPS_MOST), 1);
}

#endif
