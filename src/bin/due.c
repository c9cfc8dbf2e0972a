/* SPDX-License-Identifier: MIT
 * The list is first in, first out. A tick visits as many bins as were in it when the tick began. A bin that reenters waits for
 * the next tick, unless it `goes_on`. */
#include "bin/due.h"
#include "os/lock.h"
#include "space/sleeper.h"

lock_t bins_due_lock;
static bin_t *due_first, *due_last;
/* `due_left` counts the bins that this tick has left. It is read without the lock. */
static uint32_t due_count, due_left;

void due_enter(bin_t *bin)
{
  __atomic_store_n(&bin->due, true, __ATOMIC_RELAXED);
  lock_acquire(&bins_due_lock);
  bin->due_next = NULL;
  bin->due_previous = due_last;
  *(due_last ? &due_last->due_next : &due_first) = bin;
  due_last = bin;
  due_count++;
  lock_release(&bins_due_lock);
  sleeper_note();
}

void due_enter_again(bin_t *bin, bool goes_on)
{
  due_enter(bin);
  if (!goes_on)
    return;
  lock_acquire(&bins_due_lock);
  __atomic_store_n(&due_left, due_left + 1, __ATOMIC_RELAXED);
  lock_release(&bins_due_lock);
}

void bin_become_due(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  lock_release(&bin->lock);
}

static void take_out(bin_t *bin)
{
  *(bin->due_previous ? &bin->due_previous->due_next : &due_first) = bin->due_next;
  *(bin->due_next ? &bin->due_next->due_previous : &due_last) = bin->due_previous;
  bin->due_next = bin->due_previous = NULL;
  due_count--;
}

bin_t *bins_with_depots;

COLD void depots_begin(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  if (!bin->depots.shards) {
    lock_acquire(&bins_due_lock);
    bin->with_depots_next = bins_with_depots;
    if (bins_with_depots)
      bins_with_depots->with_depots_previous = bin;
    bins_with_depots = bin;
    lock_release(&bins_due_lock);
    __atomic_store_n(&bin->depots.shards, DEPOT_SHARDS, __ATOMIC_RELEASE);
  }
  lock_release(&bin->lock);
}

/* A bin that never entered has no predecessor and is not the first. */
static void leave_those_with_depots(bin_t *bin)
{
  bin_t *next = bin->with_depots_next, *previous = bin->with_depots_previous;
  if (!previous && bins_with_depots != bin)
    return;
  *(previous ? &previous->with_depots_next : &bins_with_depots) = next;
  if (next)
    next->with_depots_previous = previous;
}

/* A bin in the hands of a tick is in no list: it has no predecessor and is not the first. */
void due_leave(bin_t *bin)
{
  lock_acquire(&bins_due_lock);
  if (bin->due_previous || due_first == bin)
    take_out(bin);
  leave_those_with_depots(bin);
  lock_release(&bins_due_lock);
}

void bins_begin_tick(void)
{
  lock_acquire(&bins_due_lock);
  __atomic_store_n(&due_left, due_count, __ATOMIC_RELAXED);
  lock_release(&bins_due_lock);
}

bool bins_tick_is_under_way(void) { return __atomic_load_n(&due_left, __ATOMIC_RELAXED) != 0; }

bool bins_are_due(void)
{
  lock_acquire(&bins_due_lock);
  bool are_due = due_first != NULL;
  lock_release(&bins_due_lock);
  return are_due;
}

/* Bins may have left the list since the tick began, so the list can end before the count does. */
bin_t *due_next(void)
{
  lock_acquire(&bins_due_lock);
  bin_t *bin = due_left ? due_first : NULL;
  __atomic_store_n(&due_left, bin ? due_left - 1 : 0, __ATOMIC_RELAXED);
  if (bin)
    take_out(bin);
  lock_release(&bins_due_lock);
  return bin;
}
