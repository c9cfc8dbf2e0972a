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

bool kept_any(void);

/* Keeps a freed range. False: it is longer than may be kept; the caller passes it to kept_unmap(). *over: call kept_trim_over()
 * afterwards. */
bool kept_give(huge_t *huge, bool *over);

/* Keeps a range whatever its length. */
void kept_enter(huge_t *huge);

/* Takes a range for a block of that size: cut to it, or shorter if it can be moved and grown. NULL: there is none that would
 * do. */
huge_t *kept_take(size_t size, size_t alignment);

/* Takes the `more` bytes behind a block, if all of them are kept; NULL: they are not. */
huge_t *kept_take_behind(const huge_t *huge, size_t more);

/* ---- inside the gate of the system, without the lock ---- */

/* Says whether everything is kept: with a purge delay that never ends nothing goes back. */
bool kept_is_all(void);

/* Unmaps a range that is in no list, and its record is unused. If the system refuses, the range is kept after all. *purged: the
 * bytes of memory that the system took. False: it took neither addresses nor memory. */
bool kept_unmap(huge_t *huge, size_t *purged);

/* The first unmaps what is kept beyond `keep` bytes, the oldest first, and returns the bytes of memory that the system took.
 * The second unmaps what is beyond the bound. */
size_t kept_trim_beyond(size_t keep, size_t most_tries);
void kept_trim_over(void);

/* Counts memory of huge blocks that went back to the system by another way. */
void kept_count_purged(size_t bytes);

/* ---- for everybody ---- */

/* Returns the bytes of memory that are kept. */
size_t kept_bytes(void);

/* Returns how many bytes of memory went back to the system in total: of kept ranges, and of live ones when they ended or became
 * smaller. */
uint64_t kept_purged_bytes(void);

/* Unmaps what is kept beyond `keep` bytes, the oldest first, and at 0 what holds no memory too; returns how many bytes of
 * memory the system took. */
size_t kept_trim(size_t keep);

/* Once in a quarter of the purge delay. At every fourth, half of what was not needed since the last begins to be unmapped, and
 * what counts as lately halves. It goes in steps, so that no caller waits for long. */
void kept_tick(void);
void kept_step(uint64_t now_ms);
bool kept_tick_is_under_way(void);

#endif
