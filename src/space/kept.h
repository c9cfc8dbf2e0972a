/* SPDX-License-Identifier: MIT
 *
 * The range of a freed huge block is kept for the next one, since its pages are there already. Bytes that no block needed for
 * the purge delay are unmapped: if 40 MiB are kept and blocks take at most 10 MiB of them during a delay, 30 MiB go. Neighbours
 * that are kept become one, a new block takes the low end of the shortest range that will do, and neither needs a system call.
 *
 * A range that the system refuses to unmap is kept too, without its memory if possible. So is a range between others, if there
 * are very many: holes must not use up the mappings that the system allows a process. */
#ifndef KEPT_H
#define KEPT_H

#include "space/huge_range.h"

/* ---- under huge_lock ---- */

bool kept_any(void);

/* Keeps a freed range. False: the purge delay is 0, and the caller passes the range to kept_unmap(). */
bool kept_give(huge_t *huge);

/* Keeps a range whatever the purge delay. */
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

/* Unmaps what is kept beyond `keep` bytes, the oldest first, and returns the bytes of memory that the system took. */
size_t kept_trim_beyond(size_t keep, size_t most_tries);

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

/* Call kept_tick() when so many epochs, of a quarter of the purge delay, have passed since the last call. It begins to unmap
 * the bytes that were not needed for the delay. kept_step() goes on with it, by 4 MiB or more (pace.h). */
void kept_tick(size_t epochs);
void kept_step(uint64_t now_ms);
bool kept_tick_is_under_way(void);

#endif
