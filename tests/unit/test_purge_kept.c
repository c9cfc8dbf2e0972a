/* SPDX-License-Identifier: MIT
 * How much of a space's free memory is kept, for how long, in regions and inside runs. */
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
  run_t *run = take(space, 64);
  space_shorten(space, run, 10);
  must(space->dirty_units == 0);
  space_give(space, run);
  must(space->dirty_units == 0 && committed(0) == 0);
  check_space(space);
}

/* A peak that is freed once goes, but for the least that is kept, or an eighth of what is in use. */
static void after_a_peak(void *argument)
{
  run_t *runs[20];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  make_dirty(space, 60);
  must(space->dirty_units == KEPT_LEAST);
  for (size_t i = 0; i < 20; i++)
    runs[i] = take(space, 50);
  space->taken_again = 0;
  for (size_t i = 20; i-- > 10;)
    space_give(space, runs[i]);
  must(space->dirty_units >= 500 / 8 && space->dirty_units <= 500 / 8 * 5 / 4);
  check_space(space);
  space->purge_delay_ms = PURGE_NEVER;
  for (size_t i = 10; i--;)
    space_give(space, runs[i]);
  must(space->dirty_units > 500);
  must(!space_tick(space, os_fake.now_ms + 1000000));
}

/* What is taken and given again and again is soon kept, as much as is in use or 32 MiB; with time it is forgotten. */
static void a_breath(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < 5; i++)
    make_dirty(space, 400);
  uint64_t before = purges();
  for (size_t i = 0; i < 20; i++)
    make_dirty(space, 400);
  must(purges() == before && space->dirty_units == 400 && space->taken_again > BREATH);
  make_dirty(space, 2000);
  must(space->dirty_units <= BREATH * 3 / 2);
  while (space_purge_is_under_way(space))
    space_purge_step(space, os_fake.now_ms);
  must(space->dirty_units <= BREATH);
  before = space->dirty_units;
  must(!space_tick(space, os_fake.now_ms + 24));
  must(space_tick(space, os_fake.now_ms + 25) && !space_tick(space, os_fake.now_ms + 26));
  must(space->dirty_units <= before);
  size_t ticks = 0;
  while (space->dirty_units > KEPT_LEAST)
    must(tick_whole(space, os_fake.now_ms + 50 + 25 * ticks) && ++ticks < 4);
  check_space(space);
}

/* What was needed within an epoch stays for it, what was not goes. */
static void what_an_epoch_did_not_need(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < 10; i++)
    make_dirty(space, 400);
  must(space->dirty_units == 400);
  must(tick_whole(space, os_fake.now_ms += 30) && tick_whole(space, os_fake.now_ms += 30));
  size_t dirty = space->dirty_units;
  must(dirty <= 400);
  for (size_t i = 0; i < 10; i++) {
    make_dirty(space, 300);
    must(tick_whole(space, os_fake.now_ms += 30));
    must(space->dirty_units >= 300 && space->dirty_units <= 300 + KEPT_LEAST);
  }
  must(tick_whole(space, os_fake.now_ms += 30) && space->dirty_units <= KEPT_LEAST);
  check_space(space);
}

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
  space->low_dirty = space->dirty_units;
}

/* No caller asks the system for much, or often. What is given meanwhile waits for the next tick, or until it is too much. */
static void a_tick_in_steps(void *argument)
{
  enum { MANY = 1000 };
  size_t steps = 0;
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, MANY);
  must(space->dirty_units == MANY / 2 && !space_purge_is_under_way(space));
  uint64_t before = purges();
  must(space_tick(space, os_fake.now_ms += 30) && space_purge_is_under_way(space));
  for (; space_purge_is_under_way(space); steps++) {
    space_purge_step(space, os_fake.now_ms);
    must(purges() <= before + STEP_CALLS && (purges() > before || !space_purge_is_under_way(space)));
    must(!space_tick(space, os_fake.now_ms));
    before = purges();
    check_space(space);
  }
  must(steps >= MANY / 2 / STEP_CALLS - 2 && space->dirty_units == KEPT_LEAST);
  make_dirty(space, MANY);
  must(!space_purge_is_under_way(space) || space->dirty_units <= BREATH * 2);
}

