/* SPDX-License-Identifier: MIT
 * For which pages of 2 MiB an arena requests huge pages from the system, and when it withdraws a request. */
#include "os/os.h"
#include "space/arena.h"

enum {
  WINDOW_UNITS = HUGE_PAGES_FROM,                 /* units below a page that predict whether it will be filled */
  FILLED_LEAST = WINDOW_UNITS - WINDOW_UNITS / 4, /* units of filled slabs in the window; open slabs take some of the rest */
  OTHERS_MOST = WINDOW_UNITS / 8, /* units of runs of unknown density: a huge page would make them resident entirely */
  UNTOUCHED_SHARE = 16            /* at most one block in 16 of a filled slab was never handed out */
};

/* ---- requests ---- */

size_t huge_page_of_system = (size_t)HUGE_PAGE_UNITS << UNIT_LOG2;

/* A huge page has at most 2 MiB where the usual ones have 4 KiB, so no file is read there. */
uint8_t huge_pages_choose(void)
{
  const size_t page = (size_t)HUGE_PAGE_UNITS << UNIT_LOG2;
  if (settings.huge_pages == HUGE_PAGES_NEVER || (settings.huge_pages == HUGE_PAGES_AUTO && !os_grants_huge_pages()))
    return HUGE_PAGES_NEVER;
  if (os_page_size() > 4096)
    huge_page_of_system = max_size(os_huge_page_size(), page);
  return settings.huge_pages == HUGE_PAGES_AUTO && huge_page_of_system > page ? HUGE_PAGES_NEVER : settings.huge_pages;
}

/* Marks the pages of these units as possibly huge or not. Atomic, because huge_pages_split() has no lock. */
static void mark(word_t *map, size_t from, size_t to, bool huge)
{
  for (size_t page = from / HUGE_PAGE_UNITS; page * HUGE_PAGE_UNITS < to; page++) {
    word_t *word = &map[page / WORD_BITS], bit = bit_of(page);
    if (huge)
      __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    else
      __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
  }
}

static void request_pages(const arena_t *arena, size_t from, size_t to, bool huge)
{
  os_wish_huge_pages(arena->base + (from << UNIT_LOG2), (to - from) << UNIT_LOG2, huge);
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
    request_pages(arena, page * HUGE_PAGE_UNITS, (page + 1) * HUGE_PAGE_UNITS, false);
  set_open_page(arena, NO_PAGE);
}

static void open_if_dense(arena_t *arena, size_t page)
{
  size_t from = page * HUGE_PAGE_UNITS, to = from + HUGE_PAGE_UNITS;
  if (!is_dense_below(arena, from))
    return;
  close_page(arena);
  request_pages(arena, from, to, true);
  mark(arena->huge, from, to, true);
  set_open_page(arena, (uint32_t)page);
}

/* A run may begin in one page and end in another, and owns the pages in between. */
void huge_pages_open(arena_t *arena, const run_t *run)
{
  if (arena->huge_pages != HUGE_PAGES_AUTO || arena->committed <= ALL_HUGE_TO || !run->zeroed)
    return;
  size_t from = (size_t)(run - arena->runs), to = from + run->units;
  size_t page = max_size(from, ALL_HUGE_TO) / HUGE_PAGE_UNITS;
  if (page == open_page(arena)) /* the most frequent case */
    page++;
  for (; page * HUGE_PAGE_UNITS < to; page++) {
    size_t begin = page * HUGE_PAGE_UNITS, end = begin + HUGE_PAGE_UNITS;
    if (end <= arena->committed && hold_nothing(arena, begin, from) && hold_nothing(arena, to, end))
      open_if_dense(arena, page);
  }
}

/* ---- mapping and unmapping units ---- */

/* Linux merges two mappings only if they have the same request when the second is first touched. So an open page that ends
 * where the new units begin is closed first. */
void huge_pages_map(arena_t *arena, size_t from, size_t to)
{
  bool always = arena->huge_pages == HUGE_PAGES_ALWAYS;
  size_t first = always ? from : max_size(from, HUGE_PAGES_FROM), last = always ? to : min_size(to, ALL_HUGE_TO);
  if (from >= to || arena->huge_pages == HUGE_PAGES_NEVER)
    return;
  if (first < last) {
    request_pages(arena, first, last, true);
    mark(arena->huge, first, last, true);
  }
  if (!always && to > ALL_HUGE_TO) {
    if (((size_t)open_page(arena) + 1) * HUGE_PAGE_UNITS == from)
      close_page(arena);
    request_pages(arena, max_size(from, ALL_HUGE_TO), to, false);
  }
}

bool huge_pages_may_hold(const arena_t *arena, const run_t *run)
{
  size_t from = (size_t)(run - arena->runs), to = from + run->units;
  bool found = arena->huge_pages == HUGE_PAGES_AUTO && from < ALL_HUGE_TO && to > HUGE_PAGES_FROM;
  for (size_t page = from / HUGE_PAGE_UNITS; !found && page * HUGE_PAGE_UNITS < to; page++)
    found = huge_pages_may_be(arena, page);
  return found;
}

void huge_pages_unmap(arena_t *arena, size_t from, size_t to)
{
  size_t open = (size_t)open_page(arena) * HUGE_PAGE_UNITS;
  if (arena->huge_pages != HUGE_PAGES_NEVER) {
    mark(arena->huge, from, to, false);
    mark(arena->shared, from, to, false);
  }
  if (open >= round_down(from, HUGE_PAGE_UNITS) && open < to)
    set_open_page(arena, NO_PAGE);
}

/* ---- returning memory ---- */

/* Pages that are marked later are the process's alone. */
void huge_pages_note_fork(arena_t *arena)
{
  for (size_t word = 0; word < HUGE_PAGES_MOST / WORD_BITS; word++)
    __atomic_fetch_or(&arena->shared[word], __atomic_load_n(&arena->huge[word], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* The request for a page of which a part is purged is withdrawn, or else the kernel could fill it again. The units behind the
 * part may belong to somebody else, so their request stays. The mark is cleared after the page has been split, so that no other
 * thread purges in a page that is still whole. */
static void split_around(arena_t *arena, const char *address)
{
  size_t unit = unit_of(arena, address), page = unit / HUGE_PAGE_UNITS;
  if ((uintptr_t)address % huge_page_of_system == 0 || !huge_pages_may_be(arena, page))
    return;
  os_split_huge_page((char *)(uintptr_t)round_down((uintptr_t)address, os_page_size()));
  if (arena->huge_pages != HUGE_PAGES_AUTO || page == open_page(arena))
    return;
  if (unit < ALL_HUGE_TO)
    request_pages(arena, page * HUGE_PAGE_UNITS, unit + ((uintptr_t)address % UNIT != 0), false);
  if (!(__atomic_load_n(&arena->shared[page / WORD_BITS], __ATOMIC_RELAXED) & bit_of(page)))
    mark(arena->huge, unit, unit + 1, false);
}

void huge_pages_split(arena_t *arena, const char *from, const char *to)
{
  if (arena->huge_pages == HUGE_PAGES_NEVER)
    return;
  split_around(arena, from);
  split_around(arena, to);
}
