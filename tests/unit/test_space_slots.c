/* SPDX-License-Identifier: MIT
 * Slots of the window: whatever else is mapped there, and however often regions come and go, runs and regions find theirs. */
#include "find_run.h"
#include "option.h"
#include "os_fake.h"
#include "region.h"
#include "runs.h"
#include "space/budget.h"

/* ---- what is in the way ---- */

static void nothing_to_be_had(void *argument)
{
  (void)argument;
  space_up();
  size_t mapped = os_fake.mapped_bytes;
  for (unsigned occupied = 0; occupied < 2; occupied++) {
    os_fake.fail_kinds = 1 << OS_MAP_AT;
    os_fake.occupied = occupied;
    must(!take(&space_of_process, 1, 1) && os_fake.mapped_bytes >= mapped);
    check_space(&space_of_process);
    os_fake_heal();
    refusals_forget();
  }
  run_t *run = take(&space_of_process, 1, 1);
  must(run);
  touch(run, UNIT);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  must(!take(&space_of_process, space_longest_run(), 1));
  check_space(&space_of_process);
  os_fake_heal();
  refusals_forget();
  must(take(&space_of_process, space_longest_run(), 1));
  check_space(&space_of_process);
}

/* Somebody maps something right behind the units that are mapped: it stays as it is, and all goes on in the next slot. */
static void in_the_next_slot(void *argument)
{
  (void)argument;
  space_up();
  run_t *run = take(&space_of_process, 20, 1);
  arena_t *arena = space_arena_at(0);
  char *there = map_somebody(arena->base + arena->committed * UNIT, 4096);
  size_t count = 0;
  do {
    run = take(&space_of_process, 20, 1);
    must(run && ++count < 100);
    memset(run->start, 7, 20 * UNIT);
    check_space(&space_of_process);
  } while (window_slot_of(run->start) == 0);
  must(*there == 5 && window_slot_of(run->start) == 1 && arena->unit_count == arena->committed);
  while (take(&space_of_process, 1, 1)->start < there) { /* what is left of the first */
  }
  must(space_longest_in(0) == 0);
  check_space(&space_of_process);
}

/* Where a slot cannot even be begun: at its records, at its first unit, or all over it. */
static void in_the_slot_after_next(void *argument)
{
  const size_t *where = argument;
  space_up();
  must(take(&space_of_process, 1, 1));
  size_t first_unit = (size_t)(space_arena_at(0)->base - window_slot(0));
  size_t from[] = {ARENA_GAP, first_unit, 0}, size[] = {4096, 4096, SLOT};
  for (size_t slot = 1; slot < 6; slot++)
    map_somebody(window_slot(slot) + from[*where], size[*where]);
  size_t count = 0;
  while (window_slots_open() < 2) {
    run_t *run = take(&space_of_process, 60, 1);
    must(run && ++count < 300);
  }
  run_t *run = take(&space_of_process, 60, 1);
  must(run && window_slot_of(run->start) == 6);
  touch(run, 60 * UNIT);
  check_space(&space_of_process);
  for (size_t slot = 1; slot < 6; slot++)
    must(window_slot(slot)[from[*where]] == 5 && space_longest_in(slot) == 0);
}

/* A limit on memory: little is mapped that is not used. */
static void under_a_limit(void *argument)
{
  const size_t *limit = argument;
  space_up();
  os_memory_limit = *limit;
  must(take(&space_of_process, 1, 1));
  for (size_t i = 0; i < 200; i++) {
    run_t *run = take(&space_of_process, 1 + i % 7, 1);
    touch(run, (1 + i % 7) * UNIT);
    size_t used = space_of_process.used_units << UNIT_LOG2, records = 128 * KIB + used / 64;
    must(os_fake.mapped_bytes <= used + *limit / 256 + records);
  }
}

/* Where memory is short a run is soon a mapping; what is longer already can stay and become shorter. */
static void short_of_memory(void *argument)
{
  const size_t *limit = argument;
  os_fake_heal();
  os_fake.memory_limit = *limit;
  must(space_init() && space_is_short == (*limit < 256 * MIB));
  must(space_longest_run() == (space_is_short ? 2 : *limit == SIZE_MAX ? 4096 : 64));
  run_t *run = take(&space_of_process, 2, 1);
  must(space_lengthen(&space_of_process, run, 3) == !space_is_short);
  space_shorten(&space_of_process, run, 1);
  must(space_lengthen(&space_of_process, run, 2));
  check_space(&space_of_process);
}

/* ---- regions in slots ---- */

static void take_all_of(space_t *space, size_t units)
{
  must(space->own_arena->unit_count == units && !take(space, units + 1, 1));
  run_t *run = take(space, units, 1);
  must(run && run->zeroed && !take(space, 1, 1));
  must(space_find(run->start) == run && space_find(run->start + units * UNIT - 1) == run);
  touch(run, units * UNIT);
  run->start[units / 2 * UNIT] = 1;
  check_space(space);
  space_give(space, run);
}

