/* SPDX-License-Identifier: MIT */
#include "space/huge_edge.h"
#include "option.h"
#include "os/os.h"

enum {
  GAUGE_UNITS = 8 * HUGE_PAGE_UNITS, /* what was used last tells what will be used next */
  FRESH_SHARE = 8                    /* at most this part of it may be untouched */
};

bool huge_edge_is_wanted(const arena_t *arena, size_t committed)
{
  return arena->huge_pages == HUGE_PAGES_AUTO && committed >= HUGE_EDGE_FROM;
}

static void wish(const arena_t *arena, size_t from, size_t to, bool wanted)
{
  if (from < to)
    os_wish_huge_pages(arena->base + (from << arena->unit_log2), (to - from) << arena->unit_log2, wanted);
}

/* Many heaps of little use, or many size classes, fill units with slabs of which hardly a page is touched. What the system
 * holds does not tell of it: a huge page is held whole. The fresh marks do. */
static bool is_dense(const arena_t *arena)
{
  size_t to = min_size(arena->used_end, arena->committed), from = to > GAUGE_UNITS ? to - GAUGE_UNITS : 0;
  size_t untouched = (bits_count(arena->room.map, from, to) - bits_count(arena->dirty, from, to)) << arena->unit_log2;
  for (size_t at = bits_next_set(arena->start, from, to); at < to; at = bits_next_set(arena->start, at + 1, to))
    untouched += run_fresh_bytes(&arena->runs[at], arena->unit_log2);
  return untouched <= (to - from) / FRESH_SHARE << arena->unit_log2;
}

void huge_edge_move(arena_t *arena, size_t end)
{
  size_t had = arena->huge_from ? arena->huge_from : arena->committed, edge = end;
  if (arena->huge_pages == HUGE_PAGES_ALWAYS)
    wish(arena, arena->committed, end, true);
  if (!huge_edge_is_wanted(arena, end))
    return;
  if (is_dense(arena))
    edge = max_size(round_down(end, HUGE_PAGE_UNITS) - HUGE_EDGE_UNITS, had);
  wish(arena, max_size(arena->committed, edge), end, true);
  wish(arena, had, min_size(edge, arena->committed), false);
  arena->huge_from = (uint32_t)edge;
}
