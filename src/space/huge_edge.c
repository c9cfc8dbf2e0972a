/* SPDX-License-Identifier: MIT */
#include "space/huge_edge.h"
#include "option.h"
#include "os/os.h"

enum {
  WINDOW_UNITS = HUGE_EDGE_FROM,
  FILLED_LEAST = WINDOW_UNITS - WINDOW_UNITS / 4, /* slabs that are being filled, a few of each class, take some of the rest */
  OTHERS_MOST = WINDOW_UNITS / 16,                /* of which nothing is known; huge pages would hold them whole */
  UNTOUCHED_SHARE = 16,                           /* of a filled slab: what threads have not asked for yet */
  SLOW_MS = 2,                                    /* by a clock that moves every 1 to 10 ms */
  SLOW_IN_A_ROW = 2,
  PAUSE_LEAST = 16 /* steps of mapping, of 4 MiB and more */
};

bool huge_edge_is_wanted(const arena_t *arena, size_t committed)
{
  return arena->huge_pages == HUGE_PAGES_ALWAYS ||
         (arena->huge_pages == HUGE_PAGES_AUTO && committed >= HUGE_EDGE_FROM && !arena->sparse);
}

/* Says of the pages that the units are in whether they may be huge. Atomic, because huge_edge_split() has no lock. */
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

static bool may_be_huge(const arena_t *arena, size_t unit)
{
  size_t page = unit / HUGE_PAGE_UNITS;
  return __atomic_load_n(&arena->huge[page / WORD_BITS], __ATOMIC_RELAXED) >> page % WORD_BITS & 1;
}

/* Pages that are huge stay so when they are not wished to be any more. */
static void wish(arena_t *arena, size_t from, size_t to, bool wanted)
{
  if (from >= to)
    return;
  os_wish_huge_pages(arena->base + (from << arena->unit_log2), (to - from) << arena->unit_log2, wanted);
  if (wanted)
    mark_huge(arena, from, to, true);
}

/* Where blocks of at most a page were handed out, the first write to each touches every page. Those of a few pages are mostly
 * filled too: tables that were asked for because they were needed, pages of a database. Of larger ones nothing is known. The
 * slab is of a bin whose lock is not held; its figures may be some blocks behind. */
READS_BESIDE_OWNER static void count_run(const arena_t *arena, const run_t *run, size_t *filled, size_t *others)
{
  if (run_kind(run) != RUN_SLAB || run->capacity < run_bytes(arena, run) / HUGE_EDGE_BLOCK)
    *others += run->units;
  else if (run->fresh >= run->capacity - run->capacity / UNTOUCHED_SHARE)
    *filled += run->units;
}

/* What is mapped next is taken for as dense as what was mapped last. */
static bool is_dense(const arena_t *arena)
{
  size_t end = arena->committed, filled = 0, others = 0;
  if (end < WINDOW_UNITS)
    return false;
  for (size_t unit = end - WINDOW_UNITS; unit < end; unit++)
    if (!bit_test(arena->room.map, unit) && bit_test(arena->start, unit))
      count_run(arena, &arena->runs[unit], &filled, &others);
  return filled >= FILLED_LEAST && others <= OTHERS_MOST;
}

/* A virtual machine may hand free memory back to its host, and Linux does so with huge pages alone. Then each costs what 512
 * faults of the host do: 4 to 7 ms where it is .2 elsewhere, and small pages, which the system uses again, cost less. So in
 * each step the first is touched at once, as it would be soon, and timed. The system hands out what the host still has before
 * what it has not, with a page of the other kind here and there. So a single slow one says nothing; after two in a row so many
 * steps go without as double with each slow one from then on. */
static struct {
  uint32_t slow;  /* trials in a row that were slow */
  uint32_t pause; /* steps without after the last of them; 0: none */
  uint32_t left;  /* of them */
} trials;         /* under the lock of the process's space, the only one whose arenas have an edge */

