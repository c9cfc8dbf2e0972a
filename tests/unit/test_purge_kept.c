/* SPDX-License-Identifier: MIT
 * How much of a space's free memory is kept, for how long, and in regions. */
#include "../dice.h"
#include "bin/bin.h"
#include "dirty.h"
#include "option.h"
#include "os_fake.h"
#include "region.h"

/* ---- as much as is kept ---- */

/* With a delay of 0 nothing stays. */
static void at_once(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 0;
  space->dirty_most = 0;
  run_t *run = take(space, 64);
  space_shorten(space, run, 10);
  must(space->dirty_units == 0);
  space_give(space, run);
  must(space->dirty_units == 0 && committed(0) == 0);
  check_space(space);
}

/* A peak that is freed stays for the whole delay, without a system call, and goes then. */
static void after_a_peak(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  make_dirty(space, 1000);
  uint64_t before = purges();
  for (size_t i = 1; i < TICKS_OF_A_PEAK; i++)
    must(tick_whole(space, os_fake.now_ms += 25) && space->dirty_units == 1000);
  must(!space_tick(space, os_fake.now_ms += 24) && purges() == before);
  must(tick_whole(space, os_fake.now_ms += 1) && space->dirty_units == KEPT_LEAST);
  check_space(space);
}

/* With a delay of an hour nothing goes for an hour, and with one that never ends nothing goes at all. */
static void with_long_delays(void *argument)
{
  const uint32_t *delay_ms = argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = *delay_ms;
  space->epoch_ms = os_fake.now_ms;
  make_dirty(space, 1000);
  uint64_t before = purges();
  for (size_t ms = 0; ms < *delay_ms && ms < 3600000; ms += 1000)
    tick_whole(space, os_fake.now_ms += 1000);
  must(space->dirty_units == 1000 && purges() == before);
  for (size_t ms = 0; ms <= 3600000; ms += 1000)
    tick_whole(space, os_fake.now_ms += 1000);
  must(space->dirty_units == (*delay_ms == PURGE_NEVER ? 1000 : KEPT_LEAST));
}

/* What is taken and given again and again stays, however long that goes on. When it ends, it goes after the delay. */
static void a_breath(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  make_dirty(space, 500);
  uint64_t before = purges();
  for (size_t i = 0; i < 40; i++) {
    make_dirty(space, 500);
    must(tick_whole(space, os_fake.now_ms += 25));
  }
  must(purges() == before && space->dirty_units == 500);
  size_t ticks = 0;
  while (space->dirty_units > KEPT_LEAST)
    must(tick_whole(space, os_fake.now_ms += 25) && ++ticks <= LOW_WATER_EPOCHS);
  check_space(space);
}

/* What was needed once in a delay stays, be it in one of its epochs only. What was not goes. */
static void what_a_delay_did_not_need(void *argument)
{
  const size_t *epochs = argument; /* from one need to the next */
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  make_dirty(space, 400);
  for (size_t i = 0; i < 40; i++) {
    if (i % *epochs == 0)
      make_dirty(space, 300);
    must(tick_whole(space, os_fake.now_ms += 25));
    must(space->dirty_units == (i < LOW_WATER_EPOCHS ? 400 : 300));
  }
  for (size_t i = 0; i < TICKS_OF_A_PEAK; i++)
    must(tick_whole(space, os_fake.now_ms += 25));
  must(space->dirty_units == KEPT_LEAST);
  check_space(space);
}

/* Replaces blocks of many sizes at random: the free memory lies in pieces, which most runs do not fit into. A purge of all that
 * was not needed faulted a quarter of each new block in again. When the program stops, all of it goes. */
static void what_lies_in_pieces(void *argument)
{
  enum { BLOCKS = 20, LEAST = 80, MOST = 400, REPLACEMENTS = 2000, STEP_OF_CLOCK = 14, MOST_PURGED = 80000, MOST_TICKS = 120 };
  uint64_t dice = 42;
  run_t *runs[BLOCKS] = {NULL};
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < REPLACEMENTS; i++) {
    size_t at = below(&dice, BLOCKS);
    run_t *run = space_take(space, LEAST + below(&dice, MOST - LEAST), 1);
    must(run != NULL);
    run_become(run, RUN_LARGE, &dice);
    if (runs[at])
      space_give(space, runs[at]);
    runs[at] = run;
    tick_whole(space, os_fake.now_ms += STEP_OF_CLOCK);
  }
  must(space->purged_bytes / UNIT <= MOST_PURGED);
  for (size_t i = 0; i < BLOCKS; i++)
    if (runs[i])
      space_give(space, runs[i]);
  size_t ticks = 0;
  for (; space->dirty_units > KEPT_LEAST && ticks < MOST_TICKS; ticks++)
    tick_whole(space, os_fake.now_ms += 25);
  must(space->dirty_units == KEPT_LEAST);
  check_space(space);
}

