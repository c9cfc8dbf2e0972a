/* SPDX-License-Identifier: MIT
 *
 * Which bins a tick has to look at: those that were used since their last tick, or have something left for the next. A process
 * may have very many. A bin that is due stays so, in the list or in the hands of a tick, until the tick finds nothing left.
 *
 * And which bins a fork has to look at, beside their own locks: those that ever had a magazine in a depot. */
#ifndef DUE_H
#define DUE_H

#include "bin/types.h"

extern lock_t bins_due_lock;

/* Both are called under the lock of the bin. due_leave() is for a bin that ends, and leaves both lists: a tick that has taken
 * it out of the list already will find that it has ended. */
void due_enter(bin_t *bin);
void due_enter_again(bin_t *bin, bool goes_on); /* by a tick, which comes to the bin once more if it `goes_on` */
void due_leave(bin_t *bin);

/* Called by whatever changes the bin, under its lock. */
static inline void due_note_use(bin_t *bin)
{
  if (HAS_SYSTEM && unlikely(!bin->due) && !bin->ended && !bin->lock.solo)
    due_enter(bin);
}

/* The bin is due, though nothing has changed in it: its region or a depot has something for a tick. Takes the bin's lock. */
void bin_become_due(bin_t *bin);

/* The bins whose depots are in use, linked by with_depots_next. Whoever puts the first magazine into one has the bin enter,
 * which takes its lock, before the first lock of a depot is taken; it leaves as it ends. So while no bin can be locked the list
 * stays as it is. A bin of one thread has no lock that a fork would have to look at, and does not enter. */
extern bin_t *bins_with_depots;
void depots_begin(bin_t *bin);

/* A tick begins with all bins that are due now. The second says whether one of them is left. */
void bins_begin_tick(void);
bool bins_tick_is_under_way(void);

/* Says whether any bin is due. */
bool bins_are_due(void);

/* Takes the next bin out of the list. It stays `due`, so that no use of the bin enters it again meanwhile. NULL: none is left
 * of this tick. */
bin_t *due_next(void);

#endif
