/* SPDX-License-Identifier: MIT
 * Runs of which nothing is known grow an arena of their own, once there are huge pages at the end of the other. */
#include "option.h"
#include "os_fake.h"
#include "runs.h"
#include "space/huge_edge.h"

enum { SLAB_UNITS = 4 };

static budget_t budget;

static run_t *take_filled(size_t units)
{
  run_t *run = space_take_filled(&space_of_process, &budget, units * UNIT);
  must(run && run->units == units);
  run_become(run, RUN_LARGE, &owner);
  return run;
}

static run_t *take_sparse(size_t units)
{
  run_t *run = take(&space_of_process, units, 1);
  must(run);
  return run;
}

static size_t slot_of(const run_t *run) { return window_slot_of(run->start); }

static void begin(uint8_t huge_pages)
{
  space_up();
  space_of_process.huge_pages = huge_pages;
  budget_set_limit(&budget, 0, 0);
}

static void fill_up_to(size_t units)
{
  while (space_of_process.used_units < units)
    must(slot_of(take_filled(SLAB_UNITS)) == 0);
}

/* Both kinds are in one arena as long as it is small, and in two afterwards, each of which grows for its own alone. */
static void apart(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  while (space_of_process.used_units < HUGE_EDGE_FROM - 64)
    must(slot_of(take_filled(SLAB_UNITS)) == 0 && slot_of(take_sparse(1)) == 0);
  fill_up_to(HUGE_EDGE_FROM);
  for (size_t i = 0; i < 500; i++) {
    must(slot_of(take_sparse(1 + i % 60)) == 1);
    must(slot_of(take_filled(SLAB_UNITS)) == 0);
  }
  must(window_slots_open() == 2 && space_arena_at(1)->sparse && !space_arena_at(0)->sparse && !space_arena_at(1)->huge_from);
  check_space(&space_of_process);
}

/* What was in use before serves either kind, before an arena grows. */
static void holes_serve_both(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  run_t *low = take_sparse(8), *run;
  fill_up_to(HUGE_EDGE_FROM);
  run_t *first = take_sparse(8), *second = take_sparse(8);
  must(slot_of(low) == 0 && slot_of(first) == 1 && slot_of(second) == 1);
  char *start = first->start;
  size_t committed = space_arena_at(0)->committed;
  space_give(&space_of_process, first);
  while (slot_of(run = take_filled(8)) == 0) { /* what is mapped */
  }
  must(run->start == start && space_arena_at(0)->committed == committed && slot_of(take_filled(8)) == 0);
  must(space_arena_at(0)->committed > committed);
  start = low->start;
  committed = space_arena_at(1)->committed;
  space_give(&space_of_process, low);
  while (slot_of(run = take_sparse(8)) == 1) {}
  must(run->start == start && space_arena_at(1)->committed == committed && slot_of(take_sparse(8)) == 1);
  check_space(&space_of_process);
}

/* Sparse runs that come and go in the first arena need no second one. */
static void one_is_enough(void *argument)
{
  static run_t *runs[40];
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < 40; i++)
    runs[i] = take_sparse(1 + i % 5);
  fill_up_to(HUGE_EDGE_FROM);
  for (size_t i = 0; i < 40; i++)
    space_give(&space_of_process, runs[i]);
  for (size_t i = 0; i < 40; i++)
    runs[i] = take_sparse(1 + i % 5);
  for (size_t i = 0; i < 40; i++)
    space_give(&space_of_process, runs[i]);
  while (space_arena_at(0)->committed - space_arena_at(0)->used_end >= SLAB_UNITS)
    take_filled(SLAB_UNITS);
  must(window_slots_open() == 1);
}

/* An arena that has no room left still has its edge: the next one is for the kind that asks for it. */
static void a_full_arena_counts(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t room = SLOT >> UNIT_LOG2; room; room = space_longest_in(0))
    must(slot_of(take_filled(min_size(room, space_longest_run()))) == 0);
  must(window_slots_open() == 1 && slot_of(take_sparse(8)) == 1 && space_arena_at(1)->sparse);
  must(slot_of(take_filled(SLAB_UNITS)) == 2 && !space_arena_at(2)->sparse);
  for (size_t i = 0; i < 500; i++)
    must(slot_of(take_sparse(8)) == 1 && slot_of(take_filled(SLAB_UNITS)) == 2);
  check_space(&space_of_process);
}

/* Where huge pages are not wished for the end of an arena, there is nothing to keep apart. */
static void together(void *argument)
{
  const int *huge_pages = argument;
  begin((uint8_t)*huge_pages);
  for (size_t i = 0; i < HUGE_EDGE_FROM; i++)
    must(slot_of(take_filled(SLAB_UNITS)) == 0 && slot_of(take_sparse(1)) == 0);
  must(window_slots_open() == 1);
}
WITH(together, int, HUGE_PAGES_NEVER, HUGE_PAGES_ALWAYS)

/* Where no other slot can be had, one arena serves all; where the system has no memory, nobody is served, and later both are.
 */
static void without_another_slot(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_up_to(HUGE_EDGE_FROM);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  while (take(&space_of_process, 60, 1)) { /* what is mapped already */
  }
  check_space(&space_of_process);
  os_fake_heal();
  for (size_t slot = 1; slot < SLOTS_MOST; slot++)
    slots_set(slot, 1, SLOT_RESERVED);
  for (size_t i = 0; i < 100; i++)
    must(slot_of(take_sparse(20)) == 0 && slot_of(take_filled(SLAB_UNITS)) == 0);
}

IN_CHILD(apart)
IN_CHILD(holes_serve_both)
IN_CHILD(a_full_arena_counts)
IN_CHILD(one_is_enough)
IN_CHILD(without_another_slot)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_full_arena_counts_test), cmocka_unit_test(apart_test),    cmocka_unit_test(holes_serve_both_test),
    cmocka_unit_test(one_is_enough_test),       cmocka_unit_test(together_test), cmocka_unit_test(without_another_slot_test),
  };
  return cmocka_run_group_tests_name("space_sparse", tests, NULL, NULL);
}
