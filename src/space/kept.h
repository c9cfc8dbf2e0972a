/* SPDX-License-Identifier: MIT
 *
 * What huge blocks leave behind is kept for the next one, since its pages are there already: as many bytes as were freed and
 * asked for again lately, at most as many as are live or 32 MiB, and for no longer than they are needed. Neighbours that are
 * kept become one, a new block takes the low end of the shortest that will do, and none of that asks the system. What the
 * system refuses to unmap is kept too, without its memory if that can be had, and so is what lies between others where they are
 * very many: the mappings that the system allows a process are not used up for holes. */
#ifndef KEPT_H
#define KEPT_H

#include "space/huge_range.h"

/* ---- under huge_lock ---- */

/* The live ranges, which bound how much is kept. */
typedef struct huge_live {
  size_t count, bytes;
} huge_live_t;
extern huge_live_t huge_live;

bool kept_any(void);

/* A block that was freed, in no list. False: it is more than is kept, and for kept_trim(). *over: there is something for
 * kept_trim_over(). The second keeps it in any case. */
bool kept_give(huge_t *huge, bool *over);
void kept_enter(huge_t *huge);

/* For a block of that size: cut to it, or shorter than it where it can be moved and grown. NULL: nothing that would do. */
huge_t *kept_take(size_t size, size_t alignment);

/* The first `more` bytes behind a block, if they are kept, all of them. */
huge_t *kept_take_behind(const huge_t *huge, size_t more);

/* ---- inside the gate of the system, without the lock ---- */

/* Says whether everything is kept: with a purge delay that never ends nothing goes back. */
bool kept_is_all(void);

/* Gives one back to the system that is in no list. It takes the record's place: either it is unused, or the mapping is kept
 * after all. *taken: the bytes the system took. False: it took nothing at all. */
bool kept_trim(huge_t *huge, size_t *taken);

/* Gives back what is beyond `keep` bytes, the oldest first; or what is beyond the bound. */
size_t kept_trim_beyond(size_t keep, size_t most_tries);
void kept_trim_over(void);

void kept_count_given(size_t bytes);

/* ---- for everybody ---- */

/* Returns the bytes of memory that are kept. */
size_t huge_kept_bytes(void);

/* Returns the bytes of mappings that the system was given in total: of kept ones, and of live ones when they ended or became
 * smaller. */
uint64_t huge_given_bytes(void);

/* Unmaps what is kept beyond `keep` bytes, the oldest first, and at 0 what holds no memory too; returns how many bytes of
 * memory the system took. */
size_t huge_trim(size_t keep);

/* Once in a quarter of the purge delay. At every fourth, half of what was not needed since the last is unmapped, and what
 * counts as lately halves. */
void huge_tick(void);

#endif