/* Where callers are rare, each gives back for the time since the last one did, but for half a second at most. */
static void rare_callers(void *argument)
{
  enum { MANY = 4000 };
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_scattered(space, MANY);
  must(space_tick(space, os_fake.now_ms += 30));
  size_t expected[] = {1, 1, 1, 2, 10, 128};
  unsigned since[] = {100, 0, 7, 8, 43, 100000};
  for (size_t i = 0; i < sizeof since / sizeof *since; i++) {
    uint64_t before = purges();
    space_purge_step(space, os_fake.now_ms += since[i]);
    must(purges() - before == expected[i] * STEP_CALLS);
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
      space_purge_step(space, os_fake.now_ms);
  }
  must(space->dirty_units <= KEPT_LEAST + *busy);
}

/* A thread that has read the clock before another did is not an age behind it. */
static void late_callers(void *argument)
{
  pace_t pace = 0;
  (void)argument;
  must(pace_steps(&pace, 1000) == 1 && pace_steps(&pace, 1040) == 10 && pace_steps(&pace, 1000) == 1);
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
  must(purges() - before == MANY / 2 && space->dirty_units == MANY / 2 && space->purge_failed);
  os_fake_heal();
  must(tick_whole(space, os_fake.now_ms += 30) && tick_whole(space, os_fake.now_ms += 30));
  must(space->dirty_units == KEPT_LEAST);
}

/* Each give that finds far too much gives back at least as much as came, in few calls. */
static void keeping_pace(void *argument)
{
  enum { MANY = 4000 };
  static run_t *runs[MANY];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  for (size_t i = 0; i < MANY; i++)
    runs[i] = take(space, 1);
  for (size_t n = 0; n < MANY; n++) {
    size_t i = n * 1237 % MANY; /* no neighbours */
    uint64_t before = purges();
    space_give(space, runs[i]);
    must(purges() - before <= 3);
    must(space->dirty_units <= max_size(space->used_units / 8, KEPT_LEAST) * 3 / 2 + 2);
  }
  while (space_purge_is_under_way(space))
    space_purge_step(space, os_fake.now_ms);
  must(space->used_units == 0 && space->dirty_units <= KEPT_LEAST * 5 / 4);
  check_space(space);
}

/* Also where long runs come, and what is highest are single units. */
static void keeping_pace_with_long_runs(void *argument)
{
  enum { SINGLE = 4000, LONG = 200, LENGTH = 64 };
  static run_t *single[SINGLE], *runs[LONG];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  for (size_t i = 0; i < LONG; i++)
    runs[i] = take(space, LENGTH);
  for (size_t i = 0; i < SINGLE; i++)
    single[i] = take(space, 1);
  space->taken_again = 0;
  for (size_t i = 0; i < SINGLE; i += 2)
    space_give(space, single[i]);
  size_t most = space->dirty_units;
  for (size_t i = 0; i < LONG; i++) {
    uint64_t before = purges();
    space_give(space, runs[i]);
    most = max_size(most, space->used_units / 8 * 3 / 2 + LENGTH);
    must(purges() - before <= 33 && space->dirty_units <= most);
    most = space->dirty_units;
  }
  must(space->dirty_units <= (SINGLE / 2 / 8) * 3 / 2);
  check_space(space);
}

static size_t nested;

/* Another thread comes while the lock is open. */
static void step_too(os_call_t kind)
{
  if (kind != OS_PURGE || space_of_process.lock.word || nested == 3)
    return;
  nested++;
  space_purge_step(&space_of_process, os_fake.now_ms);
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
    space_purge_step(space, os_fake.now_ms);
  os_fake.during = NULL;
  must(purges() - before == MANY / 2 - space->dirty_units && space->dirty_units <= KEPT_LEAST);
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
  for (size_t i = 1; i <= 3; i++)
    tick_whole(&space, os_fake.now_ms + 30 * i);
  must(space.dirty_units == KEPT_LEAST && os_fake.mapped_bytes == mapped);
  check_space(&space);
  must(space_purge(&space, 0) == KEPT_LEAST * UNIT && space.fixed->committed == 200);
  run_t *run = take(&space, 200);
  must(run->zeroed);
  space_destroy_slots(&space);
}

