/* SPDX-License-Identifier: MIT
 *
 * Huge pages for memory that is about to be filled.
 *
 * A huge page saves 511 page faults, but holds 2 MiB from its first touch. So an arena requests one only if all 2 MiB are about
 * to be written. A slab of small blocks *opens* a page under three conditions: the slab is the first run in the page, the page
 * holds no memory, and the 8 MiB below it are mostly slabs whose blocks were all handed out.
 *
 * An arena has one open page at a time, and withdraws the request when it opens the next one. By then the first page was
 * touched, and stays huge. Otherwise the kernel could later collapse the page around a few small ones, and refill purged
 * memory.
 *
 * The system counts each stretch with different advice as a mapping. So an arena that has opened a page requests small pages
 * for all others, and the open page adds two mappings.
 *
 * Called under the lock of the arena's space, unless stated otherwise. */
#ifndef HUGE_PAGES_H
#define HUGE_PAGES_H

#include "option.h"
#include "space/arena.h"

enum {
  FILLED_BLOCK_MOST = 16 << 10,         /* blocks of up to this size are expected to be written when handed out */
  HUGE_PAGES_FROM = 4 * HUGE_PAGE_UNITS /* 8 MiB: in a smaller arena, a sparsely used huge page would matter */
};

/* Returns whether pages may be opened in an arena of `committed` units, or all are huge. Units are then mapped by pages. */
static inline bool huge_pages_are_wanted(const arena_t *arena, size_t committed)
{
  return arena->huge_pages == HUGE_PAGES_ALWAYS || (arena->huge_pages == HUGE_PAGES_AUTO && committed >= HUGE_PAGES_FROM);
}

/* Returns whether a page may be huge. Needs no lock. */
static inline bool huge_pages_may_be(const arena_t *arena, size_t page)
{
  return __atomic_load_n(&arena->huge[page / WORD_BITS], __ATOMIC_RELAXED) >> page % WORD_BITS & 1;
}

/* Lets a run open a page. It was just taken for a slab of blocks of at most FILLED_BLOCK_MOST bytes. */
void huge_pages_open(arena_t *arena, const run_t *run);

/* Closes the open page if a run of another use takes units of it. mremap() can move only one mapping. */
void huge_pages_close_for(arena_t *arena, const run_t *run);

/* Call these after units [from, to) were mapped; unmapped; after all units from `end` on were unmapped. */
void huge_pages_map(arena_t *arena, size_t from, size_t to);
void huge_pages_unmap(arena_t *arena, size_t from, size_t to);
void huge_pages_contract(arena_t *arena, size_t end);

/* Call it before memory is purged. The kernel keeps a partially purged huge page whole until memory is short, so this splits
 * the pages at both ends. Each is split once, since only the open page can become huge again. Needs no lock. */
void huge_pages_split(arena_t *arena, const char *from, const char *to);

/* Call it before a fork: the kernel does not split pages that the child shares, so later purges must try again. No lock. */
void huge_pages_note_fork(arena_t *arena);

#endif
