/* SPDX-License-Identifier: MIT
 *
 * Huge pages where memory is about to be filled: at the end of a large arena.
 *
 * Units are taken from the low end, so those that were mapped last are filled one after another. There a huge page saves 511
 * faults, and it costs no memory for long. That holds where memory is filled as it is handed out: where blocks are of a few
 * pages at most. So what is mapped next is wished to be huge where what was mapped last is mostly slabs of such blocks, all
 * handed out. What is asked of the system is only what a purge asks too: a program may have forbidden itself other calls.
 *
 * Behind the edge the wish is taken back: pages that are huge stay so, but the system puts others together where a single page
 * is in use, and would fill what a purge has emptied.
 *
 * Under the lock of the arena's space. */
#ifndef HUGE_EDGE_H
#define HUGE_EDGE_H

#include "space/arena.h"

enum {
  HUGE_EDGE_BLOCK = 16 << 10,           /* blocks up to here are taken to be filled */
  HUGE_EDGE_FROM = 8 * HUGE_PAGE_UNITS, /* 16 MiB: in a smaller arena a huge page that is hardly used would show */
  HUGE_EDGE_UNITS = 4 * HUGE_PAGE_UNITS /* 8 MiB: two of the longest steps in which units are mapped */
};

/* Says whether an arena of so many mapped units has an edge, or is of huge pages as a whole. Then units are mapped up to the
 * end of a huge page: what is mapped in two steps may not become one. */
bool huge_edge_is_wanted(const arena_t *arena, size_t committed);

/* Units [committed, end) have been mapped behind the others. */
void huge_edge_move(arena_t *arena, size_t end);

/* Units [from, to) have been mapped in a hole, or unmapped to be one. */
void huge_edge_fill(arena_t *arena, size_t from, size_t to);
void huge_edge_unmap(arena_t *arena, size_t from, size_t to);

/* Units at and beyond `end` have been unmapped. */
void huge_edge_contract(arena_t *arena, size_t end);

/* Memory is about to go back. The system keeps a huge page whole of which a part is purged, until it runs short; so those at
 * both ends are split. Behind the edge each is split once, since none is made there again. No lock. */
void huge_edge_split(arena_t *arena, const char *from, const char *to);

/* The process forks: the system does not split a page that the child has too, so another purge has to try again. No lock. */
void huge_edge_note_fork(arena_t *arena);

#endif
