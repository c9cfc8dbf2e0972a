/* SPDX-License-Identifier: MIT
 * Which units an arena finds. One that is asked is made of records alone. */
#include "arenas.h"
#include "os_fake.h"

/* ---- which units ---- */

enum { UNITS_MOST = 700 };

typedef struct drawn {
  arena_t arena;
  bool used[UNITS_MOST];
} drawn_t;

/* An arena of records alone, whose units are nowhere. */
static void draw(drawn_t *drawn, size_t units, uintptr_t base)
{
  arena_t scratch;
  size_t bytes = (uintptr_t)arena_lay_out(&scratch, NULL, units);
  *drawn = (drawn_t){0};
  arena_lay_out(&drawn->arena, memory_for(bytes), units);
  arena_begin(&drawn->arena, (char *)base, units, false);
  drawn->arena.committed = (uint32_t)units;
}

static void erase(drawn_t *drawn)
{
  arena_t scratch;
  size_t bytes = (uintptr_t)arena_lay_out(&scratch, NULL, drawn->arena.unit_count);
  os_unmap(drawn->arena.room.map, round_up(bytes + 1, os_page_size()));
}

static bool fits(const drawn_t *drawn, size_t at, size_t units)
{
  for (size_t i = at; i < at + units; i++)
    if (i >= drawn->arena.unit_count || drawn->used[i])
      return false;
  return true;
}

static size_t first_fit(const drawn_t *drawn, size_t units, size_t alignment)
{
  size_t base = (uintptr_t)drawn->arena.base >> UNIT_LOG2;
  for (size_t at = 0; at < drawn->arena.unit_count; at++)
    if ((base + at) % alignment == 0 && fits(drawn, at, units))
      return at;
  return SIZE_MAX;
}

static void set_used(drawn_t *drawn, size_t at, size_t units, bool used)
{
  for (size_t i = at; i < at + units; i++)
    drawn->used[i] = used;
}

/* Takes a run. One that need not be aligned is the lowest that fits; one that must be is found if there is one. */
static run_t *take_drawn(drawn_t *drawn, size_t units, size_t alignment)
{
  run_t *run = NULL;
  past_t past;
  size_t expected = first_fit(drawn, units, alignment);
  taken_t taken = arena_take(&drawn->arena, units, alignment, &run, &past);
  assert_int_equal(taken, expected == SIZE_MAX ? NO_ROOM : TAKEN);
  if (taken != TAKEN)
    return NULL;
  size_t at = (size_t)(run - drawn->arena.runs);
  assert_true(alignment > 1 || at == expected);
  assert_true(fits(drawn, at, units) && run->units == units && run->kind == RUN_NONE);
  assert_ptr_equal(run->start, drawn->arena.base + (at << UNIT_LOG2));
  assert_int_equal((uintptr_t)run->start % (alignment << UNIT_LOG2), 0);
  set_used(drawn, at, units, true);
  return run;
}

static void give_drawn(drawn_t *drawn, run_t *run)
{
  size_t at = (size_t)(run - drawn->arena.runs), units = run->units;
  arena_set_start(&drawn->arena, at, false);
  arena_give(&drawn->arena, at, at + units);
  set_used(drawn, at, units, false);
}

static void the_lowest_that_fits(void **state)
{
  (void)state;
  os_fake_heal();
  for (uint64_t seed = 1; seed <= 30; seed++) {
    dice_t dice = {seed};
    drawn_t drawn;
    run_t *runs[RUNS] = {0};
    size_t units = 1 + dice_below(&dice, UNITS_MOST), longest = 1 + dice_below(&dice, 100);
    draw(&drawn, units, (1 + dice_below(&dice, 1000)) << UNIT_LOG2);
    for (size_t i = 0; i < 600; i++) {
      run_t **run = &runs[dice_below(&dice, RUNS)];
      if (*run) {
        give_drawn(&drawn, *run);
        *run = NULL;
      } else {
        *run = take_drawn(&drawn, 1 + dice_below(&dice, longest), dice_below(&dice, 3) ? 1 : (size_t)1 << dice_below(&dice, 8));
      }
    }
    erase(&drawn);
  }
}

