/* SPDX-License-Identifier: MIT */
#include "space/huge_edge.h"
#include "option.h"
#include "os/os.h"

enum {
  DENSE_PARTS = 16, /* so large a part of the probes may be untouched: ends of slabs, and blocks nobody asked for yet */
  PROBES_ASKED = 2,
  QUICK_NS = 1000000,
  PAUSE_LEAST = 8,  /* steps of mapping, of 4 MiB and more */
  SETTLED_PAGES = 1 /* what was mapped last may still be about to be touched */
};

bool huge_edge_is_wanted(const arena_t *arena, size_t committed)
{
  return arena->huge_pages == HUGE_PAGES_AUTO && committed >= HUGE_EDGE_FROM && os_grants_huge_pages();
}

static void wish(const arena_t *arena, size_t from, size_t to, bool wanted)
{
  if (from < to)
    os_wish_huge_pages(arena->base + (from << arena->unit_log2), (to - from) << arena->unit_log2, wanted);
}

/* Every fourth page up to 64 MiB, every eighth up to 256 MiB, then every sixteenth: the larger the arena, the less it matters
 * that sparse memory is noticed late. Pages are numbered from the arena's first unit. */
static bool is_probe(size_t page)
{
  size_t every = page < 32 ? 4 : page < 128 ? 8 : 16;
  return page < HUGE_EDGE_FROM / HUGE_PAGE_UNITS || page % every == every - 1;
}

/* Asks the system how much of the last probes is in use. It is the only one that knows: a slab's blocks and large ones may be
 * handed out and hardly be touched. */
static bool is_dense(const arena_t *arena)
{
  size_t bytes = (size_t)HUGE_PAGE_UNITS << arena->unit_log2, resident = 0, probes = 0;
  for (size_t page = arena->committed / HUGE_PAGE_UNITS; page-- > 0 && probes < PROBES_ASKED;)
    if (is_probe(page) && (page + 1 + SETTLED_PAGES) * HUGE_PAGE_UNITS <= arena->committed) {
      resident += os_resident_bytes(arena->base + page * bytes, bytes);
      probes++;
    }
  return probes == PROBES_ASKED && resident >= PROBES_ASKED * (bytes - bytes / DENSE_PARTS);
}

/* A virtual machine may hand free memory back to its host, and Linux does so with huge pages alone. Then each costs what 512
 * faults of the host do: 4 to 7 ms where it is .1 to .3 elsewhere, and small pages, which the system uses again, cost less. So
 * in each step one is filled at once, as it would be soon, and timed. Where it is slow, so many steps go without as double with
 * each trial. */
static struct {
  uint32_t pause; /* steps without after the last trial; 0: it was quick */
  uint32_t left;  /* of them */
} trials;         /* under the lock of the process's space, the only one whose arenas have an edge */

static bool page_is_quick(const arena_t *arena, size_t page)
{
  size_t bytes = (size_t)HUGE_PAGE_UNITS << arena->unit_log2;
  wish(arena, page * HUGE_PAGE_UNITS, (page + 1) * HUGE_PAGE_UNITS, true);
  uint64_t before = os_now_ns();
  return os_prefault(arena->base + page * bytes, bytes) && os_now_ns() - before < QUICK_NS;
}

static bool pages_are_quick(const arena_t *arena, size_t page)
{
  if (trials.left) {
    trials.left--;
    return false;
  }
  bool quick = page_is_quick(arena, page);
  trials.left = trials.pause = quick ? 0 : (uint32_t)max_size(2 * trials.pause, PAUSE_LEAST);
  return quick;
}

static void wish_between_probes(const arena_t *arena, size_t page, size_t end)
{
  while (page < end && is_probe(page))
    page++;
  if (page >= end || !pages_are_quick(arena, page))
    return;
  for (size_t from = page; page < end; from = ++page) {
    while (page < end && !is_probe(page))
      page++;
    wish(arena, from * HUGE_PAGE_UNITS, page * HUGE_PAGE_UNITS, true);
  }
}

/* Atomic, because huge_edge_split() reads it without the lock. */
static void set_huge_from(arena_t *arena, size_t unit)
{
  __atomic_store_n(&arena->huge_from, (uint32_t)unit, __ATOMIC_RELAXED);
}

void huge_edge_move(arena_t *arena, size_t end)
{
  size_t from = arena->committed, had = arena->huge_from;
  if (arena->huge_pages == HUGE_PAGES_ALWAYS)
    wish(arena, from, end, true);
  if (!huge_edge_is_wanted(arena, end))
    return;
  size_t edge = round_down(end, HUGE_PAGE_UNITS) - HUGE_EDGE_UNITS;
  if (had && had < edge)
    wish(arena, had, min_size(edge, from), false);
  if (is_dense(arena))
    wish_between_probes(arena, round_up(from, HUGE_PAGE_UNITS) / HUGE_PAGE_UNITS, end / HUGE_PAGE_UNITS);
  set_huge_from(arena, max_size(had ? had : from, edge));
}

void huge_edge_contract(arena_t *arena, size_t end) { set_huge_from(arena, min_size(arena->huge_from, end)); }

static void split_around(const arena_t *arena, const char *address)
{
  size_t bytes = (size_t)HUGE_PAGE_UNITS << arena->unit_log2;
  if ((size_t)(address - arena->base) % bytes)
    os_split_huge_page((char *)(uintptr_t)round_down((uintptr_t)address, os_page_size()));
}

void huge_edge_split(const arena_t *arena, const char *from, const char *to)
{
  if (!__atomic_load_n(&arena->huge_from, __ATOMIC_RELAXED))
    return;
  split_around(arena, from);
  split_around(arena, to);
}
