/* SPDX-License-Identifier: MIT
 * The runs of a space: which is found, how it becomes longer or shorter, who walks over them, and whose budget they are charged
 * to. */
#include "find_run.h"
#include "os_fake.h"
#include "region.h"
#include "runs.h"
#include "space/budget.h"

enum { LONG = 64 }; /* units, of which an arena has room for more than 200 */

/* ---- the process's space ---- */

/* Where the system maps no more, a stretch that is mapped serves, although a hole below it is long enough. */
static void above_a_hole(void *argument)
{
  enum { UNITS = 3 * HUGE_PAGE_UNITS };
  const size_t *alignment = argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *low = take(space, UNITS, 1), *wall = take(space, 1, 1), *high = take(space, UNITS, 1), *last = take(space, 1, 1);
  must(low && wall && high && last);
  char *start = low->start, *mapped = high->start;
  space_give(space, low);
  space_purge(space, 0);
  must(space_arena_at(0)->hole_count == UNITS / HUGE_PAGE_UNITS);
  space_give(space, high);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  run_t *run = take(space, UNITS - HUGE_PAGE_UNITS, *alignment);
  must(run && run->start >= mapped && run->start < last->start);
  must(!take(space, UNITS - 1, 1));
  check_space(space);
  os_fake_heal();
  refusals_forget();
  must(take(space, UNITS - 1, 1)->start == start);
  check_space(space);
}
WITH(above_a_hole, size_t, 1, 4, HUGE_PAGE_UNITS)

static void lowest_first(void *argument)
{
  (void)argument;
  space_up();
  run_t *runs[6];
  for (size_t i = 0; i < 6; i++) {
    runs[i] = take(&space_of_process, 3, 1);
    must(runs[i] && runs[i]->units == 3 && runs[i]->zeroed);
    must(i == 0 || runs[i]->start == runs[i - 1]->start + 3 * UNIT);
  }
  char *second = runs[1]->start, *fourth = runs[3]->start;
  space_give(&space_of_process, runs[3]);
  space_give(&space_of_process, runs[1]);
  run_t *first = take(&space_of_process, 2, 1), *next = take(&space_of_process, 3, 1), *last = take(&space_of_process, 1, 1);
  must(first->start == second && !first->zeroed);
  must(next->start == fourth && !next->zeroed);
  must(last->start == second + 2 * UNIT && !last->zeroed);
  check_space(&space_of_process);
}

static void aligned(void *argument)
{
  (void)argument;
  space_up();
  for (size_t alignment = 1; alignment <= space_longest_run(); alignment *= 2)
    for (size_t units = 1; units <= space_longest_run(); units = units * 3 + 1) {
      run_t *run = take(&space_of_process, units, alignment);
      must(run && (uintptr_t)run->start % (alignment << UNIT_LOG2) == 0);
    }
  must(!take(&space_of_process, 1, space_longest_run() * 2));
  check_space(&space_of_process);
}

/* Threads of a node have arenas of their own, as long as there can be more. */
static void of_nodes(void *argument)
{
  (void)argument;
  space_up();
  run_t *first = take(&space_of_process, 8, 1), *hole = take(&space_of_process, 8, 1), *last = take(&space_of_process, 8, 1);
  must(window_slot_of(last->start) == 0);
  space_give(&space_of_process, hole);
  os_has_nodes = true;
  os_fake.node = 3;
  for (size_t i = 0; i < 100; i++)
    must(window_slot_of(take(&space_of_process, 8, 1)->start) == 1);
  os_fake.node = 0;
  run_t *again = take(&space_of_process, 8, 1);
  must(again->start == first->start + 8 * UNIT && window_slots_open() == 2);
  must(window_slot_of(take(&space_of_process, space_longest_run(), 1)->start) == 0);
  check_space(&space_of_process);
  /* There are no more: what is left in the arena of the other node serves. */
  space_give(&space_of_process, again);
  must(window_open(window_slots_most()));
  for (size_t slot = 2; slot < window_slots_most(); slot++)
    slots_set(slot, 1, SLOT_RESERVED);
  os_fake.node = 7;
  run_t *far = take(&space_of_process, 8, 1);
  must(far && far->start == first->start + 8 * UNIT);
  size_t count = 0;
  while (take(&space_of_process, LONG, 1))
    count++;
  must(count > 2 * 200 && space_longest_in(0) < LONG && space_longest_in(1) < LONG);
  check_space(&space_of_process);
}