/* Every arrangement of eight runs of units with gaps between them. */
static void aligned_where_it_can_be(void **state)
{
  (void)state;
  os_fake_heal();
  for (size_t gaps = 0; gaps < 256; gaps++)
    for (size_t base = 32; base < 40; base++) {
      drawn_t drawn;
      draw(&drawn, 70, base << UNIT_LOG2);
      run_t *runs[8];
      for (size_t i = 0; i < 8; i++)
        runs[i] = take_drawn(&drawn, 1 + (base * 7 + i * 5) % 13, 1);
      for (size_t i = 0; i < 8; i++)
        if (runs[i] && gaps >> i & 1)
          give_drawn(&drawn, runs[i]);
      for (size_t alignment = 8; alignment >= 1; alignment /= 2)
        for (size_t units = 9; units <= 9; units -= 2)
          take_drawn(&drawn, units, alignment);
      erase(&drawn);
    }
}

static void lengthened(void **state)
{
  (void)state;
  os_fake_heal();
  for (uint64_t seed = 1; seed <= 20; seed++) {
    dice_t dice = {seed};
    drawn_t drawn;
    run_t *runs[RUNS] = {0};
    draw(&drawn, 300, 1 << 20);
    for (size_t i = 0; i < 2000; i++) {
      run_t **run = &runs[dice_below(&dice, RUNS)];
      if (!*run) {
        *run = take_drawn(&drawn, 1 + dice_below(&dice, 6), 1);
      } else if (dice_below(&dice, 2)) {
        give_drawn(&drawn, *run);
        *run = NULL;
      } else {
        past_t past;
        size_t at = (size_t)(*run - drawn.arena.runs), had = (*run)->units, more = 1 + dice_below(&dice, 5);
        bool longer = arena_lengthen(&drawn.arena, *run, had + more, &past);
        assert_int_equal(longer, fits(&drawn, at + had, more));
        assert_int_equal((*run)->units, longer ? had + more : had);
        if (longer)
          set_used(&drawn, at + had, more, true);
      }
    }
    erase(&drawn);
  }
}

/* ---- dirty units from the high end down ---- */

static void highest_dirty_units(void **state)
{
  (void)state;
  os_fake_heal();
  for (uint64_t seed = 1; seed <= 20; seed++) {
    dice_t dice = {seed};
    drawn_t drawn;
    size_t units = 1 + dice_below(&dice, 300);
    bool dirty[UNITS_MOST] = {0};
    draw(&drawn, units, 1 << 20);
    run_t *all = take_drawn(&drawn, units, 1);
    arena_set_start(&drawn.arena, (size_t)(all - drawn.arena.runs), false);
    for (size_t i = 0; i < 30; i++) {
      size_t from = dice_below(&dice, units), to = min_size(units, from + 1 + dice_below(&dice, 90));
      if (bits_next_set(drawn.arena.room.map, from, to) < to)
        continue;
      arena_give(&drawn.arena, from, to);
      memset(dirty + from, true, to - from);
    }
    for (size_t below = units + 3; below--;) {
      size_t from, to, end = min_size(below, units), expected;
      while (end && !dirty[end - 1])
        end--;
      for (expected = end; expected && dirty[expected - 1] && expected % 64;)
        expected--;
      if (end && end % 64 == 0)
        for (expected = end - 1; expected % 64 && dirty[expected - 1];)
          expected--;
      assert_int_equal(arena_highest_dirty(&drawn.arena, below, &from, &to), end > 0);
      assert_true(!end || (to == end && from == expected && from / 64 == (to - 1) / 64));
    }
    /* Purged one after the other; those that are refused are dirty again. */
    size_t from, to, count = drawn.arena.dirty_count;
    for (size_t turn = 0; arena_highest_dirty(&drawn.arena, SIZE_MAX, &from, &to); turn++) {
      bool purged = turn % 3;
      arena_begin_purge(&drawn.arena, from, to);
      assert_int_equal(drawn.arena.dirty_count, count - (to - from));
      assert_int_equal(bits_next_set(drawn.arena.room.map, from, to), to);
      arena_end_purge(&drawn.arena, from, to, purged);
      assert_int_equal(bits_next_clear(drawn.arena.room.map, from, to), to);
      assert_int_equal(drawn.arena.dirty_count, count -= purged ? to - from : 0);
    }
    assert_int_equal(count, 0);
    erase(&drawn);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_lowest_that_fits),
    cmocka_unit_test(aligned_where_it_can_be),
    cmocka_unit_test(lengthened),
    cmocka_unit_test(highest_dirty_units),
  };
  return cmocka_run_group_tests_name("arena_units", tests, NULL, NULL);
}
