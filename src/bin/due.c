/* SPDX-License-Identifier: MIT
 * The queue is first in, first out. A tick visits as many bins as were in it when the tick began. A bin that reenters waits for
 * the next tick. One that goes on enters a second queue. Bins are taken from it if none waits for its first visit, or if the
 * caller may make no more of these. */
#include "base/list.h"
#include "bin/bin.h"
#include "os/lock.h"

lock_t bins_due_lock;
static bin_t *due_first, *due_last, *going_first, *going_last;
/* `due_left` counts the bins that this tick has left, `going_count` those that go on. Both are read without the lock. */
static uint32_t due_count, due_left, going_count;

void due_enter(bin_t *bin)
{
  __atomic_store_n(&bin->due, true, __ATOMIC_RELAXED);
  lock_acquire(&bins_due_lock);
  QUEUE_APPEND(due_first, due_last, bin, due_next, due_previous);
  due_count++;
  lock_release(&bins_due_lock);
  sleeper_note();
}

void due_go_on(bin_t *bin)
{
  LOCKED(&bins_due_lock);
  bin->goes_on = true;
  QUEUE_APPEND(going_first, going_last, bin, due_next, due_previous);
  __atomic_store_n(&going_count, going_count + 1, __ATOMIC_RELAXED);
}

void bin_become_due(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  lock_release(&bin->lock);
}

static void leave_due(bin_t *bin)
{
  QUEUE_REMOVE(due_first, due_last, bin, due_next, due_previous);
  bin->due_previous = NULL;
  due_count--;
}

static void leave_going(bin_t *bin)
{
  QUEUE_REMOVE(going_first, going_last, bin, due_next, due_previous);
  bin->due_previous = NULL;
  bin->goes_on = false;
  __atomic_store_n(&going_count, going_count - 1, __ATOMIC_RELAXED);
}

bin_t *bins_with_depots;

static void enter_with_depots(bin_t *bin)
{
  LOCKED(&bins_due_lock);
  LIST_PUSH(bins_with_depots, bin, with_depots_next, with_depots_previous);
}

/* A fork waits for the bin's lock first, so the bin is in the list if one of its depots may be locked. */
COLD bool depots_begin(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  if (!bin->depots.shards && depots_take(&bin->depots, bin->lock.solo) && !bin->lock.solo)
    enter_with_depots(bin);
  bool begun = bin->depots.shards;
  lock_release(&bin->lock);
  return begun;
}

/* A bin in the hands of a tick is in no queue, and one that never had depots in no list of those. */
void due_leave(bin_t *bin)
{
  LOCKED(&bins_due_lock);
  if (unlikely(bin->goes_on))
    leave_going(bin);
  else if (LIST_HOLDS(due_first, bin, due_previous))
    leave_due(bin);
  if (LIST_HOLDS(bins_with_depots, bin, with_depots_previous))
    LIST_REMOVE(bins_with_depots, bin, with_depots_next, with_depots_previous);
}

void bins_begin_tick(void)
{
  LOCKED(&bins_due_lock);
  __atomic_store_n(&due_left, due_count, __ATOMIC_RELAXED);
}

bool bins_tick_is_under_way(void)
{
  return (__atomic_load_n(&due_left, __ATOMIC_RELAXED) | __atomic_load_n(&going_count, __ATOMIC_RELAXED)) != 0;
}

bool bins_are_due(void)
{
  LOCKED(&bins_due_lock);
  return due_first || going_first;
}

/* Bins may have left the list since the tick began, so the list can end before the count does. */
bin_t *due_next(bool may_begin, bool *goes_on)
{
  LOCKED(&bins_due_lock);
  bin_t *bin = may_begin && due_left ? due_first : NULL;
  if (may_begin)
    __atomic_store_n(&due_left, bin ? due_left - 1 : 0, __ATOMIC_RELAXED);
  *goes_on = !bin;
  if (bin)
    leave_due(bin);
  else if ((bin = going_first) != NULL)
    leave_going(bin);
  return bin;
}