/* More arenas come when one is full, and the lowest that has room is taken from first. */
static void more_arenas(void *argument)
{
  (void)argument;
  space_up();
  size_t longest = LONG, count = 0;
  run_t *first = take(&space_of_process, longest, 1), *run = first;
  must(!take(&space_of_process, space_longest_grown() + 1, 1));
  while (window_slots_open() < 3) {
    run = take(&space_of_process, longest, 1);
    must(run);
    touch(run, longest << UNIT_LOG2);
    must(space_find(run->start) == run && space_find(run->start + (longest << UNIT_LOG2) - 1) == run);
    must(++count < 600);
  }
  must(count > 2 * 240 && window_slot_of(run->start) == 2);
  char *start = first->start;
  space_give(&space_of_process, first);
  run = take(&space_of_process, longest, 1);
  must(run->start == start && !run->zeroed && window_slots_open() == 3);
  check_space(&space_of_process);
}

static void longer_and_shorter(void *argument)
{
  (void)argument;
  space_up();
  space_t *space = &space_of_process;
  run_t *run = take(space, 10, 1), *wall = take(space, 1, 1);
  must(!space_lengthen(space, run, 11));
  space_shorten(space, run, 4);
  must(run->units == 4 && space->used_units == 5 && space->dirty_units == 6);
  must(run->zeroed && space_lengthen(space, run, 10) && run->units == 10 && !run->zeroed && space->dirty_units == 0);
  space_give(space, wall);
  must(space_lengthen(space, run, space_longest_run()) && run->units == space_longest_run());
  touch(run, space_longest_run() << UNIT_LOG2);
  must(!space_lengthen(space, run, space_longest_grown() + 1));
  check_space(space);
  space_give(space, run);
  must(space->used_units == 0 && space->dirty_units == space_longest_run());
  check_space(space);
}

static void note_kind(const run_t *run, void *context)
{
  const run_t **found = context;
  must(run->kind == RUN_LARGE);
  *found = run;
}

static bool had_run(const void *address) { return space_had_run(space_arena_around(address), address); }

static void finding(void *argument)
{
  const run_t *asked = NULL;
  must(!space_find(argument) && !space_find(NULL) && !had_run(NULL));
  space_up();
  run_t *a = take(&space_of_process, 2, 1), *b = take(&space_of_process, 60, 1), *c = take(&space_of_process, 1, 1);
  must(space_find(a->start) == a && space_find(a->start + 2 * UNIT - 1) == a);
  must(space_find(b->start) == b && space_find(b->start + 60 * UNIT - 1) == b && space_find(b->start + 55 * UNIT) == b);
  must(space_find(c->start) == c && !space_find(c->start + UNIT) && !space_find(a->start - 1));
  must(!space_find(space_arena_at(0)) && !space_find((char *)space_arena_at(0) - 1));
  must(space_ask(space_arena_at(0), b->start + UNIT, note_kind, &asked) && asked == b &&
       !space_ask(space_arena_at(0), c->start + UNIT, note_kind, &asked));
  b->size = 5;
  char *was = b->start;
  must(!had_run(was));
  space_give(&space_of_process, b);
  must(!space_find(was) && !space_find(was + 59 * UNIT) && space_find(c->start) == c);
  must(had_run(was) && !had_run(was + 1) && !had_run(c->start));
  dice_t dice = {1};
  for (size_t i = 0; i < 100000; i++) {
    uintptr_t any = dice_roll(&dice) >> dice_below(&dice, 64);
    must(!space_find((void *)any) && !had_run((void *)any));
    const run_t *run = space_find((void *)(class_window.start + any));
    must(!run || run == a || run == c);
  }
}

/* ---- walks ---- */

typedef struct steps {
  const run_t *run;
  const run_t *unwanted;
  size_t asked;
} steps_t;

static bool want(const run_t *run, void *context)
{
  steps_t *steps = context;
  steps->asked++;
  steps->run = run;
  return run != steps->unwanted;
}