static bool page_is_quick(arena_t *arena, size_t unit)
{
  wish(arena, unit, unit + HUGE_PAGE_UNITS, true);
  uint64_t before = os_now_ms();
  os_touch(arena->base + (unit << arena->unit_log2));
  return os_now_ms() - before < SLOW_MS;
}

static bool pages_are_quick(arena_t *arena, size_t unit)
{
  if (trials.left) {
    trials.left--;
    return false;
  }
  bool quick = page_is_quick(arena, unit);
  trials.slow = quick ? 0 : trials.slow + 1;
  trials.left = trials.pause = trials.slow < SLOW_IN_A_ROW ? 0 : (uint32_t)max_size(2 * trials.pause, PAUSE_LEAST);
  return quick;
}

/* Atomic, because huge_edge_split() reads it without the lock. */
static void set_huge_from(arena_t *arena, size_t unit)
{
  __atomic_store_n(&arena->huge_from, (uint32_t)unit, __ATOMIC_RELAXED);
}

static void move_edge(arena_t *arena, size_t end)
{
  size_t from = arena->committed, had = arena->huge_from, edge = round_down(end, HUGE_PAGE_UNITS) - HUGE_EDGE_UNITS;
  if (had && had < edge)
    wish(arena, had, min_size(edge, from), false);
  size_t first = round_up(from, HUGE_PAGE_UNITS);
  if (first + HUGE_PAGE_UNITS <= end && is_dense(arena) && pages_are_quick(arena, first))
    wish(arena, first, round_down(end, HUGE_PAGE_UNITS), true);
  set_huge_from(arena, max_size(had ? had : from, edge));
}

void huge_edge_move(arena_t *arena, size_t end)
{
  if (arena->huge_pages == HUGE_PAGES_ALWAYS) {
    wish(arena, arena->committed, end, true);
    set_huge_from(arena, 1); /* any may be huge */
  } else if (huge_edge_is_wanted(arena, end)) {
    move_edge(arena, end);
  }
}

void huge_edge_fill(arena_t *arena, size_t from, size_t to)
{
  if (arena->huge_pages == HUGE_PAGES_ALWAYS)
    wish(arena, from, to, true);
}

void huge_edge_unmap(arena_t *arena, size_t from, size_t to)
{
  if (arena->huge_from)
    mark_huge(arena, from, to, false);
}

void huge_edge_contract(arena_t *arena, size_t end)
{
  if (!arena->huge_from)
    return;
  set_huge_from(arena, min_size(arena->huge_from, end));
  mark_huge(arena, round_up(end, HUGE_PAGE_UNITS), HUGE_PAGES_MOST * HUGE_PAGE_UNITS, false);
}

void huge_edge_note_fork(arena_t *arena) { __atomic_store_n(&arena->forked, true, __ATOMIC_RELAXED); }

/* The mark goes when the page has been split, so that others who purge in it meanwhile do not do so while it is whole. In the
 * edge a page may become huge again. */
static void split_around(arena_t *arena, const char *address)
{
  size_t bytes = (size_t)HUGE_PAGE_UNITS << arena->unit_log2, unit = unit_of(arena, address);
  if ((size_t)(address - arena->base) % bytes == 0 || !may_be_huge(arena, unit))
    return;
  os_split_huge_page((char *)(uintptr_t)round_down((uintptr_t)address, os_page_size()));
  if (unit / HUGE_PAGE_UNITS * HUGE_PAGE_UNITS + HUGE_PAGE_UNITS <= __atomic_load_n(&arena->huge_from, __ATOMIC_RELAXED) &&
      !__atomic_load_n(&arena->forked, __ATOMIC_RELAXED))
    mark_huge(arena, unit, unit + 1, false);
}

void huge_edge_split(arena_t *arena, const char *from, const char *to)
{
  if (!__atomic_load_n(&arena->huge_from, __ATOMIC_RELAXED))
    return;
  split_around(arena, from);
  split_around(arena, to);
}
