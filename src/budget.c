/* SPDX-License-Identifier: MIT */
#include "budget.h"

static void raise_peak(budget_t *budget, size_t held)
{
  size_t peak = __atomic_load_n(&budget->peak, __ATOMIC_RELAXED);
  while (held > peak &&
         !__atomic_compare_exchange_n(&budget->peak, &peak, held, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

void budget_note_peak(budget_t *budget)
{
  for (; budget; budget = budget->parent)
    raise_peak(budget, budget_held(budget));
}

static bool charge_one(budget_t *budget, size_t bytes)
{
  size_t held = budget_held(budget), limit;
  do {
    limit = __atomic_load_n(&budget->limit, __ATOMIC_RELAXED);
    if (limit && (held > limit || bytes > limit - held))
      return false;
  } while (!__atomic_compare_exchange_n(&budget->held, &held, held + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return true;
}

bool budget_charge(budget_t *budget, size_t bytes)
{
  for (budget_t *b = budget; b; b = b->parent)
    if (!charge_one(b, bytes)) {
      for (budget_t *undo = budget; undo != b; undo = undo->parent)
        __atomic_fetch_sub(&undo->held, bytes, __ATOMIC_RELAXED);
      return false;
    }
  return true;
}

void budget_discharge(budget_t *budget, size_t bytes)
{
  for (budget_t *b = budget; b; b = b->parent)
    __atomic_fetch_sub(&b->held, bytes, __ATOMIC_RELAXED);
}
