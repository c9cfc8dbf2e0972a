/* SPDX-License-Identifier: MIT
 *
 * Huge pages for memory that is about to be filled.
 *
 * A huge page saves 511 page faults, and holds 2 MiB from its first touch on. So the system is asked for one where all 2 MiB
 * are about to be written: where a slab of small blocks is the first to take units of a page that holds no memory, and what
 * lies below that page is mostly slabs whose blocks were all handed out. This *opens* the page. One page of an arena is open at
 * a time: when the next is opened the wish for this one is withdrawn. By then it was touched, and a page that is huge stays so.
 * Withdrawn, because the system also makes huge pages of 2 MiB of which a single page is in use, and so would fill what a purge
 * has emptied.
 *
 * To the system each stretch with wishes of its own is a mapping. So from the first wish on an arena is against huge pages
 * everywhere else, and the open page makes two mappings more.
 *
 * Under the lock of the arena's space, unless a function says otherwise. */
#ifndef HUGE_PAGES_H
#define HUGE_PAGES_H

#include "option.h"
#include "space/arena.h"

enum {
  FILLED_BLOCK_MOST = 16 << 10,         /* blocks up to here are taken to be written as they are handed out */
  HUGE_PAGES_FROM = 4 * HUGE_PAGE_UNITS /* 8 MiB: in a smaller arena a huge page that is hardly used would show */
};

/* Says whether pages may be opened in an arena of so many mapped units, or all are to be huge. Then units are mapped up to the
 * end of a page. */
static inline bool huge_pages_are_wanted(const arena_t *arena, size_t committed)
{
  return arena->huge_pages == HUGE_PAGES_ALWAYS || (arena->huge_pages == HUGE_PAGES_AUTO && committed >= HUGE_PAGES_FROM);
}

/* Says whether a page may be huge. No lock. */
static inline bool huge_pages_may_be(const arena_t *arena, size_t page)
{
  return __atomic_load_n(&arena->huge[page / WORD_BITS], __ATOMIC_RELAXED) >> page % WORD_BITS & 1;
}

/* The run, which was just taken for a slab of blocks of at most FILLED_BLOCK_MOST bytes, may open a page. */
void huge_pages_open(arena_t *arena, const run_t *run);

/* Any other run was taken, or has grown. It closes an open page that it begins or ends in, because it may move, and mremap()
 * moves one mapping. */
void huge_pages_close_for(arena_t *arena, const run_t *run);

/* Units [from, to) have been mapped; unmapped; all at and beyond `end` have been unmapped. */
void huge_pages_map(arena_t *arena, size_t from, size_t to);
void huge_pages_unmap(arena_t *arena, size_t from, size_t to);
void huge_pages_contract(arena_t *arena, size_t end);

/* Memory is about to go back. The system keeps a huge page whole of which a part is purged, until it runs short; so those at
 * both ends are split. Each is split once, since the open page alone can become huge again. No lock. */
void huge_pages_split(arena_t *arena, const char *from, const char *to);

/* The process forks: the system does not split a page that the child has too, so another purge has to try again. No lock. */
void huge_pages_note_fork(arena_t *arena);

#endif