/* Slots and memory go back, whatever sizes come and go. */
static void come_and_go(void *argument)
{
  dice_t dice = {*(const uint64_t *)argument};
  space_t spaces[4] = {0};
  space_up();
  must(take(&space_of_process, 1, 1));
  size_t before = os_fake.mapped_bytes, most = 0;
  for (size_t i = 0; i < 300; i++) {
    space_t *space = &spaces[dice_below(&dice, 4)];
    if (space->own_arena) {
      size_t slot = space->own_arena->slot, slots = space->own_arena->slots;
      if (dice_below(&dice, 2))
        space_hide_slots(space);
      space_destroy_slots(space);
      space->own_arena = NULL;
      for (size_t j = slot; j < slot + slots; j++)
        must(!space_arena_at(j));
    } else {
      size_t units = 1 + dice_below(&dice, dice_below(&dice, 3) ? 400 : 40000);
      must(space_init_slots(space, units));
      for (size_t j = 0; j < space->own_arena->slots; j++)
        must(space_arena_at(space->own_arena->slot + j) == space->own_arena);
      take_all_of(space, units);
    }
    most = max_size(most, window_slots_open());
  }
  must(most <= 1 + 4 * arena_slots_for(40000) + 4);
  for (size_t i = 0; i < 4; i++)
    if (spaces[i].own_arena)
      space_destroy_slots(&spaces[i]);
  must(os_fake.mapped_bytes == before + (most - 1) * 2 * (SLOT / UNIT)); /* the map stays */
  check_space(&space_of_process);
}

static void hidden(void *argument)
{
  space_t space;
  (void)argument;
  space_up();
  must(space_init_slots(&space, 100));
  run_t *run = take(&space, 10, 1);
  char *inside = run->start;
  must(space_find(inside) == run);
  space_hide_slots(&space);
  must(!space_find(inside) && !space_had_run(space_arena_around(inside), inside) && !space_arena_at(0));
  space_destroy_slots(&space);
  must(!space_find(inside));
}

static void init_in_vain(void *argument)
{
  space_t space;
  (void)argument;
  space_up();
  must(window_open(3));
  size_t before = os_fake.mapped_bytes;
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    os_fake.fail_from = os_fake.calls + n;
    os_fake.fail_to = os_fake.fail_from + 1;
    done = space_init_slots(&space, 1000);
    must(done || os_fake.mapped_bytes == before);
    must(n < 20);
    os_fake_heal();
    if (done)
      space_destroy_slots(&space);
    must(os_fake.mapped_bytes == before);
  }
  must(space_init_slots(&space, 1000) && space.own_arena->slot == 0);
  space_destroy_slots(&space);
  must(!space_init_slots(&space, SPAN_BITS_MOST + 1) && !space_init_slots(&space, SIZE_MAX));
  must(os_fake.mapped_bytes == before);
}

/* However many regions there are, the process can have arenas of its own. */
static void slots_are_left_to_the_process(void *unused)
{
  static space_t spaces[SLOTS_MOST];
  (void)unused;
  space_up();
  size_t made = 0;
  while (made < SLOTS_MOST && space_init_slots(&spaces[made], 1))
    made++;
  must(made < window_slots_most() && made >= window_slots_most() / 2);
  run_t *run = space_take(&space_of_process, 64, 1);
  must(run);
  space_give(&space_of_process, run);
  while (made)
    space_destroy_slots(&spaces[--made]);
}
IN_CHILD(slots_are_left_to_the_process)

/* Somebody is in the slots that would do: at the records, in the middle or at the end of the units. */
static void init_elsewhere(void *argument)
{
  const size_t *where = argument;
  enum { UNITS = 20000 };
  space_t space;
  space_up();
  must(space_init_slots(&space, UNITS));
  const char *base = window_slot(0);
  size_t places[] = {ARENA_GAP, (size_t)((char *)(space.own_arena->runs + 5000) - base), (size_t)(space.own_arena->base - base),
                     (size_t)(space.own_arena->base + UNITS / 2 * UNIT - base),
                     (size_t)(space.own_arena->base + UNITS * UNIT - 4096 - base)};
  size_t slots = space.own_arena->slots;
  space_destroy_slots(&space);
  size_t before = os_fake.mapped_bytes;
  char *there = map_somebody(window_slot(0) + round_down(places[*where], 4096), 4096);
  for (size_t turn = 0; turn < 3; turn++) {
    must(space_init_slots(&space, UNITS) && space.own_arena->slot == slots && *there == 5);
    take_all_of(&space, UNITS);
    space_destroy_slots(&space);
  }
  must(window_slots_open() == 2 * slots);
  must(os_fake.mapped_bytes == before + slots * 2 * (SLOT / UNIT));
}

/* ---- guests ---- */

