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

/* The system moves one mapping at a time, and keeps a huge page whole of which a part has moved. So a run is copied if it or
 * its place may be in huge pages. */
typedef struct among {
  uint8_t huge_pages;
  size_t run, place; /* their first units; no place: it is behind the run */
  bool is_marked;    /* the run's page was opened at some time */
  bool moves;
} among_t;

static void occupy_to(size_t unit)
{
  size_t end = space_arena_at(0)->used_end;
  must(end <= unit);
  if (end < unit)
    taken(unit - end);
}

static void among_huge_pages(void *argument)
{
  const among_t *among = argument;
  space_up();
  space_of_process.huge_pages = among->huge_pages;
  arena_t *arena = arena_of(&space_of_process, taken(1)->start);
  char *place = arena->base + among->place * UNIT;
  if (among->place) {
    occupy_to(among->place);
    taken(MORE);
  }
  occupy_to(among->run);
  run_t *run = taken(UNITS);
  must(run->start == arena->base + among->run * UNIT && taken(1));
  fill(run, 7);
  if (among->place)
    space_give(&space_of_process, arena_find(arena, place));
  if (among->is_marked)
    bits_set(arena->huge, among->run / HUGE_PAGE_UNITS, among->run / HUGE_PAGE_UNITS + 1);
  run_t *to = move(run, MORE);
  must(to && (!among->place || to->start == place) && pattern_holds(to->start, UNITS * UNIT, 7));
  must((arena_moved_units() != 0) == among->moves);
  check_space(&space_of_process);
}
WITH(among_huge_pages, among_t, {HUGE_PAGES_AUTO, 2, 0, false, true},
     {HUGE_PAGES_AUTO, HUGE_PAGES_FROM - UNITS, 0, false, false}, {HUGE_PAGES_AUTO, HUGE_PAGES_FROM - 10, 0, false, false},
     {HUGE_PAGES_AUTO, HUGE_PAGES_FROM + 50, 0, false, false}, {HUGE_PAGES_AUTO, ALL_HUGE_TO - 10, 0, false, false},
     {HUGE_PAGES_AUTO, ALL_HUGE_TO, 0, false, true}, {HUGE_PAGES_AUTO, ALL_HUGE_TO, 0, true, false},
     {HUGE_PAGES_AUTO, ALL_HUGE_TO, 1, false, true}, {HUGE_PAGES_AUTO, ALL_HUGE_TO, HUGE_PAGES_FROM - MORE, false, true},
     {HUGE_PAGES_AUTO, ALL_HUGE_TO, HUGE_PAGES_FROM - 10, false, false},
     {HUGE_PAGES_AUTO, ALL_HUGE_TO + 100, ALL_HUGE_TO - 1, false, false},
     {HUGE_PAGES_AUTO, ALL_HUGE_TO + 100, ALL_HUGE_TO, false, true}, {HUGE_PAGES_NEVER, HUGE_PAGES_FROM + 50, 0, false, true},
     {HUGE_PAGES_ALWAYS, 2, 0, false, false})

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
    cmocka_unit_test(among_huge_pages_test),
    cmocka_unit_test(sparse_where_refused_test),
    cmocka_unit_test(may_move_test),
    cmocka_unit_test(refused_test),
    cmocka_unit_test(forbidden_test),
    cmocka_unit_test(stays_one_mapping_test),
  };
  return cmocka_run_group_tests_name("space_move", tests, NULL, NULL);
}
