/* SPDX-License-Identifier: MIT
 * For which units of an arena huge pages are wished: a map of the wishes is kept beside it. */
#include "arenas.h"
#include "option.h"
#include "os_fake.h"
#include "space/huge_edge.h"
#include <string.h>

enum { UNITS = 4096, PAGE_UNITS = 32, LEAST = 256, EDGE = 128, TURN = 1024, BLOCK = 4096 };

/* Of each unit: the last wish since it was mapped. */
static enum { NONE, HUGE, SMALL } wishes[UNITS];
static size_t wish_count;
static arena_t *arena;

static void note(const char *address, size_t size, bool wanted)
{
  size_t from = (size_t)(address - arena->base) / UNIT;
  must(size && size % UNIT == 0 && (uintptr_t)address % UNIT == 0 && from + size / UNIT <= UNITS);
  wish_count++;
  for (size_t i = from; i < from + size / UNIT; i++)
    wishes[i] = wanted ? HUGE : SMALL;
}

static void begin(uint8_t huge_pages)
{
  bring_up(2);
  os_fake.wished = note;
  arena = create(0, UNITS);
  arena->huge_pages = huge_pages;
}

static run_t *take(size_t units)
{
  run_t *run;
  past_t past;
  must(arena_take(arena, units, 1, &run, &past) == TAKEN);
  return run;
}

/* What stands in the run, of which so many blocks of that size were handed out at some time. */
static void become(run_t *run, run_kind_t kind, size_t block_size, double handed_out)
{
  run->capacity = (uint32_t)(run->units * UNIT / block_size);
  run->fresh = (uint32_t)(run->capacity * handed_out);
  run_become(run, kind, NULL);
}

/* A slab of small blocks, full. */
static run_t *take_full(size_t units)
{
  run_t *run = take(units);
  become(run, RUN_SLAB, BLOCK, 1);
  return run;
}

static void give(run_t *run)
{
  size_t at = (size_t)(run - arena->runs);
  arena_set_start(arena, at, false);
  arena_give(arena, at, at + run->units);
}

static size_t count(int wish, size_t from, size_t to)
{
  size_t found = 0;
  for (size_t i = from; i < to; i++)
    found += (int)wishes[i] == wish;
  return found;
}

/* A page is huge or not as a whole, none is behind the edge or behind the end. Returns how many pages of the edge are. */
static size_t check_edge(void)
{
  size_t end = arena->committed, wished = 0;
  must(arena->huge_from <= end && end - arena->huge_from < EDGE + 2 * PAGE_UNITS);
  must(count(HUGE, 0, max_size(LEAST, arena->huge_from / PAGE_UNITS * PAGE_UNITS)) == 0 &&
       count(NONE, end, UNITS) == UNITS - end);
  for (size_t page = arena->huge_from / PAGE_UNITS + 1; (page + 1) * PAGE_UNITS <= end; page++) {
    size_t huge = count(HUGE, page * PAGE_UNITS, (page + 1) * PAGE_UNITS);
    must(huge == 0 || huge == PAGE_UNITS);
    wished += huge != 0;
  }
  return wished;
}

/* ---- growth ---- */

static void grows(void *argument)
{
  (void)argument;
  size_t taken = 0, pages = 0, huge = 0;
  begin(HUGE_PAGES_AUTO);
  for (size_t units = 1; taken + units <= UNITS; units = units % 7 + 1, taken += units) {
    size_t had = arena->committed;
    take_full(units);
    must(arena->committed < LEAST ? wish_count == 0 : arena->committed % PAGE_UNITS == 0);
    if (had < LEAST || had == arena->committed)
      continue;
    pages += (arena->committed - had) / PAGE_UNITS;
    huge += count(HUGE, had, arena->committed) / PAGE_UNITS;
    must(check_edge() >= 2);
  }
  must(arena->committed == UNITS && huge == pages && pages > (UNITS - LEAST) / PAGE_UNITS - 5 && os_fake.touches < pages);
}

/* ---- what is not known to be touched ---- */

typedef struct filling {
  run_kind_t kind;
  size_t block_size;
  double handed_out;
  bool is_dense;
} filling_t;

static void filled(void *argument)
{
  const filling_t *filling = argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS; i++)
    become(take(1), filling->kind, filling->block_size, filling->handed_out);
  must((count(HUGE, 0, UNITS) > 0) == filling->is_dense);
}
WITH(filled, filling_t, {RUN_SLAB, BLOCK, 1, true}, {RUN_SLAB, 16, 1, true}, {RUN_SLAB, 512, .95, true},
     {RUN_SLAB, 512, .9, false}, {RUN_SLAB, BLOCK, .01, false}, {RUN_SLAB, HUGE_EDGE_BLOCK, 1, true},
     {RUN_SLAB, 20480, 1, false}, {RUN_LARGE, BLOCK, 1, false}, {RUN_SPARE, BLOCK, 1, false}, {RUN_REGION, BLOCK, 1, false},
     {RUN_NONE, BLOCK, 1, false})

