/* SPDX-License-Identifier: MIT
 * Runs whose pages move: what they hold, what they leave, and what happens where the system refuses. */
#include "check/parts.h"
#include "find_run.h"
#include "option.h"
#include "os_fake.h"
#include "region.h"
#include "runs.h"
#include <sys/mman.h>

enum { UNITS = 40, MORE = 60 };

static run_t *taken(size_t units)
{
  run_t *run = take(&space_of_process, units, 1);
  must(run);
  return run;
}

static run_t *move(run_t *run, size_t units)
{
  run_t *to = space_move(run, units, false);
  if (to)
    run_become(to, RUN_LARGE, &owner);
  return to;
}

static void fill(const run_t *run, uint64_t key) { pattern_write(run->start, run->units * UNIT, key); }

/* The old place is free and clean, and the new end reads as zero if nothing was there before. */
static void moved(void *argument)
{
  (void)argument;
  space_up();
  run_t *run = taken(UNITS), *wall = taken(1);
  fill(run, 3);
  char *start = run->start;
  size_t used = space_of_process.used_units, mapped = os_fake.mapped_bytes;
  must(!space_lengthen(&space_of_process, run, MORE));
  run_t *to = move(run, MORE);
  must(to && to->start > wall->start && to->units == MORE && pattern_holds(to->start, UNITS * UNIT, 3));
  must(all_zero(to->start + UNITS * UNIT, (MORE - UNITS) * UNIT) && space_find(start) == NULL && space_find(to->start) == to);
  must(space_of_process.used_units == used + MORE - UNITS && space_of_process.dirty_units == 0);
  must(os_fake.mapped_bytes >= mapped && arena_moved_units() == MORE);
  check_space(&space_of_process);
  run_t *again = taken(UNITS);
  must(again->start == start && again->zeroed && all_zero(start, UNITS * UNIT));
  space_give(&space_of_process, to);
  space_give(&space_of_process, again);
  space_give(&space_of_process, wall);
  space_purge(&space_of_process, 0);
  must(arena_moved_units() == 0 && space_of_process.used_units == 0);
  check_space(&space_of_process);
}

/* Over units that hold old data, which goes. */
static void over_dirty_units(void *argument)
{
  (void)argument;
  space_up();
  run_t *low = taken(MORE), *wall = taken(1), *run = taken(UNITS);
  fill(low, 9);
  fill(run, 4);
  space_give(&space_of_process, low);
  must(taken(1) && space_of_process.dirty_units == MORE - 1); /* so that the run's end has room, and it must be the low place */
  run_t *behind = taken(1);
  must(wall && behind);
  run_t *to = move(run, MORE - 2);
  must(to && pattern_holds(to->start, UNITS * UNIT, 4));
  check_space(&space_of_process);
}

/* Filled runs are copied to a place that has memory, which stays; sparse ones move, and so do all to a place without. */
typedef struct places {
  bool is_filled;
  size_t memory; /* units of the place that have some */
  bool moves;
} places_t;

static void copied_or_moved(void *argument)
{
  const places_t *places = argument;
  space_up();
  run_t *low = taken(MORE), *wall = taken(1), *run = taken(UNITS), *behind = taken(1);
  must(wall && behind);
  memset(run->start, 0, UNITS * UNIT);
  for (size_t page = 0; page < UNITS * UNIT; page += places->is_filled ? 4096 : 65536)
    run->start[page + 2048 + 4 * 8] = run->start[page] = 1;
  space_give(&space_of_process, low);
  space_purge(&space_of_process, places->memory * UNIT);
  must(space_of_process.dirty_units == places->memory);
  run_t *to = move(run, MORE);
  must(to && to->start < wall->start && to->start[0] == 1 && (arena_moved_units() != 0) == places->moves);
  for (size_t page = 0; page < UNITS * UNIT; page += 65536)
    must(to->start[page] == 1);
  must(space_of_process.dirty_units == (places->moves ? 0 : UNITS));
  check_space(&space_of_process);
}
WITH(copied_or_moved, places_t, {true, MORE, false}, {true, MORE * 3 / 4, false}, {true, MORE / 2, true}, {true, 0, true},
     {false, MORE, true}, {false, 0, true})

