/* SPDX-License-Identifier: MIT
 * For which units of an arena huge pages are wished: a map of the wishes is kept beside it. */
#include "arenas.h"
#include "option.h"
#include "os_fake.h"

enum { UNITS = 4096, PAGE_UNITS = 32, LEAST = 256, EDGE = 128 };

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
  bring_up(1);
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

/* Nothing is wished below the first edge, nothing behind the end, small pages alone between the edges. */
static void check_edge(size_t first)
{
  size_t end = arena->committed, edge = arena->huge_from;
  must(edge >= first && edge <= end && end - edge < EDGE + PAGE_UNITS);
  must(count(NONE, 0, first) == first && count(HUGE, edge, end) == end - edge);
  must(count(HUGE, first, edge) == 0 && count(NONE, end, UNITS) == UNITS - end);
}

/* ---- growth ---- */

static void grows(void *argument)
{
  (void)argument;
  size_t taken = 0, first = 0, most = 0;
  begin(HUGE_PAGES_AUTO);
  for (size_t units = 1; taken + units <= UNITS; units = units % 7 + 1, taken += units) {
    size_t had = arena->committed;
    take(units);
    if (arena->committed < LEAST) {
      must(wish_count == 0);
      continue;
    }
    first = first ? first : had; /* what was mapped before is as the system has it */
    check_edge(first);
    must(arena->committed % PAGE_UNITS == 0);
    most = max_size(most, arena->committed - arena->huge_from);
  }
  must(arena->committed == UNITS && most >= EDGE && count(SMALL, first, UNITS) > UNITS / 2);
}

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
    must(count(HUGE, 0, arena->committed) == arena->committed &&
         count(NONE, arena->committed, UNITS) == UNITS - arena->committed);
  }
}

/* Slabs of which little is handed out: no huge page for them, nor for what comes next; and again one when units are filled. */
static void sparse(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS; i++) {
    bool is_sparse = (i / 512) % 2;
    run_t *run = take(1);
    run->capacity = 16;
    run->fresh = is_sparse ? 16 - 3 : 16;
    run_become(run, RUN_SLAB, NULL);
    size_t since = i % 512, edge = arena->committed - arena->huge_from;
    if (i > LEAST && since > EDGE + LEAST) /* units ahead and behind are of one kind */
      must(is_sparse ? edge == 0 && count(HUGE, 0, UNITS) == 0 : edge >= EDGE && count(HUGE, 0, UNITS) == edge);
  }
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
      runs[i] = runs[i] ? runs[i] : take(1);
    for (size_t i = least; i < UNITS - PAGE_UNITS; i++, runs[i - 1] = NULL)
      give(runs[i]);
    for (size_t below = SIZE_MAX, to; arena_highest_dirty(arena, below, &from, &to); below = from) {
      arena_begin_purge(arena, from, to);
      arena_end_purge(arena, from, to, true);
    }
    arena_contract(arena, true);
    must(arena->committed == least && arena->huge_from <= least);
    for (size_t i = least; i < UNITS; i++)
      wishes[i] = NONE;
  }
  wish_count = 0;
  for (size_t i = arena->committed; i < UNITS / 2; i++) {
    take(1);
    must(arena->committed >= LEAST || wish_count == 0);
  }
  must(count(HUGE, arena->huge_from, arena->committed) >= EDGE);
}

/* A step that is refused is made as short as it can be, and ends anywhere. */
static void short_steps(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (int i = 0; i < LEAST; i++)
    take(1);
  size_t first = arena->committed, edge = arena->huge_from;
  for (size_t i = LEAST; i < first; i++)
    take(1);
  for (size_t i = 0; i < 1000; i++) {
    os_fake.mapped_most = os_fake.mapped_bytes + UNIT + 64 * KIB; /* records may want some too */
    take(1);
    must(arena->committed <= first + i + 2 && count(HUGE, max_size(arena->huge_from, first), arena->committed) ==
                                                arena->committed - max_size(arena->huge_from, first));
  }
  must(arena->huge_from > edge && arena->committed - arena->huge_from < EDGE + PAGE_UNITS);
}

/* Under a limit on memory what is mapped beyond what is needed stays small. */
static void limited(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  os_fake.memory_limit = 512 * MIB;
  for (size_t i = 0; i < UNITS; i++) {
    take(1);
    must(arena->committed <= i + 1 + (512 * MIB / 256 >> UNIT_LOG2));
  }
}

IN_CHILD(grows)
IN_CHILD(never)
IN_CHILD(always)
IN_CHILD(sparse)
IN_CHILD(shrinks)
IN_CHILD(short_steps)
IN_CHILD(limited)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(grows_test),   cmocka_unit_test(never_test),       cmocka_unit_test(always_test),
    cmocka_unit_test(shrinks_test), cmocka_unit_test(short_steps_test), cmocka_unit_test(limited_test),
    cmocka_unit_test(sparse_test),
  };
  return cmocka_run_group_tests_name("huge_edge", tests, NULL, NULL);
}