/* Small units in memory of the system's; in a caller's, never. */
static void small_units(void *argument)
{
  static _Alignas(64 << 10) char records[1 << 20];
  enum { UNITS = 500 };
  (void)argument;
  space_up();
  for (unsigned unit_log2 = 10; unit_log2 <= 12; unit_log2++) {
    space_t space;
    arena_t arena;
    size_t bytes = (size_t)UNITS << unit_log2;
    char *memory = os_map(bytes, os_fake.page_size);
    memset(memory, 5, bytes);
    must(space_region_records(UNITS, unit_log2) <= sizeof records);
    space_init_region(&space, &arena, records, memory, UNITS, unit_log2, true);
    bool purgeable = (size_t)1 << unit_log2 >= os_fake.page_size;
    must(space.dirty_units == UNITS && space.purgeable == purgeable);
    run_t *run = take(&space, 30);
    must(!run->zeroed && run->start == memory);
    check_space(&space);
    must(space_purge(&space, 0) == (purgeable ? bytes - run_bytes(&arena, run) : 0));
    must(memory[bytes - 1] == (purgeable ? 0 : 5) && memory[0] == 7);
    must(take(&space, UNITS - 30)->zeroed == purgeable);
    check_space(&space);
    os_unmap(memory, bytes);
  }
  region_t *region = region_new(12, MIB);
  make_dirty(&region->space, 60);
  must(space_purge(&region->space, 0) == 0 && region->space.dirty_units == region->arena.unit_count);
}

/* ---- inside a run ---- */

static void inside(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *run = take(space, 1);
  char *start = run->start;
  must(space_purge_inside(space, start + 100, start + 5000) == 0 && all_zero(start + 4096, 0) && start[4096] == 7);
  must(space_purge_inside(space, start + 100, start + 3 * 4096 - 1) == 4096 && space->purged_bytes == 4096);
  must(start[4095] == 7 && all_zero(start + 4096, 4096) && start[2 * 4096] == 7);
  must(space_purge_inside(space, start, start + UNIT) == UNIT && all_zero(start, UNIT));
  os_fake.fail_kinds = 1 << OS_PURGE;
  memset(start, 7, UNIT);
  must(space_purge_inside(space, start, start + UNIT) == 0 && start[0] == 7 && space->purged_bytes == 4096 + UNIT);
}

IN_CHILD(at_once)
IN_CHILD(after_a_peak)
IN_CHILD(a_breath)
IN_CHILD(what_an_epoch_did_not_need)
IN_CHILD(a_tick_in_steps)
IN_CHILD(rare_callers)
WITH(a_tick_at_each_look, size_t, 0, 5, 60)
IN_CHILD(late_callers)
IN_CHILD(steps_in_vain)
IN_CHILD(keeping_pace_with_long_runs)
IN_CHILD(keeping_pace)
IN_CHILD(by_several)
IN_CHILD(slots)
IN_CHILD(small_units)
IN_CHILD(inside)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(at_once_test),
    cmocka_unit_test(after_a_peak_test),
    cmocka_unit_test(a_breath_test),
    cmocka_unit_test(what_an_epoch_did_not_need_test),
    cmocka_unit_test(a_tick_in_steps_test),
    cmocka_unit_test(rare_callers_test),
    cmocka_unit_test(a_tick_at_each_look_test),
    cmocka_unit_test(late_callers_test),
    cmocka_unit_test(keeping_pace_with_long_runs_test),
    cmocka_unit_test(steps_in_vain_test),
    cmocka_unit_test(keeping_pace_test),
    cmocka_unit_test(by_several_test),
    cmocka_unit_test(slots_test),
    cmocka_unit_test(small_units_test),
    cmocka_unit_test(inside_test),
  };
  return cmocka_run_group_tests_name("purge_kept", tests, NULL, NULL);
}