/* A block that grows at the end takes units that were never used beside its old ones. None of those was returned, so what the
 * block does not need goes as ever. All of it stayed as long as the block grew. */
static void what_grows_at_the_end(void *argument)
{
  enum { PIECES = 200, LENGTH = 100, GROWTHS = 40 };
  run_t *runs[2 * PIECES];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < 2 * PIECES; i++)
    runs[i] = take(space, 1);
  for (size_t i = 0; i < 2 * PIECES; i += 2)
    space_give(space, runs[i]);
  for (size_t i = 1; i <= GROWTHS; i++) {
    run_t *run = take(space, LENGTH + i);
    must(run > runs[2 * PIECES - 1]);
    must(i <= 2 * TICKS_OF_A_PEAK || space->dirty_units <= LENGTH + GROWTHS);
    space_give(space, run);
    must(tick_whole(space, os_fake.now_ms += 25));
  }
  check_space(space);
}

/* A huge page that is free as a whole goes before a part of another, though that lies higher. By default the low ones do not,
 * because the next requests will need them. */
static void whole_huge_pages_first(void *argument)
{
  enum { PAGES = 8, ALL = PAGES * HUGE_PAGE_UNITS };
  static run_t *runs[ALL];
  const uint8_t *huge_pages = argument;
  space_up();
  space_t *space = &space_of_process;
  for (size_t i = 0; i < ALL; i++)
    must((runs[i] = take(space, 1)) != NULL);
  arena_t *arena = space_arena_at(0);
  must(unit_of(arena, runs[0]->start) == 0 && unit_of(arena, runs[ALL - 1]->start) == ALL - 1);
  arena->huge_pages = *huge_pages;
  if (*huge_pages != HUGE_PAGES_NEVER)
    bits_set(arena->huge, 0, PAGES);
  for (size_t i = 0; i < ALL; i++) {
    size_t page = i / HUGE_PAGE_UNITS;
    if (page == 2 || page == 3 || (page >= 6 && i % 2))
      space_give(space, runs[i]);
  }
  must(space->dirty_units == 96 && space_purge(space, 32 * UNIT) == 64 * UNIT);
  must(bits_count(arena->dirty, 6 * HUGE_PAGE_UNITS, ALL) == (*huge_pages == HUGE_PAGES_ALWAYS ? 32 : 0));
  must(space_purge(space, 16 * UNIT) == 16 * UNIT && bits_count(arena->dirty, 0, 7 * HUGE_PAGE_UNITS) == 16);
  check_space(space);
}
WITH(whole_huge_pages_first, uint8_t, HUGE_PAGES_NEVER, HUGE_PAGES_AUTO, HUGE_PAGES_ALWAYS)

/* ---- in steps ---- */

/* So many runs of one unit, every other of them free. A tick finds that nobody needed them. */
static void make_scattered(space_t *space, size_t units)
{
  static run_t *runs[4096];
  space->purge_delay_ms = PURGE_NEVER;
  for (size_t i = 0; i < units; i++)
    runs[i] = take(space, 1);
  for (size_t i = 0; i < units; i += 2)
    space_give(space, runs[i]);
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < LOW_WATER_EPOCHS; i++)
    space->low_dirty.least[i] = (uint32_t)space->dirty_units;
}