/* Records in front, units behind them, all of it inside the memory there is. */
static void guests(void **state)
{
  static _Alignas(4096) char memory[24 << 20];
  dice_t dice = {3};
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < 300; i++) {
    size_t skew = dice_below(&dice, 5000), size = dice_below(&dice, (size_t)1 << (12 + dice_below(&dice, 13)));
    space_t space;
    arena_t arena;
    char *records = space_init_guest(&space, &arena, memory + skew, size), *end = memory + skew + size;
    if (!records) {
      assert_true(size < 3 * UNIT);
      continue;
    }
    assert_true((char *)arena.room.map >= memory + skew && (char *)(arena.runs + arena.unit_count) <= records);
    assert_true(records <= arena.base && arena_end(&arena) <= end);
    assert_int_equal((uintptr_t)arena.base % UNIT, 0);
    assert_true(size - arena.unit_count * UNIT <= size / 64 + 2 * UNIT);
    run_t *run = take(&space, arena.unit_count, 1);
    assert_non_null(run);
    assert_false(run->zeroed);
    memset(run->start, 9, run_bytes(run));
    check_space(&space);
  }
}

/* All of a region can be taken, and nothing else; its memory is never the system's to have back. */
static void whole_region(void *argument)
{
  (void)argument;
  for (size_t bytes = 3 * UNIT; bytes < 20 * MIB; bytes = bytes * 3 / 2) {
    region_t *region = region_new(bytes);
    size_t units = region->arena.unit_count;
    must(units > 0 && !take(&region->space, units + 1, 1));
    run_t *run = take(&region->space, units, 1);
    must(run && !take(&region->space, 1, 1));
    memset(run->start, 1, units << UNIT_LOG2);
    check_space(&region->space);
    space_give(&region->space, run);
    must(space_purge(&region->space, 0) == 0);
    for (size_t i = 0; i < units; i++)
      must(take(&region->space, 1, 1));
    must(!take(&region->space, 1, 1));
    check_space(&region->space);
  }
}

/* ---- threads ---- */

IN_CHILD(nothing_to_be_had)
IN_CHILD(in_the_next_slot)
WITH(in_the_slot_after_next, size_t, 0, 1, 2)
WITH(under_a_limit, size_t, 4 * MIB, 16 * MIB, 64 * MIB)
WITH(short_of_memory, size_t, SIZE_MAX, 256 * MIB, 256 * MIB - 1, MIB)

WITH(come_and_go, uint64_t, 1, 2, 3)
IN_CHILD(hidden)
IN_CHILD(init_in_vain)
WITH(init_elsewhere, size_t, 0, 1, 2, 3, 4)
IN_CHILD(whole_region)

/* Whether the system gives huge pages to those that ask, and how long they are, is read at bring-up. Where it does not, or
 * where they are longer than 2 MiB, none are asked for, but by `always`. */
typedef struct wish {
  option_huge_pages_t set;
  bool grants;
  size_t size;
  option_huge_pages_t expected;
} wish_t;

static void huge_pages(void *argument)
{
  const wish_t *wish = argument;
  os_fake_heal();
  os_fake.grants_nothing = !wish->grants;
  os_fake.huge_page_size = wish->size;
  os_fake.page_size = wish->size ? 16 << 10 : 4096;
  settings.huge_pages = wish->set;
  must(space_init() && space_of_process.huge_pages == wish->expected);
}
WITH(huge_pages, wish_t, {HUGE_PAGES_AUTO, true, 0, HUGE_PAGES_AUTO}, {HUGE_PAGES_AUTO, false, 0, HUGE_PAGES_NEVER},
     {HUGE_PAGES_ALWAYS, false, 0, HUGE_PAGES_ALWAYS}, {HUGE_PAGES_NEVER, true, 0, HUGE_PAGES_NEVER},
     {HUGE_PAGES_AUTO, true, MIB, HUGE_PAGES_AUTO}, {HUGE_PAGES_AUTO, true, 2 * MIB, HUGE_PAGES_AUTO},
     {HUGE_PAGES_AUTO, true, 32 * MIB, HUGE_PAGES_NEVER}, {HUGE_PAGES_AUTO, true, 512 * MIB, HUGE_PAGES_NEVER},
     {HUGE_PAGES_ALWAYS, true, 512 * MIB, HUGE_PAGES_ALWAYS})

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_to_be_had_test),
    cmocka_unit_test(in_the_next_slot_test),
    cmocka_unit_test(in_the_slot_after_next_test),
    cmocka_unit_test(under_a_limit_test),
    cmocka_unit_test(short_of_memory_test),
    cmocka_unit_test(huge_pages_test),
    cmocka_unit_test(come_and_go_test),
    cmocka_unit_test(hidden_test),
    cmocka_unit_test(init_in_vain_test),
    cmocka_unit_test(init_elsewhere_test),
    cmocka_unit_test(guests),
    cmocka_unit_test(whole_region_test),
    cmocka_unit_test(slots_are_left_to_the_process_test),
  };
  return cmocka_run_group_tests_name("space_slots", tests, NULL, NULL);
}