/* A quarter may be slabs that are being filled, and a sixteenth large blocks. */
typedef struct share {
  size_t open, large; /* of each 64 units */
  bool is_dense;
} share_t;

static void partly(void *argument)
{
  const share_t *share = argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS; i++) {
    size_t at = i * 29 % 64;
    bool is_large = at < share->large, is_open = !is_large && at < share->large + share->open;
    become(take(1), is_large ? RUN_LARGE : RUN_SLAB, BLOCK, is_open ? .2 : 1);
  }
  must((count(HUGE, 0, UNITS) > 0) == share->is_dense);
}
WITH(partly, share_t, {0, 0, true}, {16, 0, true}, {17, 0, false}, {64, 0, false}, {0, 4, true}, {0, 5, false}, {12, 4, true},
     {13, 4, false})

/* Slabs that have been given back are no slabs. */
static void holes(void *argument)
{
  (void)argument;
  static run_t *runs[LEAST];
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < LEAST; i++)
    runs[i] = take_full(1);
  for (size_t i = 0; i < LEAST; i += 2)
    give(runs[i]);
  take(UNITS / 2);
  must(count(HUGE, 0, UNITS) == 0);
}

/* Sixteen MiB that are hardly touched, and as many that are full, in turn. */
static void sparse(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS; i++) {
    bool is_sparse = i / TURN % 2;
    become(take(1), RUN_SLAB, BLOCK, is_sparse ? .1 : 1);
    size_t since = i % TURN;
    if (i < LEAST || since < TURN * 3 / 4)
      continue;
    size_t wished = check_edge();
    must(is_sparse ? wished == 0 : wished > 0);
  }
}

/* ---- the other settings ---- */

static void never(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_NEVER);
  for (int i = 0; i < UNITS; i++)
    take(1);
  must(wish_count == 0);
}

static void always(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_ALWAYS);
  for (size_t i = 0; i < UNITS; i++) {
    take(1);
    must(count(HUGE, 0, arena->committed) == arena->committed && arena->committed % PAGE_UNITS == 0 &&
         count(NONE, arena->committed, UNITS) == UNITS - arena->committed);
  }
  must(os_fake.touches == 0);
  huge_edge_split(arena, arena->base + UNIT, arena->base + PAGE_UNITS * UNIT);
  must(os_fake.splits == 1);
}

/* Where a huge page takes long, one is tried now and then, and later less often; where it does not, the others follow. */
static void slow(void *argument)
{
  (void)argument;
  size_t half = 0, huge = 0;
  begin(HUGE_PAGES_AUTO);
  os_fake.touch_ms = 4;
  for (size_t i = 0; i < UNITS; i++) {
    take_full(1);
    if (i == UNITS / 2)
      half = os_fake.touches;
    must(arena->committed < LEAST || check_edge() <= 1);
  }
  must(half > 1 && half < 5 && os_fake.touches < 2 * half);
  os_fake.touch_ms = 0;
  arena = create(1, UNITS);
  arena->huge_pages = HUGE_PAGES_AUTO;
  memset(wishes, 0, sizeof wishes);
  for (size_t i = 0; i < UNITS; i++) {
    take_full(1);
    huge = max_size(huge, arena->committed < LEAST ? 0 : check_edge());
  }
  must(huge >= 3);
}

/* What the host still has is handed out with a page here and there that it has not. */
static void slow_now_and_then(void *argument)
{
  (void)argument;
  size_t steps = 0, huge = 0;
  bool tried = false;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS; i++) {
    size_t had = arena->committed;
    os_fake.touch_ms = steps % 3 == 0 ? 4 : 0;
    take_full(1);
    if (had < LEAST || had == arena->committed)
      continue;
    huge += count(HUGE, had, arena->committed) > PAGE_UNITS;
    tried |= os_fake.touches > 0;
    steps += tried;
  }
  must(steps > 20 && os_fake.touches == steps && huge >= steps / 3 * 2 - 1);
}

/* ---- what is in the way ---- */

/* The end is given back and mapped again: its wishes went with it. */
static void shrinks(void *argument)
{
  static run_t *runs[UNITS];
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t least = UNITS / 2; least != 0; least = least / 3 * 2) {
    size_t from = SIZE_MAX;
    for (size_t i = 0; i < UNITS - PAGE_UNITS; i++)
      runs[i] = runs[i] ? runs[i] : take_full(1);
    for (size_t i = least; i < UNITS - PAGE_UNITS; i++, runs[i - 1] = NULL)
      give(runs[i]);
    for (size_t below = SIZE_MAX, to; arena_highest_dirty(arena, below, &from, &to); below = from) {
      arena_begin_purge(arena, from, to);
      arena_end_purge(arena, from, to, true);
    }
    arena_unmap_idle(arena, SIZE_MAX);
    must(arena->committed == least && arena->huge_from <= least);
    for (size_t i = least; i < UNITS; i++)
      wishes[i] = NONE;
  }
  wish_count = 0;
  for (size_t i = arena->committed; i < UNITS / 2; i++) {
    take_full(1);
    must(arena->committed >= LEAST || wish_count == 0);
  }
  must(check_edge() > 0);
}