/* No caller asks the system for much, or often. What is given meanwhile waits for a tick of its own. */
static void a_tick_in_steps(void *argument)
{
  enum { MANY = 1000, GIVEN = 60 };
  size_t steps = 0;
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *given = take(space, GIVEN);
  make_scattered(space, MANY);
  must(space->dirty_units == MANY / 2 && !space_purge_is_under_way(space));
  uint64_t before = purges();
  must(space_tick(space, os_fake.now_ms += 30) && space_purge_is_under_way(space));
  for (; space_purge_is_under_way(space); steps++) {
    space_purge_step(space, 1);
    must(purges() <= before + STEP_CALLS && (purges() > before || !space_purge_is_under_way(space)));
    must(!space_tick(space, os_fake.now_ms));
    if (steps == 3)
      space_give(space, given);
    before = purges();
    check_space(space);
  }
  must(steps >= MANY / 2 / STEP_CALLS - 2 && space->purged_bytes == MANY / 2 * UNIT && space->dirty_units == GIVEN);
}

/* Where callers are rare, each gives back for the time since the last one did, but for half a second at most. With 32 bits the
 * units are in arenas of 32 MiB, and the end of one counts as a call. */
static void rare_callers(void *argument)
{
  enum { MANY = 4000, ENDS_MOST = ADDRESS_BITS == 64 ? 0 : 4 };
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, MANY);
  must(space_tick(space, os_fake.now_ms += 30));
  size_t expected[] = {1, 1, 1, 2, 10, 128};
  unsigned since[] = {100, 0, 7, 8, 43, 100000};
  step_budget_t budget = 0;
  for (size_t i = 0; i < sizeof since / sizeof *since; i++) {
    uint64_t before = purges();
    space_purge_step(space, step_budget_take(&budget, os_fake.now_ms += since[i]));
    uint64_t calls = purges() - before;
    must(calls <= expected[i] * STEP_CALLS && calls + ENDS_MOST >= expected[i] * STEP_CALLS);
  }
  check_space(space);
}

/* Also where each look is a tick, and the program goes on: a pass keeps to how far it was to go. */
static void a_tick_at_each_look(void *argument)
{
  enum { MANY = 2000 };
  const size_t *busy = argument;
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, MANY);
  for (size_t look = 0; look < 60; look++) {
    run_t *run = *busy ? take(space, *busy) : NULL;
    if (run)
      space_give(space, run);
    space_tick(space, os_fake.now_ms += 30);
    if (space_purge_is_under_way(space))
      space_purge_step(space, 30 / STEP_MS);
  }
  must(space->dirty_units <= KEPT_LEAST + *busy);
}

/* A thread that has read the clock before another did is not an age behind it. */
static void late_callers(void *argument)
{
  step_budget_t budget = 0;
  (void)argument;
  must(step_budget_take(&budget, 1000) == 1 && step_budget_take(&budget, 1040) == 10 && step_budget_take(&budget, 1000) == 1);
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, 1000);
  must(space_tick(space, os_fake.now_ms += 30) && !space_tick(space, os_fake.now_ms - 10));
  size_t keep = space->pass.keep;
  must(space_tick(space, os_fake.now_ms + 30) && space->pass.keep == keep);
}

/* A pass ends where the system takes nothing, and begins again with the next tick. */
static void steps_in_vain(void *argument)
{
  enum { MANY = 200 };
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, MANY);
  os_fake.fail_kinds = 1 << OS_PURGE;
  uint64_t before = purges();
  must(tick_whole(space, os_fake.now_ms += 30));
  must(purges() - before <= MANY / 2 + 1 && space->dirty_units == MANY / 2 && space->purge_failed); /* and once for records */
  os_fake_heal();
  must(tick_whole(space, os_fake.now_ms += 30) && space->dirty_units == KEPT_LEAST);
}

/* A give makes no system call, however much is dirty, and wherever. */
static void gives_without_calls(void *argument)
{
  enum { SINGLE = 2000, LONG = 40, LENGTH = 64 };
  static run_t *single[SINGLE], *runs[LONG];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < LONG; i++)
    runs[i] = take(space, LENGTH);
  for (size_t i = 0; i < SINGLE; i++)
    single[i] = take(space, 1);
  uint64_t calls = purges() + os_fake.count[OS_UNMAP];
  for (size_t n = 0; n < SINGLE; n++)
    space_give(space, single[n * 1237 % SINGLE]); /* no neighbours */
  for (size_t i = 0; i < LONG; i++)
    space_give(space, runs[i]);
  must(purges() + os_fake.count[OS_UNMAP] == calls && space->dirty_units == SINGLE + LONG * LENGTH);
  for (size_t i = 0; i < TICKS_OF_A_PEAK; i++)
    must(tick_whole(space, os_fake.now_ms += 25));
  must(space->used_units == 0 && space->dirty_units == KEPT_LEAST);
  check_space(space);
}

