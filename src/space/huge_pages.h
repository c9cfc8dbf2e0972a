/* SPDX-License-Identifier: MIT
 *
 * Huge pages for memory that is about to be filled.
 *
 * A huge page saves 511 page faults, and holds 2 MiB from its first touch on. So an arena requests one only where all 2 MiB are
 * about to be written. A slab of small blocks *opens* a page if three conditions hold: the slab is the first run in the page,
 * the page holds no memory, and the 8 MiB below it are mostly slabs whose blocks were all handed out.
 *
 * An arena has one open page at a time. It withdraws the request for a page when it opens the next one. The first page was
 * touched by then, and stays huge. A request that stayed would let the system put huge pages together around single pages, and
 * so fill the memory that a purge has emptied.
 *
 * The system counts each stretch with another request as a mapping. So an arena that has opened a page requests small pages for
 * all the rest, and the open page adds two mappings.
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

/* Closes the open page if the run, which is no such slab, takes units of it. The run may move later, and mremap() moves only
 * one mapping. */
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