/* A step that is refused is made as short as it can be, and ends anywhere. */
static void short_steps(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (int i = 0; i < LEAST; i++)
    take_full(1);
  size_t first = arena->committed, edge = arena->huge_from;
  for (size_t i = LEAST; i < first; i++)
    take_full(1);
  for (size_t i = 0; i < 1000; i++) {
    os_fake.mapped_most = os_fake.mapped_bytes + UNIT + 64 * KIB; /* records may want some too */
    take_full(1);
    must(arena->committed <= first + i + 2 && count(HUGE, first, UNITS) == 0); /* no step has a whole huge page */
  }
  must(arena->huge_from > edge && count(HUGE, 0, UNITS) == 0);
}

/* ---- memory that goes back ---- */

/* Only the huge pages at both ends of it may be others' too. Behind the edge, one that has been split stays so. */
static void split(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (int i = 0; i < UNITS; i++)
    take_full(1);
  char *base = arena->base;
  size_t page = PAGE_UNITS * UNIT, edge = arena->huge_from / PAGE_UNITS + 1, behind = edge - 6;
  must(behind > 2 * LEAST / PAGE_UNITS && count(HUGE, edge * PAGE_UNITS, UNITS) > 0);
  huge_edge_split(arena, base + 4096, base + 2 * page + 8192);
  must(os_fake.splits == 0); /* never wished for */
  huge_edge_split(arena, base + behind * page, base + (behind + 2) * page);
  must(os_fake.splits == 0);
  huge_edge_split(arena, base + behind * page, base + (behind + 2) * page + 8192);
  must(os_fake.splits == 1 && os_fake.split_last == base + (behind + 2) * page + 8192);
  huge_edge_split(arena, base + behind * page + 4096, base + (behind + 2) * page + UNIT);
  must(os_fake.splits == 2 && os_fake.split_last == base + behind * page + 4096);
  huge_edge_split(arena, base + behind * page + UNIT, base + behind * page + 2 * UNIT);
  must(os_fake.splits == 2);
  for (size_t i = 1; i <= 3; i++) {
    huge_edge_split(arena, base + edge * page + UNIT, base + (edge + 1) * page);
    must(os_fake.splits == 2 + i); /* it may be huge again */
  }
}

/* While a child has it too, the system does not split a huge page. */
static void split_after_a_fork(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (int i = 0; i < UNITS; i++)
    take_full(1);
  size_t page = arena->huge_from / PAGE_UNITS - 2;
  char *start = arena->base + page * PAGE_UNITS * UNIT;
  must(page > 2 * LEAST / PAGE_UNITS);
  huge_edge_note_fork(arena);
  for (size_t i = 1; i <= 3; i++) {
    huge_edge_split(arena, start + UNIT, start + PAGE_UNITS * UNIT);
    must(os_fake.splits == i);
  }
  huge_edge_contract(arena, (page - 1) * PAGE_UNITS); /* what is mapped there next is new */
  huge_edge_split(arena, start + UNIT, start + PAGE_UNITS * UNIT);
  must(os_fake.splits == 3);
}

/* Under a limit on memory what is mapped beyond what is needed stays small. */
static void limited(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  os_memory_limit = 512 * MIB;
  for (size_t i = 0; i < UNITS; i++) {
    take_full(1);
    must(arena->committed <= i + 1 + (512 * MIB / 256 >> UNIT_LOG2));
  }
}

IN_CHILD(grows)
IN_CHILD(holes)
IN_CHILD(never)
IN_CHILD(always)
IN_CHILD(sparse)
IN_CHILD(shrinks)
IN_CHILD(short_steps)
IN_CHILD(limited)
IN_CHILD(slow)
IN_CHILD(slow_now_and_then)
IN_CHILD(split)
IN_CHILD(split_after_a_fork)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(grows_test),
    cmocka_unit_test(filled_test),
    cmocka_unit_test(partly_test),
    cmocka_unit_test(holes_test),
    cmocka_unit_test(never_test),
    cmocka_unit_test(always_test),
    cmocka_unit_test(shrinks_test),
    cmocka_unit_test(short_steps_test),
    cmocka_unit_test(limited_test),
    cmocka_unit_test(slow_test),
    cmocka_unit_test(slow_now_and_then_test),
    cmocka_unit_test(sparse_test),
    cmocka_unit_test(split_test),
    cmocka_unit_test(split_after_a_fork_test),
  };
  return cmocka_run_group_tests_name("huge_edge", tests, NULL, NULL);
}