static size_t nested;

/* Another thread comes while the lock is open. */
static void step_too(os_call_t kind)
{
  if (kind != OS_PURGE || space_of_process.lock.word || nested == 3)
    return;
  nested++;
  space_purge_step(&space_of_process, 1);
  nested--;
}

static void by_several(void *argument)
{
  enum { MANY = 2000 };
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, MANY);
  uint64_t before = purges();
  os_fake.during = step_too;
  must(space_tick(space, os_fake.now_ms += 30));
  while (space_purge_is_under_way(space))
    space_purge_step(space, 1);
  os_fake.during = NULL;
  must(purges() - before <= MANY / 2 - space->dirty_units + 1 && space->dirty_units <= KEPT_LEAST); /* and once for records */
  must(space->purged_bytes == (MANY / 2 - space->dirty_units) * UNIT);
  check_space(space);
}

/* ---- regions ---- */

/* In slots of the window: only when asked, or by a tick; the units stay mapped. */
static void slots(void *argument)
{
  space_t space;
  (void)argument;
  space_up();
  must(space_init_slots(&space, 200));
  space.purge_delay_ms = 100;
  space.epoch_ms = os_fake.now_ms;
  size_t mapped = os_fake.mapped_bytes;
  uint64_t before = purges();
  make_dirty(&space, 200);
  must(space.dirty_units == 200 && purges() == before);
  must(space_purge(&space, 100 * UNIT) == 100 * UNIT && space.dirty_units == 100);
  for (size_t i = 1; i <= TICKS_OF_A_PEAK; i++) {
    must(space.dirty_units == 100);
    tick_whole(&space, os_fake.now_ms + 30 * i);
  }
  must(space.dirty_units == KEPT_LEAST && os_fake.mapped_bytes == mapped);
  check_space(&space);
  must(space_purge(&space, 0) == KEPT_LEAST * UNIT && space.own_arena->committed == 200);
  run_t *run = take(&space, 200);
  must(run->zeroed);
  space_destroy_slots(&space);
}

/* A caller's memory is never the system's to have back. */
static void of_a_caller(void *argument)
{
  (void)argument;
  space_up();
  region_t *region = region_new(20 * MIB);
  make_dirty(&region->space, 60);
  must(space_purge(&region->space, 0) == 0 && region->space.dirty_units == region->arena.unit_count);
}

IN_CHILD(at_once)
IN_CHILD(after_a_peak)
IN_CHILD(a_breath)
WITH(with_long_delays, uint32_t, 3600000, PURGE_NEVER)
WITH(what_a_delay_did_not_need, size_t, 1, 2, 3, 4)
IN_CHILD(what_lies_in_pieces)
IN_CHILD(what_grows_at_the_end)
IN_CHILD(a_tick_in_steps)
IN_CHILD(rare_callers)
WITH(a_tick_at_each_look, size_t, 0, 5, 60)
IN_CHILD(late_callers)
IN_CHILD(steps_in_vain)
IN_CHILD(gives_without_calls)
IN_CHILD(by_several)
IN_CHILD(slots)
IN_CHILD(of_a_caller)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(at_once_test),
    cmocka_unit_test(after_a_peak_test),
    cmocka_unit_test(whole_huge_pages_first_test),
    cmocka_unit_test(a_breath_test),
    cmocka_unit_test(with_long_delays_test),
    cmocka_unit_test(what_a_delay_did_not_need_test),
    cmocka_unit_test(what_lies_in_pieces_test),
    cmocka_unit_test(what_grows_at_the_end_test),
    cmocka_unit_test(a_tick_in_steps_test),
    cmocka_unit_test(rare_callers_test),
    cmocka_unit_test(a_tick_at_each_look_test),
    cmocka_unit_test(late_callers_test),
    cmocka_unit_test(steps_in_vain_test),
    cmocka_unit_test(gives_without_calls_test),
    cmocka_unit_test(by_several_test),
    cmocka_unit_test(slots_test),
    cmocka_unit_test(of_a_caller_test),
  };
  return cmocka_run_group_tests_name("purge_kept", tests, NULL, NULL);
}
