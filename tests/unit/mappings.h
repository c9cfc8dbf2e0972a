/* SPDX-License-Identifier: MIT
 * What the tests of huge blocks share: their owner and its list, and what is mapped, which is always what is live and what is
 * kept. */
#ifndef MAPPINGS_H
#define MAPPINGS_H

#include "levels.h"
#include "space/huge.h"
#include "unit.h"

enum { BLOCKS = 40, KEPT_RANGES = 64, PAGE = 4096 };
#define BREATH (32 * MIB)
#define STEP   (4 * MIB + PAGE) /* kept.c */
extern int owner, other_owner;
extern huge_t *owned, *others; /* their lists */

size_t bytes_of(const void *of); /* live ones; of NULL: those that are kept */
size_t ranges_kept(void);

/* Metadata but for that, which is known by what is mapped while there is neither. */
extern size_t others_bytes;

void note_others(void);
bool all_is_known(void);
void tick_whole(void); /* with all its steps, none of them long */
void pass_delays(size_t count);

/* Records for what follows, so that metadata does not grow meanwhile. */
void have_records(void);
huge_t *take(size_t size);

/* Afterwards as many bytes count as asked for again, and are kept. */
void breathe(size_t bytes);
uint64_t calls_for_memory(void);

/* `count` blocks of a size, one behind the other. */
void take_row(huge_t **row, size_t count, size_t size);

#endif
