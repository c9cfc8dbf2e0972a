/* SPDX-License-Identifier: MIT
 *
 * The bins that a tick has to visit: those used since their last tick, and those with work left. A process may have many bins.
 * A due bin stays due, in the list or in the hands of a tick, until the tick finds nothing left.
 *
 * A second list has the bins whose depots a fork has to visit: those that ever had a magazine in a depot. */
#ifndef DUE_H
#define DUE_H

#include "bin/types.h"

extern lock_t bins_due_lock;

/* Called under the lock of the bin. due_leave() removes an ending bin from both lists. A tick may have taken it already. */
void due_enter(bin_t *bin);
void due_go_on(bin_t *bin); /* by a tick, which visits the bin once more */
void due_leave(bin_t *bin);

/* Every change of the bin calls this, under its lock. */
static inline void due_note_use(bin_t *bin)
{
  if (unlikely(!bin->due) && !bin->ended && !bin->lock.solo)
    due_enter(bin);
}

/* Makes the bin due though it has not changed: its region or a depot has work for a tick. Takes the bin's lock. */
void bin_become_due(bin_t *bin);

/* The bins whose depots are in use, linked by with_depots_next. A bin enters, under its lock, before the first lock of a depot
 * is taken, and leaves when it ends. So the list does not change while no bin can be locked. Single-threaded bins have no lock
 * that a fork visits, and do not enter. */
extern bin_t *bins_with_depots;
void depots_begin(bin_t *bin);

/* A tick begins with all bins that are due now. bins_tick_is_under_way() returns whether any of them is left. */
void bins_begin_tick(void);
bool bins_tick_is_under_way(void);

bool bins_are_due(void);

/* Takes the next bin of this tick, or returns NULL. *goes_on: the tick has visited it before, as it must have unless
 * `may_begin`. The bin stays `due`, so no use of it enters it meanwhile. */
bin_t *due_next(bool may_begin, bool *goes_on);

#endif
