/* SPDX-License-Identifier: MIT
 * What the tests of huge blocks share: their owner and its list, and what is mapped, which is always what is live and what was
 * left. */
#ifndef MAPPINGS_H
#define MAPPINGS_H

#include "levels.h"
#include "space/huge.h"
#include "unit.h"

enum { BLOCKS = 40, PAGE = 4096 };
extern int owner, other_owner;
extern huge_t *owned, *others; /* their lists */

size_t bytes_of(const void *of); /* live ones; of NULL: those that were left */
size_t ranges_left(void);

/* Metadata but for that, which is known by what is mapped while there is neither. */
extern size_t others_bytes;

void note_others(void);
bool all_is_known(void);

/* Records for what follows, so that metadata does not grow meanwhile. */
void have_records(void);
huge_t *take(size_t size);

/* Afterwards one range of so many bytes is left, with 7 in each. */
void have_left(size_t bytes);
uint64_t calls_for_memory(void);

#endif
