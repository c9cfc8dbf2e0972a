/* SPDX-License-Identifier: MIT
 * What the tests of purges share: free memory that is dirty, what is committed and what went back. */
#ifndef DIRTY_H
#define DIRTY_H

#include "levels.h"
#include "space/space.h"
#include "unit.h"

/* Units that a tick leaves, and units and calls of one step: purge.c. Ticks until nothing is left of a peak: the epoch in which
 * it was freed does not count. */
enum { KEPT_LEAST = 0, STEP = 32, STEP_CALLS = 8, TICKS_OF_A_PEAK = LOW_WATER_EPOCHS + 1 };

/* A run stands for a large block in these tests. */
run_t *take(space_t *space, size_t units);

/* The memory of free units, in runs of the longest there are. */
void make_dirty(space_t *space, size_t units);
size_t committed(size_t slot);
size_t records(size_t slot); /* bytes, of the arena in a slot */
uint64_t purges(void);       /* calls so far */

/* With all the steps that it begins, none of which is long. */
bool tick_whole(space_t *space, uint64_t now_ms);

#endif