static void advise_truly(const char *address, size_t size, bool wanted)
{
  madvise((void *)(uintptr_t)address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static void fill_whole(const run_t *run)
{
  memset(run->start, 1, run->units * UNIT);
  fill(run, 7);
}

static run_t *slab_taken(budget_t *budget)
{
  run_t *slab = space_take_filled(&space_of_process, budget, UNIT);
  must(slab);
  slab->capacity = slab->fresh = 16;
  run_become(slab, RUN_SLAB, &owner);
  slab->start[0] = 1;
  return slab;
}

/* The system moves one mapping at a time, and counts stretches with different requests as mappings. A run across them moves
 * all the same. */
static void across_requests(void *argument)
{
  const size_t *below = argument; /* units below the run; 0: it begins in an open page */
  budget_t budget = {0};
  space_up();
  space_of_process.huge_pages = HUGE_PAGES_AUTO;
  os_fake.wished = advise_truly;
  budget_set_limit(&budget, 0, 0);
  arena_t *arena = NULL;
  for (const run_t *slab = NULL;
       *below ? !slab || unit_of(arena, slab->start) != *below - 1
              : !arena || arena->open_page == NO_PAGE || unit_of(arena, slab->start) % HUGE_PAGE_UNITS != 5;) {
    slab = slab_taken(&budget);
    arena = arena_of(&space_of_process, slab->start);
  }
  run_t *run = taken(UNITS), *wall = taken(1);
  for (size_t units = MORE; units < 3 * MORE; units += MORE) {
    size_t filled = run->units * UNIT;
    fill_whole(run);
    run = move(run, units);
    must(run && arena_moved_units() == units && pattern_holds(run->start, filled, 7));
    must(wall && taken(1));
  }
}
WITH(across_requests, size_t, 0, HUGE_PAGES_FROM - 10, ALL_HUGE_TO - UNITS, ALL_HUGE_TO - 10)

/* Units that are mapped beside others whose request was withdrawn are one mapping with them, also while a child shares a page.
 */
static void across_a_cut(void *argument)
{
  const bool *is_shared = argument;
  budget_t budget = {0};
  space_up();
  space_of_process.huge_pages = HUGE_PAGES_AUTO;
  os_fake.wished = advise_truly;
  budget_set_limit(&budget, 0, 0);
  for (const run_t *slab = NULL;
       !slab || unit_of(arena_of(&space_of_process, slab->start), slab->start) != HUGE_PAGES_FROM + 4;)
    slab = slab_taken(&budget);
  run_t *run = taken(16), *above = taken(UNITS);
  const arena_t *arena = arena_of(&space_of_process, run->start);
  fill_whole(run);
  fill_whole(above);
  if (*is_shared)
    space_note_fork();
  space_give(&space_of_process, above);
  space_purge(&space_of_process, 0);
  must(arena->committed < HUGE_PAGES_FROM + 5 + 16 + UNITS && space_lengthen(&space_of_process, run, MORE));
  fill_whole(run);
  must(taken(1));
  run = move(run, MORE + UNITS);
  must(run && arena_moved_units() == MORE + UNITS && pattern_holds(run->start, MORE * UNIT, 7));
}
WITH(across_a_cut, bool, false, true)

/* A place is used again and again by runs that move away, and is still one mapping after a purge beside it. */
static void moved_in_turn(void *argument)
{
  enum { LENGTH = 64, TURNS = 5 };
  (void)argument;
  budget_t budget = {0};
  space_up();
  space_of_process.huge_pages = HUGE_PAGES_AUTO;
  os_fake.wished = advise_truly;
  budget_set_limit(&budget, 0, 0);
  for (const run_t *slab = NULL;
       !slab || unit_of(arena_of(&space_of_process, slab->start), slab->start) != HUGE_PAGES_FROM + 4;)
    slab = slab_taken(&budget);
  run_t *run = taken(LENGTH), *wall = taken(8), *near = taken(4);
  must(taken(2));
  fill_whole(wall);
  fill_whole(near);
  for (size_t i = 0; i < TURNS; i++, run = i < TURNS ? taken(LENGTH) : NULL) {
    must(run->start < wall->start);
    fill_whole(run);
    if (i == 2) {
      space_give(&space_of_process, near);
      space_purge(&space_of_process, 0);
    }
    run = move(run, 2 * LENGTH);
    must(run && arena_moved_units() == (i + 1) * 2 * LENGTH && pattern_holds(run->start, LENGTH * UNIT, 7));
  }
}

/* Of a run that is mostly untouched the pages that have memory are copied: huge ones would move as a whole. */
static void sparse_in_huge_pages(void *argument)
{
  const bool *is_filled = argument;
  space_up();
  const run_t *below = taken(HUGE_PAGES_FROM);
  run_t *run = taken(UNITS);
  must(below && taken(1));
  arena_t *arena = arena_of(&space_of_process, run->start);
  size_t from = unit_of(arena, run->start);
  bits_set(arena->huge, from / HUGE_PAGE_UNITS, from / HUGE_PAGE_UNITS + 2);
  arena->huge_pages = HUGE_PAGES_AUTO;
  run->start[UNIT] = 5;
  if (*is_filled)
    fill_whole(run);
  run_t *to = move(run, MORE);
  must(to && to->start[UNIT] && (arena_moved_units() != 0) == *is_filled);
}
WITH(sparse_in_huge_pages, bool, false, true)

/* The last request for each unit of the place: 'h' for huge pages, 's' for small ones. */
static char *place, requests[MORE];

static void note_requests(const char *address, size_t size, bool huge)
{
  for (const char *at = address; at < address + size; at += UNIT)
    if (at >= place && at < place + MORE * UNIT)
      requests[(size_t)(at - place) / UNIT] = huge ? 'h' : 's';
}

/* The requests for a place are those of its arena, whatever was requested for the pages that moved there. Marks of huge pages
 * move along, so that a purge splits them. */
typedef struct advice {
  size_t below, huge_from, huge_to; /* units below the place; its units with huge pages */
  bool was_huge;
} advice_t;

static void check_requests(const advice_t *advice)
{
  for (size_t i = 0; i < MORE; i++)
    must(requests[i] == (i >= advice->huge_from && i < advice->huge_to ? 'h' : 's'));
  memset(requests, 0, sizeof requests);
}

static void advised_as_the_place(void *argument)
{
  const advice_t *advice = argument;
  space_up();
  space_of_process.huge_pages = HUGE_PAGES_AUTO;
  const run_t *below = advice->below ? taken(advice->below) : NULL, *low = taken(MORE), *wall = taken(HUGE_PAGE_UNITS);
  run_t *run = taken(UNITS);
  arena_t *arena = arena_of(&space_of_process, run->start);
  must(wall && taken(1) && (!below || low->start == below->start + advice->below * UNIT));
  place = low->start;
  space_give(&space_of_process, arena->runs + unit_of(arena, place));
  space_purge(&space_of_process, 0);
  size_t from = unit_of(arena, run->start), to = unit_of(arena, place);
  bits_clear(arena->huge, 0, HUGE_PAGES_MOST);
  if (advice->was_huge)
    bits_set(arena->huge, from / HUGE_PAGE_UNITS, from / HUGE_PAGE_UNITS + 1);
  os_fake.wished = note_requests;
  huge_pages_note_moved(arena, to, to + MORE, huge_pages_any(arena, from, from + UNITS));
  check_requests(advice);
  must(huge_pages_any(arena, to, to + MORE) == (advice->was_huge || advice->huge_to));
  fill_whole(run);
  os_fake.splits = 0;
  const run_t *moved_to = move(run, MORE);
  must(moved_to && moved_to->start == place && arena_moved_units() == MORE && (os_fake.splits != 0) == advice->was_huge);
  check_requests(advice);
}
WITH(advised_as_the_place, advice_t, {0, 0, 0, false}, {0, 0, 0, true}, {HUGE_PAGES_FROM, 0, MORE, false},
     {HUGE_PAGES_FROM - 10, 10, MORE, true}, {ALL_HUGE_TO, 0, 0, false}, {ALL_HUGE_TO, 0, 0, true},
     {ALL_HUGE_TO - 20, 0, 20, false})

/* Where the system refuses to move, what was never written to does not become memory. */
static void sparse_where_refused(void *argument)
{
  const bool *over_memory = argument;
  unsigned char there[UNITS * UNIT / 4096];
  space_up();
  run_t *low = taken(MORE), *wall = taken(1), *run = taken(UNITS), *behind = taken(1);
  must(wall && behind);
  run->start[0] = run->start[UNITS * UNIT - 1] = 1;
  fill(low, 9);
  space_give(&space_of_process, low);
  if (!*over_memory)
    space_purge(&space_of_process, 0);
  os_fake.fail_kinds = 1 << OS_REMAP;
  os_fake.occupied = true;
  run_t *to = move(run, MORE);
  os_fake_heal();
  must(to && to->start < wall->start && mincore(to->start, UNITS * UNIT, there) == 0);
  size_t resident = 0;
  for (size_t i = 0; i < UNITS * UNIT / os_page_size(); i++)
    resident += there[i] & 1;
  must(resident == 2 && to->start[0] == 1 && to->start[UNITS * UNIT - 1] == 1 && all_zero(to->start + 1, UNITS * UNIT - 2));
  check_space(&space_of_process);
}
WITH(sparse_where_refused, bool, false, true)

/* A short run is left to its owner to copy. So is one that would become longer than a run may be. */
static void may_move(void *argument)
{
  (void)argument;
  space_up();
  const run_t *shorter = taken(15), *run = taken(16);
  must(!space_may_move(shorter, 30) && space_may_move(run, 17) && !space_may_move(run, 16));
  must(space_may_move(run, space_longest_grown()) && !space_may_move(run, space_longest_grown() + 1));
}

/* The run is copied, or as it was; whatever became of the place, nothing is lost but addresses. */
static void refused(void *argument)
{
  const uint32_t *kinds = argument;
  space_up();
  run_t *run = taken(UNITS), *wall = taken(1), *later = taken(MORE);
  space_give(&space_of_process, later); /* the place is mapped */
  fill(run, 5);
  size_t used = space_of_process.used_units;
  os_fake.fail_kinds = *kinds;
  run_t *to = move(run, MORE);
  os_fake_heal();
  bool place_is_lost = (*kinds >> OS_REMAP & 1) && (*kinds >> OS_MAP_AT & 1); /* else it is copied */
  must((to != NULL) == !place_is_lost);
  run_t *now = to ? to : run;
  must(pattern_holds(now->start, UNITS * UNIT, 5) && space_of_process.used_units == used + (to ? MORE - UNITS : 0));
  check_space(&space_of_process);
  for (size_t i = 0; i < 5; i++) {
    run_t *other = taken(MORE);
    must(other->start + MORE * UNIT <= now->start || now->start + now->units * UNIT <= other->start);
    fill(other, 6 + i);
  }
  must(pattern_holds(now->start, UNITS * UNIT, 5) && wall->units == 1);
  check_space(&space_of_process);
}

/* Without a system call it is copied, and nothing of what is to be wiped stays. */
static void forbidden(void *argument)
{
  (void)argument;
  space_up();
  run_t *run = taken(UNITS), *wall = taken(1), *later = taken(MORE);
  space_give(&space_of_process, later);
  fill(run, 8);
  char *start = run->start;
  size_t used = space_of_process.used_units;
  os_forbid(true);
  run = space_move(run, MORE, true);
  os_forbid(false);
  must(run && run->start == wall->start + UNIT && pattern_holds(run->start, UNITS * UNIT, 8));
  run_become(run, RUN_LARGE, &owner);
  must(space_of_process.used_units == used + MORE - UNITS && arena_moved_units() == 0 && all_zero(start, UNITS * UNIT));
  check_space(&space_of_process);
}

/* What has moved does not grow into what has not: the system moves one mapping at once. */
static void stays_one_mapping(void *argument)
{
  (void)argument;
  space_up();
  run_t *run = taken(UNITS), *wall = taken(1);
  fill(run, 7);
  size_t had = UNITS;
  for (size_t units = UNITS + 10; units < min_size(1000, space_longest_run()); units += units / 3) {
    must(!space_lengthen(&space_of_process, run, units));
    run = move(run, units);
    must(run && pattern_holds(run->start, had * UNIT, 7));
    had = units;
    fill(run, 7);
    check_space(&space_of_process);
  }
  must(wall && arena_moved_units() == run->units);
}

IN_CHILD(moved)
IN_CHILD(moved_in_turn)
IN_CHILD(over_dirty_units)
IN_CHILD(may_move)
WITH(refused, uint32_t, 1 << OS_REMAP, 1 << OS_MAP_AT, 1 << OS_REMAP | 1 << OS_MAP_AT)
IN_CHILD(forbidden)
IN_CHILD(stays_one_mapping)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(moved_test),
    cmocka_unit_test(over_dirty_units_test),
    cmocka_unit_test(copied_or_moved_test),
    cmocka_unit_test(across_requests_test),
    cmocka_unit_test(across_a_cut_test),
    cmocka_unit_test(moved_in_turn_test),
    cmocka_unit_test(sparse_in_huge_pages_test),
    cmocka_unit_test(advised_as_the_place_test),
    cmocka_unit_test(sparse_where_refused_test),
    cmocka_unit_test(may_move_test),
    cmocka_unit_test(refused_test),
    cmocka_unit_test(forbidden_test),
    cmocka_unit_test(stays_one_mapping_test),
  };
  return cmocka_run_group_tests_name("space_move", tests, NULL, NULL);
}
