/* SPDX-License-Identifier: MIT
 * What of a space's free memory goes back to the system when it is asked for, and what happens where the system does not take
 * it. */
#include "dirty.h"
#include "find_run.h"
#include "os_fake.h"
#include <sys/mman.h>

/* ---- as asked ---- */

/* Given back and taken again: purged memory reads as zero and is known to; dirty memory is not taken for zero. */
static void down_to_what_is_kept(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_dirty(space, 200);
  must(space->dirty_units == 200 && space->used_units == 0);
  must(space_purge(space, 150 * UNIT) == 50 * UNIT && space->dirty_units == 150 && space->purged_bytes == 50 * UNIT);
  must(space_purge(space, 150 * UNIT) == 0 && space_purge(space, SIZE_MAX) == 0);
  must(space_figures(space).dirty_bytes == 150 * UNIT);
  check_space(space);
  run_t *runs[] = {take(space, 50), take(space, 50), take(space, 50), take(space, 50)};
  must(space->dirty_units == 0);
  for (size_t i = 0; i < 4; i++)
    space_give(space, runs[i]);
  must(space->dirty_units == 200);
  must(space_purge(space, 0) == 200 * UNIT && space->dirty_units == 0 && space_purge(space, 0) == 0);
  run_t *run = take(space, 60);
  must(space->dirty_units == 0 && run->start == runs[0]->start);
  check_space(space);
}

/* The highest go first, of the highest arena. */
static void from_the_high_end(void *argument)
{
  enum { MANY = 330, LONG = 50 };
  static run_t *runs[MANY];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  for (size_t i = 0; i < MANY; i++)
    must((runs[i] = space_take(space, LONG, 1)) != NULL);
  must(window_slots_open() == 2);
  for (size_t i = 0; i < MANY; i++)
    space_give(space, runs[i]);
  for (size_t left = MANY * LONG; left > 0; left -= min_size(left, 333)) {
    must(space->dirty_units == left);
    const arena_t *arena = space_arena_at(left > space_arena_at(0)->dirty_count);
    must(arena->dirty_count && bits_count(arena->dirty, 0, arena->dirty_count) == arena->dirty_count);
    space_purge(space, (left - min_size(left, 333)) * UNIT);
    check_space(space);
  }
}

/* ---- addresses ---- */

static void contracted(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *first = take(space, 10);
  size_t mapped = os_fake.mapped_bytes - committed(0) * UNIT - records(0);
  make_dirty(space, 400);
  size_t many = records(0);
  must(os_fake.mapped_bytes == mapped + committed(0) * UNIT + many && committed(0) >= 410);
  must(space_purge(space, 390 * UNIT) == 10 * UNIT && committed(0) >= 400);
  must(space_purge(space, 100 * UNIT) == 290 * UNIT && committed(0) == 110);
  must(space_purge(space, 99 * UNIT) == UNIT && committed(0) == 109);
  must(space_purge(space, 0) == 99 * UNIT && committed(0) == 10);
  must(os_fake.mapped_bytes == mapped + 10 * UNIT + records(0) && records(0) + 64 * KIB < many);
  run_t *run = take(space, 60);
  must(run->start == first->start + 10 * UNIT && run->zeroed);
  check_space(space);
  space_give(space, run);
  space_give(space, first);
  must(space_purge(space, 0) == 70 * UNIT && committed(0) == 0);
  check_space(space);
  must(take(space, 5)->zeroed);
}

/* Addresses that the system does not take back stay, and go another time. */
static void contracted_in_vain(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_dirty(space, 300);
  os_fake.fail_kinds = 1 << OS_UNMAP;
  size_t mapped = os_fake.mapped_bytes;
  must(space_purge(space, 0) == 300 * UNIT && committed(0) >= 300 && os_fake.mapped_bytes == mapped);
  check_space(space);
  must(take(space, 60)->zeroed);
  os_fake_heal();
  must(space_purge(space, 0) == 0 && committed(0) == 60 && os_fake.mapped_bytes < mapped - 200 * UNIT);
  check_space(space);
}

