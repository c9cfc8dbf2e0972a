/* SPDX-License-Identifier: MIT
 * What the tests of huge blocks share: their owner and its list, and what is mapped, which is always what is live and what is
 * kept. */
#ifndef MAPPINGS_H
#define MAPPINGS_H

#include "base/low_water.h"
#include "levels.h"
#include "space/huge.h"
#include "unit.h"

enum { BLOCKS = 40, PAGE = 4096 };
enum { TICKS_OF_A_PEAK = LOW_WATER_EPOCHS + 1 }; /* until nothing is left: the epoch in which it was freed does not count */
#define STEP (4 * MIB + PAGE)                    /* kept.c */
extern int owner, other_owner;
extern huge_t *owned, *others; /* their lists */

size_t bytes_of(const void *of); /* live ones; of NULL: those that are kept */
size_t ranges_kept(void);

/* Metadata but for that, which is known by what is mapped while there is neither. */
extern size_t others_bytes;

void note_others(void);
bool all_is_known(void);
void tick_whole(void); /* with all its steps, none of them long */
void pass_epochs(size_t count);

/* Records for what follows, so that metadata does not grow meanwhile. */
void have_records(void);
huge_t *take(size_t size);

/* Afterwards one range of so many bytes is kept, with 7 in each. The purge delay is 100 ms. */
void have_kept(size_t bytes);
uint64_t calls_for_memory(void);

/* `count` blocks of a size, one behind the other. */
void take_row(huge_t **row, size_t count, size_t size);

#endif
