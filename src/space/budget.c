/* SPDX-License-Identifier: MIT
 * Changes take the locks of all levels; reads take none. */
#include "space/budget.h"
#include "os/lock.h"

/* The innermost lock comes first, so charges cannot deadlock. A fork waits there (os/lock.h), so the others need no closure. */
static void acquire_all(budget_t *budget)
{
  if (!budget)
    return;
  closure_acquire(LOCKS_OF_BUDGETS, &budget->lock);
  while ((budget = budget->parent) != NULL)
    lock_acquire(&budget->lock);
}

static void release_all(budget_t *budget)
{
  for (; budget; budget = budget->parent)
    lock_release(&budget->lock);
}

/* Avoids overflow: the sum of held and requested bytes may exceed a word. */
static bool has_room(const budget_t *budget, size_t bytes)
{
  size_t held = budget_held(budget), limit = budget_limit(budget);
  return bytes <= SIZE_MAX - held && (!limit || held + bytes <= limit);
}

/* `bytes` counts modulo 2^64, so a discharge adds a negative number. The locks of all levels are held. */
static void add_held(budget_t *budget, size_t bytes)
{
  __atomic_store_n(&budget->held, budget->held + bytes, __ATOMIC_RELAXED);
  while ((budget = budget->parent) != NULL) {
    __atomic_store_n(&budget->held, budget->held + bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&budget->below, budget->below + bytes, __ATOMIC_RELAXED);
  }
}

/* A single level without room refuses the whole charge before anything is counted, so a refused charge never affects others. */
static const budget_t *level_without_room(const budget_t *budget, size_t bytes)
{
  while (budget && has_room(budget, bytes))
    budget = budget->parent;
  return budget;
}

bool budget_charge(budget_t *budget, size_t bytes)
{
  acquire_all(budget);
  bool room = !level_without_room(budget, bytes);
  if (room)
    add_held(budget, bytes);
  release_all(budget);
  return room;
}

const budget_t *budget_that_refuses(budget_t *budget, size_t bytes)
{
  acquire_all(budget);
  const budget_t *level = level_without_room(budget, bytes);
  release_all(budget);
  return level;
}

/* No subtraction is below 0, because held <= limit at every level while its lock is held. */
size_t budget_room(budget_t *budget)
{
  size_t room = SIZE_MAX;
  acquire_all(budget);
  for (const budget_t *level = budget; level; level = level->parent) {
    size_t held = budget_held(level), limit = budget_limit(level);
    room = min_size(room, (limit ? limit : SIZE_MAX) - held);
  }
  release_all(budget);
  return room;
}

void budget_discharge(budget_t *budget, size_t bytes)
{
  acquire_all(budget);
  add_held(budget, -bytes);
  release_all(budget);
}

/* A charge alone does not raise the peak, since the memory may still be refused. Most calls do not raise it, and take no
 * lock. */
void budget_note_peak(budget_t *budget)
{
  for (; budget; budget = budget->parent) {
    if (budget_held(budget) <= budget_peak(budget))
      continue;
    closure_acquire(LOCKS_OF_BUDGETS, &budget->lock);
    __atomic_store_n(&budget->peak, max_size(budget->peak, budget->held), __ATOMIC_RELAXED);
    lock_release(&budget->lock);
  }
}

/* The comparison and the new limit are under one lock, so that no charge comes between them. */
bool budget_set_limit(budget_t *budget, size_t limit, size_t beside)
{
  closure_acquire(LOCKS_OF_BUDGETS, &budget->lock);
  bool fits = !limit || (budget->held <= limit && beside <= limit - budget->held);
  if (fits)
    __atomic_store_n(&budget->limit, limit, __ATOMIC_RELAXED);
  lock_release(&budget->lock);
  return fits;
}