/* What was given back may be somebody else's when it is wanted again. */
static void taken_by_somebody(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *first = take(space, 20);
  make_dirty(space, 300);
  must(space_purge(space, 0) > 0 && committed(0) == 20);
  char *at = first->start + 100 * UNIT,
       *there = mmap(at, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  must(there == at);
  *there = 5;
  make_dirty(space, 300);
  must(*there == 5 && space->dirty_units == 300 && window_slots_open() == 2);
  check_space(space);
  must(space_purge(space, 0) == 300 * UNIT && committed(0) == 20 && committed(1) == 0 && *there == 5);
  check_space(space);
}

/* ---- what the system refuses ---- */

static void in_vain(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_dirty(space, 100);
  for (unsigned halfway = 0; halfway < 2; halfway++) {
    os_fake.fail_kinds = 1 << OS_PURGE;
    os_fake.fail_halfway = halfway;
    must(space_purge(space, 0) == 0 && space->dirty_units == 100 && space->purged_bytes == 0);
    check_space(space);
    must(!take(space, 10)->zeroed && space->dirty_units == 90);
    space_give(space, space_find(space_arena_at(0)->base));
    os_fake_heal();
  }
  must(space_purge(space, 0) == 100 * UNIT);
  check_space(space);
}

/* A locked page keeps its own unit and no more. */
static void around_a_locked_page(void *argument)
{
  const bool *halfway = argument;
  space_up();
  space_t *space = &space_of_process;
  make_dirty(space, 300);
  char *base = space_arena_at(0)->base;
  os_fake.fail_halfway = *halfway;
  os_fake.locked = base + 150 * UNIT + 8192;
  os_fake.locked_end = os_fake.locked + 4096;
  must(space_purge(space, 0) == 299 * UNIT && space->dirty_units == 1 && committed(0) == 151);
  must(bit_test(space_arena_at(0)->dirty, 150));
  check_space(space);
  uint64_t before = purges();
  must(space_purge(space, 0) == 0 && purges() == before + 1);
  os_fake_heal();
  must(space_purge(space, 0) == UNIT && space->dirty_units == 0 && committed(0) == 0);
  check_space(space);
}

/* With a delay of 0 every give purges. What is refused is not asked for at every turn, but after the next tick again. */
static void asked_again_after_a_tick(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 0;
  space->dirty_most = 0;
  os_fake.fail_kinds = 1 << OS_PURGE;
  make_dirty(space, 100);
  uint64_t before = purges();
  must(space->dirty_units == 100 && before > 0);
  for (size_t i = 0; i < 10; i++)
    space_give(space, take(space, 5));
  must(purges() == before);
  must(tick_whole(space, os_fake.now_ms));
  space_give(space, take(space, 5));
  must(purges() > before && space->dirty_units == 100);
  os_fake_heal();
  must(tick_whole(space, os_fake.now_ms));
  space_give(space, take(space, 5));
  must(space->dirty_units == 0);
  check_space(space);
}

/* ---- meanwhile ---- */

static run_t *taken_meanwhile[8];
static size_t taken_count, calls;

static void take_some(os_call_t kind)
{
  space_t *space = &space_of_process;
  if (kind != OS_PURGE || space->lock.word)
    return; /* records go back under the lock */
  calls++;
  os_fake.during = NULL;
  must(!space_find(space_arena_at(0)->base + 299 * UNIT));
  if (taken_count < 8)
    taken_meanwhile[taken_count++] = take(space, 30);
  os_fake.during = take_some;
}

/* The lock is open while the system works: what it works at is nobody's, everything else can be had. */
static void beside_others(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  make_dirty(space, 300);
  os_fake.during = take_some;
  size_t purged = space_purge(space, 0);
  os_fake.during = NULL;
  must(calls > 1 && taken_count > 1 && space->used_units == 30 * taken_count);
  must(purged + 30 * taken_count * UNIT >= 300 * UNIT && space->dirty_units == 0);
  for (size_t i = 0; i < taken_count; i++) {
    for (size_t j = 0; j < i; j++)
      must(taken_meanwhile[i]->start != taken_meanwhile[j]->start);
    for (size_t byte = 0; byte < 30 * UNIT; byte += 512)
      must(taken_meanwhile[i]->start[byte] == 7);
  }
  check_space(space);
}

/* A tick that finds many idle stretches of 2 MiB unmaps a few of them, and a trim all. */
static void few_holes_at_once(void *argument)
{
  enum { STRETCHES = 100, FEW = 20 };
  static run_t *runs[2 * STRETCHES];
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  for (size_t i = 0; i < 2 * STRETCHES; i++)
    runs[i] = take(space, 2 * HUGE_PAGE_UNITS);
  for (size_t i = 0; i < 2 * STRETCHES; i += 2)
    space_give(space, runs[i]);
  for (size_t i = 0; i < TICKS_OF_A_PEAK; i++) {
    uint64_t before = os_fake.count[OS_UNMAP];
    must(tick_whole(space, os_fake.now_ms += 25) && os_fake.count[OS_UNMAP] - before <= FEW);
  }
  const arena_t *arena = space_arena_at(0);
  must(space->dirty_units == KEPT_LEAST && arena->hole_count > 0 && arena->hole_count <= 2 * FEW);
  space_purge(space, 0);
  must(arena->hole_count >= STRETCHES);
  check_space(space);
}

/* ---- inside a run ---- */

static void inside(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *run = take(space, 1);
  char *start = run->start;
  must(space_purge_inside(space, start + 4096, start + 2 * 4096) && space->purged_bytes == 4096);
  must(start[4095] == 7 && all_zero(start + 4096, 4096) && start[2 * 4096] == 7);
  must(space_purge_inside(space, start, start + UNIT) && all_zero(start, UNIT));
  os_fake.fail_kinds = 1 << OS_PURGE;
  memset(start, 7, UNIT);
  must(!space_purge_inside(space, start, start + UNIT) && start[0] == 7 && space->purged_bytes == 4096 + UNIT);
}

IN_CHILD(down_to_what_is_kept)
IN_CHILD(from_the_high_end)
IN_CHILD(contracted)
IN_CHILD(contracted_in_vain)
IN_CHILD(taken_by_somebody)
IN_CHILD(in_vain)
IN_CHILD(asked_again_after_a_tick)
IN_CHILD(beside_others)
IN_CHILD(few_holes_at_once)
IN_CHILD(inside)

static void around_a_locked_page_test(void **state)
{
  (void)state;
  for (unsigned halfway = 0; halfway < 2; halfway++)
    in_child(around_a_locked_page, &(bool){halfway});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(down_to_what_is_kept_test),
    cmocka_unit_test(from_the_high_end_test),
    cmocka_unit_test(contracted_test),
    cmocka_unit_test(contracted_in_vain_test),
    cmocka_unit_test(taken_by_somebody_test),
    cmocka_unit_test(in_vain_test),
    cmocka_unit_test(around_a_locked_page_test),
    cmocka_unit_test(asked_again_after_a_tick_test),
    cmocka_unit_test(beside_others_test),
    cmocka_unit_test(few_holes_at_once_test),
    cmocka_unit_test(inside_test),
  };
  return cmocka_run_group_tests_name("purge", tests, NULL, NULL);
}