/* By address, from arena to arena, those that are wanted. */
static void one_after_the_other(void *argument)
{
  enum { MANY = 500 };
  run_t *runs[MANY];
  (void)argument;
  space_up();
  for (size_t i = 0; i < MANY; i++)
    must((runs[i] = take(&space_of_process, 40, 1)) != NULL);
  must(window_slots_open() == 2);
  for (size_t i = 0; i < MANY; i += 2)
    space_give(&space_of_process, runs[i]);
  steps_t steps = {.unwanted = runs[101]};
  size_t i = 1;
  for (const char *from = NULL; space_next_run(&space_of_process, from, want, &steps); from = steps.run->start + 1) {
    i += 2 * (i == 101);
    must(i < MANY && steps.run == runs[i]);
    i += 2;
  }
  must(i == MANY + 1);
  must(space_next_run(&space_of_process, runs[7]->start + 40 * UNIT, want, &steps) && steps.run == runs[9]);
  must(!space_next_run(&space_of_process, (char *)UINTPTR_MAX, want, &steps));
}

/* ---- on a budget's account ---- */

static void charged(void *argument)
{
  (void)argument;
  space_up();
  budget_t above = {.limit = 40 * UNIT}, budget = {.parent = &above};
  run_t *run = space_take_charged(&space_of_process, &budget, 10 * UNIT - 5, 16);
  must(run && run->units == 10 && budget_held(&budget) == 10 * UNIT && budget_peak(&above) == 10 * UNIT);
  must(!space_take_charged(&space_of_process, &budget, 31 * UNIT, 16) && budget_held(&above) == 10 * UNIT);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  must(!space_take_charged(&space_of_process, &budget, 30 * UNIT, 16) && budget_held(&above) == 10 * UNIT &&
       budget_held(&budget) == 10 * UNIT);
  os_fake_heal();
  refusals_forget();
  must(budget_peak(&budget) == 10 * UNIT);
  run_t *more = space_take_charged(&space_of_process, &budget, 30 * UNIT, 8 * UNIT);
  must(more && budget_held(&above) == 40 * UNIT && (uintptr_t)more->start % (8 * UNIT) == 0);
  space_give_charged(&space_of_process, &budget, more);
  space_give_charged(&space_of_process, &budget, run);
  must(budget_held(&budget) == 0 && budget_held(&above) == 0 && budget_peak(&above) == 40 * UNIT);
  check_space(&space_of_process);
}

/* From the region, at no price if it is paid for, and then from beyond it, at the price of there. */
static void charged_beyond(void *argument)
{
  const bool *prepaid = argument;
  region_t *region = region_new(8 * MIB);
  space_up();
  region->space.fallback = &space_of_process;
  region->space.prepaid = *prepaid;
  budget_t budget = {0};
  size_t here = 0, held = 0;
  run_t *runs[400];
  for (size_t i = 0; i < 400; i++) {
    must((runs[i] = space_take_charged(&region->space, &budget, 5000, 16)) != NULL);
    bool inside = arena_of(&region->space, runs[i]->start) == &region->arena;
    must(inside == (arena_of(&region->space, runs[i]->start)->space == &region->space));
    here += inside;
    held += inside && *prepaid ? 0 : UNIT;
    must(budget_held(&budget) == held && inside == (i < here));
  }
  must(here > 110 && here < 128);
  for (size_t i = 0; i < 400; i++)
    space_give_charged(&region->space, &budget, runs[i]);
  must(budget_held(&budget) == 0 && region->space.used_units == 0 && space_of_process.used_units == 0);
  check_space(&region->space);
}

/* ---- threads ---- */

IN_CHILD(lowest_first)
IN_CHILD(aligned)
IN_CHILD(of_nodes)
IN_CHILD(more_arenas)
IN_CHILD(longer_and_shorter)
IN_CHILD(finding)
IN_CHILD(one_after_the_other)

IN_CHILD(charged)
WITH(charged_beyond, bool, false, true)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(above_a_hole_test), cmocka_unit_test(lowest_first_test),
    cmocka_unit_test(aligned_test),      cmocka_unit_test(of_nodes_test),
    cmocka_unit_test(more_arenas_test),  cmocka_unit_test(longer_and_shorter_test),
    cmocka_unit_test(finding_test),      cmocka_unit_test(one_after_the_other_test),
    cmocka_unit_test(charged_test),      cmocka_unit_test(charged_beyond_test),
  };
  return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
