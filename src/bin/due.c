/* SPDX-License-Identifier: MIT
 *
 * The list is first in, first out. A tick looks at as many bins as were in it when the tick began, so one that enters again
 * meanwhile waits for the next. */
#include "bin/due.h"

lock_t bins_due_lock;
static bin_t *due_first, *due_last;
static uint32_t due_count, due_left; /* left: of those that were in the list when the tick began */

/* A bin enters at the end, so that a tick finds those first which have waited longest. */
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
}

/* Takes a bin out of the list, under the list's lock. */
static void take_out(bin_t *bin)
{
  *(bin->due_previous ? &bin->due_previous->due_next : &due_first) = bin->due_next;
  *(bin->due_next ? &bin->due_next->due_previous : &due_last) = bin->due_previous;
  bin->due_next = bin->due_previous = NULL;
  due_count--;
}

/* A bin in the hands of a tick is in no list: it has no neighbour before it, and is not the first. */
void due_leave(bin_t *bin)
{
  lock_acquire(&bins_due_lock);
  if (bin->due_previous || due_first == bin)
    take_out(bin);
  lock_release(&bins_due_lock);
}

void bins_begin_tick(void)
{
  lock_acquire(&bins_due_lock);
  __atomic_store_n(&due_left, due_count, __ATOMIC_RELAXED);
  lock_release(&bins_due_lock);
}

bool bins_tick_is_under_way(void) { return __atomic_load_n(&due_left, __ATOMIC_RELAXED) != 0; }

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
