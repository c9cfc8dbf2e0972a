/* SPDX-License-Identifier: MIT */
#include "os/os.h"
#include "space/arena.h"

enum {
  WINDOW_UNITS = HUGE_PAGES_FROM,                 /* units below a page that predict whether it will be filled */
  FILLED_LEAST = WINDOW_UNITS - WINDOW_UNITS / 4, /* units of filled slabs in the window; open slabs take some of the rest */
  OTHERS_MOST = WINDOW_UNITS / 8, /* units of runs of unknown density: a huge page would make them resident entirely */
  UNTOUCHED_SHARE = 16            /* at most one block in 16 of a filled slab was never handed out */
};

/* Marks the pages of these units as possibly huge or not. Atomic, because huge_pages_split() has no lock. */
static void mark_huge(arena_t *arena, size_t from, size_t to, bool huge)
{
  for (size_t page = from / HUGE_PAGE_UNITS; page * HUGE_PAGE_UNITS < to; page++) {
    word_t *word = &arena->huge[page / WORD_BITS], bit = bit_of(page);
    if (huge)
      __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    else
      __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
  }
}

static void wish(arena_t *arena, size_t from, size_t to, bool wanted)
{
  os_wish_huge_pages(arena->base + (from << UNIT_LOG2), (to - from) << UNIT_LOG2, wanted);
  if (wanted)
    mark_huge(arena, from, to, true);
}

/* Atomic, because huge_pages_split() reads it without the lock. */
static void set_open_page(arena_t *arena, uint32_t page) { __atomic_store_n(&arena->open_page, page, __ATOMIC_RELAXED); }
static uint32_t open_page(const arena_t *arena) { return __atomic_load_n(&arena->open_page, __ATOMIC_RELAXED); }

/* ---- opening a page ---- */

/* The first write to each block of at most a page touches all pages. Blocks of a few pages, such as tables or database pages,
 * are mostly filled too. Larger ones are unknown. This reads without the bin's lock, so figures may be some blocks behind. */
READS_BESIDE_OWNER static void count_run(const run_t *run, size_t *filled, size_t *others)
{
  if (run_kind(run) != RUN_SLAB || run->capacity < run_bytes(run) / FILLED_BLOCK_MOST)
    *others += run->units;
  else if (run->fresh >= run->capacity - run->capacity / UNTOUCHED_SHARE)
    *filled += run->units;
}

/* Predicts that memory is filled as densely as the window below it. */
static bool is_dense_below(const arena_t *arena, size_t end)
{
  size_t filled = 0, others = 0;
  for (size_t unit = end - min_size(end, WINDOW_UNITS); unit < end; unit++)
    if (!bit_test(arena->room.map, unit) && bit_test(arena->start, unit))
      count_run(&arena->runs[unit], &filled, &others);
  return filled >= FILLED_LEAST && others <= OTHERS_MOST;
}

static bool hold_nothing(const arena_t *arena, size_t from, size_t to)
{
  return from >= to || (bits_next_clear(arena->room.map, from, to) == to && bits_next_set(arena->dirty, from, to) == to);
}

static void close_page(arena_t *arena)
{
  size_t page = open_page(arena);
  if (page != NO_PAGE)
    wish(arena, page * HUGE_PAGE_UNITS, (page + 1) * HUGE_PAGE_UNITS, false);
  set_open_page(arena, NO_PAGE);
}

static void open_if_dense(arena_t *arena, size_t page)
{
  size_t from = page * HUGE_PAGE_UNITS, to = from + HUGE_PAGE_UNITS;
  if (!is_dense_below(arena, from))
    return;
  if (open_page(arena) == NEVER_OPENED)
    wish(arena, 0, arena->committed, false);
  else
    close_page(arena);
  wish(arena, from, to, true);
  set_open_page(arena, (uint32_t)page);
}

/* A run may begin in one page and end in another, and owns the pages in between. */
void huge_pages_open(arena_t *arena, const run_t *run)
{
  if (arena->huge_pages != HUGE_PAGES_AUTO || arena->committed < HUGE_PAGES_FROM || !run->zeroed)
    return;
  size_t from = (size_t)(run - arena->runs), to = from + run->units, page = from / HUGE_PAGE_UNITS;
  if (page == open_page(arena)) /* the most frequent case */
    page++;
  for (; page * HUGE_PAGE_UNITS < to; page++) {
    size_t begin = page * HUGE_PAGE_UNITS, end = begin + HUGE_PAGE_UNITS;
    if (end <= arena->committed && hold_nothing(arena, begin, from) && hold_nothing(arena, to, end))
      open_if_dense(arena, page);
  }
}

void huge_pages_close_for(arena_t *arena, const run_t *run)
{
  size_t page = open_page(arena), from = (size_t)(run - arena->runs);
  if (page == NEVER_OPENED || page == NO_PAGE)
    return;
  if (from < (page + 1) * HUGE_PAGE_UNITS && from + run->units > page * HUGE_PAGE_UNITS)
    close_page(arena);
}

/* ---- mapping and unmapping units ---- */

/* Linux merges two mappings only if they have the same huge page advice when the second is first touched. So an open page that
 * ends where the new units begin is closed first. */
void huge_pages_map(arena_t *arena, size_t from, size_t to)
{
  if (from >= to)
    return;
  if (arena->huge_pages == HUGE_PAGES_ALWAYS) {
    wish(arena, from, to, true);
    set_open_page(arena, NO_PAGE);
  } else if (open_page(arena) != NEVER_OPENED) {
    if (((size_t)open_page(arena) + 1) * HUGE_PAGE_UNITS == from)
      close_page(arena);
    wish(arena, from, to, false);
  }
}

void huge_pages_unmap(arena_t *arena, size_t from, size_t to)
{
  uint32_t open = open_page(arena);
  if (open == NEVER_OPENED)
    return;
  mark_huge(arena, from, to, false);
  if (open != NO_PAGE && open >= from / HUGE_PAGE_UNITS && (size_t)open * HUGE_PAGE_UNITS < to)
    set_open_page(arena, NO_PAGE);
}

/* The page around `end` loses units, so it can no longer be huge. */
void huge_pages_contract(arena_t *arena, size_t end)
{
  huge_pages_unmap(arena, round_down(end, HUGE_PAGE_UNITS), (size_t)HUGE_PAGES_MOST * HUGE_PAGE_UNITS);
}

/* ---- returning memory ---- */

void huge_pages_note_fork(arena_t *arena) { __atomic_store_n(&arena->forked, true, __ATOMIC_RELAXED); }

/* The mark is cleared after the page has been split, so that no other thread purges in a page that is still whole. */
static void split_around(arena_t *arena, const char *address)
{
  size_t bytes = (size_t)HUGE_PAGE_UNITS << UNIT_LOG2, unit = unit_of(arena, address), page = unit / HUGE_PAGE_UNITS;
  if ((size_t)(address - arena->base) % bytes == 0 || !huge_pages_may_be(arena, page))
    return;
  os_split_huge_page((char *)(uintptr_t)round_down((uintptr_t)address, os_page_size()));
  if (arena->huge_pages == HUGE_PAGES_AUTO && page != open_page(arena) && !__atomic_load_n(&arena->forked, __ATOMIC_RELAXED))
    mark_huge(arena, unit, unit + 1, false);
}

void huge_pages_split(arena_t *arena, const char *from, const char *to)
{
  if (open_page(arena) == NEVER_OPENED)
    return;
  split_around(arena, from);
  split_around(arena, to);
}
