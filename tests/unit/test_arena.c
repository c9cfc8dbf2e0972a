/* SPDX-License-Identifier: MIT
 * One arena, without a space: where its records lie, and how far it is mapped. */
#include "arenas.h"
#include "os_fake.h"
#include "space/budget.h"
#include <sys/mman.h>

/* ---- where things are ---- */

static void laid_out(void **state)
{
  static const size_t sizes[] = {1, 2, 63, 64, 65, 127, 1000, 16384, 100000, SPAN_BITS_MOST};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    arena_t arena;
    size_t units = sizes[i], words = (units + 63) / 64;
    char *records = (char *)(1 << 20) + 8 * i, *end = arena_lay_out(&arena, records, units);
    assert_true((char *)arena.room.map >= records && (word_t *)arena.room.node >= arena.room.map + words);
    assert_true((char *)arena.start >= (char *)(arena.room.node + span_tree_words(units)));
    assert_true(arena.dirty >= arena.start + words && (char *)arena.runs >= (char *)(arena.dirty + words));
    assert_int_equal((uintptr_t)arena.runs % 64, 0);
    assert_true((char *)arena.long_bitmaps >= (char *)(arena.runs + units));
    assert_ptr_equal(end, arena.long_bitmaps + units * LONG_BITMAP_WORDS);
  }
}

/* Everything of the arena is inside its slots, with gaps in front of the records and behind each part. */
static void in_its_slots(void *argument)
{
  static const size_t sizes[] = {1, 100, 0, 16000, 16384, 40000, 200000, SPAN_BITS_MOST};
  os_fake_heal();
  os_fake.page_size = *(const size_t *)argument;
  must(window_init() && window_open(80));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t mapped = os_fake.mapped_bytes;
    arena_t *arena = create(i, sizes[i]);
    size_t slots = arena->slots;
    must(arena->slot == i && (char *)arena == window_slot(i) + ARENA_GAP);
    must((sizes[i] ? arena->unit_count == sizes[i] : arena->unit_count > 16000) && arena->committed == 0);
    must(slots == arena_slots_for(arena->unit_count) && arena_end(arena) <= window_slot(i + slots));
    must(slots == 1 || arena_end(arena) > window_slot(i + slots - 1));
    const char *runs_end = (char *)(arena->runs + arena->unit_count),
               *bitmaps_end = (char *)(arena->long_bitmaps + arena->unit_count * LONG_BITMAP_WORDS);
    must((char *)arena->long_bitmaps >= runs_end + 32 * KIB && (uintptr_t)arena->long_bitmaps % (64 * KIB) == 0);
    must(arena->base >= bitmaps_end + 64 * KIB && (uintptr_t)arena->base % (2 * MIB) == 0);
    must(arena_commit_all(arena) == TAKEN && arena->committed == arena->unit_count);
    must(arena->runs_end >= runs_end && arena->runs_end <= (char *)arena->long_bitmaps);
    must(arena->long_bitmaps_end >= bitmaps_end && arena->long_bitmaps_end + 32 * KIB <= arena->base);
    arena->runs[arena->unit_count - 1].units = 1;
    arena->long_bitmaps[arena->unit_count * LONG_BITMAP_WORDS - 1] = 1;
    arena_end(arena)[-1] = 1;
    arena_destroy(arena);
    must(os_fake.mapped_bytes == mapped);
  }
}

static void in_its_slots_test(void **state)
{
  (void)state;
  for (size_t page = 4 * KIB; page <= 64 * KIB; page *= 4)
    in_child(in_its_slots, &page);
}

/* Whatever call fails, what there was is unmapped, and the same slots will do later. */
static void created_in_vain(void *argument)
{
  (void)argument;
  bring_up(3);
  size_t mapped = os_fake.mapped_bytes;
  for (uint64_t n = 1; n < 10; n++)
    for (unsigned occupied = 0; occupied < 2; occupied++) {
      arena_t *arena;
      os_fake.fail_from = os_fake.calls + n;
      os_fake.fail_to = UINT64_MAX;
      os_fake.occupied = occupied;
      refusals_forget();
      taken_t expected = occupied ? NO_ROOM : NO_MEMORY, taken = arena_create(some_space, 1, 5000, &arena);
      must(taken == TAKEN || (taken == expected && os_fake.mapped_bytes == mapped));
      if (taken == TAKEN) {
        taken = arena_commit_all(arena);
        must(taken == TAKEN || (taken == expected && arena->committed == 0));
        os_fake_heal();
        refusals_forget();
        must(taken == TAKEN || arena_commit_all(arena) == TAKEN);
        arena_end(arena)[-1] = 1;
        arena_destroy(arena);
      }
      os_fake_heal();
      must(os_fake.mapped_bytes == mapped);
    }
}

/* ---- how far it is mapped ---- */

static size_t committed_for(size_t units, size_t limit)
{
  bring_up(1);
  os_memory_limit = limit;
  arena_t *arena = create(0, 0);
  past_t past;
  run_t *run;
  must(arena_take(arena, units, 1, &run, &past) == TAKEN && arena->committed >= units);
  run->start[0] = run->start[run_bytes(run) - 1] = 1;
  return arena->committed - units;
}

/* An eighth more than what is needed, within bounds, and little of a limit. */
static void mapped_in_steps(void *argument)
{
  past_t past;
  run_t *run;
  (void)argument;
  bring_up(1);
  arena_t *arena = create(0, 0);
  size_t taken = 0, steps = 0, committed = 0;
  while (arena_take(arena, 1, 1, &run, &past) == TAKEN) {
    must(run->zeroed && run->start == arena->base + taken * UNIT);
    run->start[UNIT - 1] = 1;
    taken++;
    must(arena->committed >= taken && arena->committed <= taken + max_size(4, min_size(64, taken / 8 + 1)));
    steps += arena->committed != committed;
    committed = arena->committed;
    must((char *)(arena->runs + committed) <= arena->runs_end &&
         arena->runs_end <= (char *)(arena->runs + committed) + 32 * KIB + os_fake.page_size);
    must(arena->long_bitmaps_end >= (char *)(arena->long_bitmaps + committed * LONG_BITMAP_WORDS));
  }
  must(taken == arena->unit_count && committed == taken && steps < taken / 30);
  arena_destroy(arena);
}

static void little_memory(void *argument)
{
  const size_t *limit = argument;
  size_t most = *limit == SIZE_MAX ? SIZE_MAX : *limit / 256 / UNIT;
  must(committed_for(5, *limit) == min_size(4, most));
}

/* Where the units beyond those needed are refused, those are had all the same. */
static void no_more_than_needed(void *argument)
{
  const bool *occupied = argument;
  past_t past;
  run_t *run;
  bring_up(1);
  arena_t *arena = create(0, 0);
  must(arena_take(arena, 8, 1, &run, &past) == TAKEN && arena->committed == 12);
  os_fake.occupied = *occupied;
  for (size_t i = 0; i < 10; i++) {
    while (arena->committed > bits_next_set(arena->room.map, 0, arena->unit_count))
      must(arena_take(arena, 1, 1, &run, &past) == TAKEN);
    size_t committed = arena->committed;
    refusals_forget();
    os_fake.fail_from = os_fake.calls + 1;
    os_fake.fail_to = os_fake.fail_from + 1;
    must(arena_take(arena, 3, 1, &run, &past) == TAKEN && arena->committed == committed + 3 &&
         os_fake.fail_to <= os_fake.calls + 1);
    run->start[3 * UNIT - 1] = 1;
  }
  os_fake.fail_from = os_fake.calls + 1;
  os_fake.fail_to = UINT64_MAX;
  size_t units = arena->unit_count, committed = arena->committed;
  must(arena_take(arena, 3, 1, &run, &past) == (*occupied ? NO_ROOM : NO_MEMORY) && arena->committed == committed);
  must(arena->unit_count == (*occupied ? committed : units));
  os_fake_heal();
  refusals_forget();
  must(arena_take(arena, 3, 1, &run, &past) == (*occupied ? NO_ROOM : TAKEN));
}

/* Somebody's mapping among the units, or among the records: the arena ends in front of it. */
static void cut_by_a_mapping(void *argument)
{
  const size_t *where = argument; /* 0: at the unit, 1: at its run, 2: at its long bitmap */
  enum { AT = 1000 };
  past_t past;
  run_t *run, *last = NULL;
  bring_up(1);
  arena_t *arena = create(0, 0);
  char *places[] = {arena->base + AT * UNIT, (char *)(arena->runs + AT),
                    (char *)(arena->long_bitmaps + AT * LONG_BITMAP_WORDS)};
  char *at = (char *)round_down((uintptr_t)places[*where], 4096),
       *there = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  must(there == at);
  *there = 5;
  size_t taken = 0;
  while (arena_take(arena, 3, 1, &run, &past) == TAKEN) {
    last = run;
    run->start[3 * UNIT - 1] = 1;
    taken += 3;
  }
  must(*there == 5 && taken <= AT + 32 && taken > AT - 64 && taken > 0 && arena->unit_count >= taken &&
       arena->unit_count < taken + 64);
  while (arena_take(arena, 1, 1, &run, &past) == TAKEN)
    taken++;
  must(taken == arena->unit_count && arena->committed == taken && span_longest(&arena->room) == 0);
  must(!arena_lengthen(arena, last, 4, &past) || last->units == 4);
  /* It goes on with what it has. */
  size_t from = (size_t)(last - arena->runs);
  arena_set_start(arena, from, false);
  arena_give(arena, from, from + 3);
  must(arena_take(arena, 2, 1, &run, &past) == TAKEN && run == last && past.dirty == 2);
  munmap(there, 4096);
  arena_destroy(arena);
}

/* ---- all of it against a model ---- */

/* Only large blocks are remembered, and only until their units are taken again. */
static void what_was_freed(void *argument)
{
  past_t past;
  run_t *run, *next;
  (void)argument;
  bring_up(1);
  arena_t *arena = create(0, 0);
  must(arena_take(arena, 3, 1, &run, &past) == TAKEN && arena_take(arena, 1, 1, &next, &past) == TAKEN);
  char *start = run->start;
  must(!arena_had_run(arena, start));
  run->size = 3 * UNIT;
  arena_set_start(arena, 0, false);
  arena_give(arena, 0, 3);
  must(arena_had_run(arena, start) && !arena_had_run(arena, start + 1) && !arena_had_run(arena, start + UNIT));
  must(!arena_had_run(arena, next->start) && !arena_had_run(arena, arena_end(arena)) && !arena_had_run(arena, start - UNIT));
  must(arena_take(arena, 1, 1, &run, &past) == TAKEN && run->start == start && !arena_had_run(arena, start));
}

IN_CHILD(created_in_vain)
IN_CHILD(mapped_in_steps)
IN_CHILD(what_was_freed)

static void little_memory_test(void **state)
{
  static const size_t limits[] = {SIZE_MAX, GIB, 64 * MIB, 48 * MIB, 16 * MIB, MIB};
  (void)state;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    in_child(little_memory, (void *)(uintptr_t)&limits[i]);
}

static void no_more_than_needed_test(void **state)
{
  (void)state;
  for (unsigned occupied = 0; occupied < 2; occupied++)
    in_child(no_more_than_needed, &(bool){occupied});
}

static void cut_by_a_mapping_test(void **state)
{
  (void)state;
  for (size_t where = 0; where < 3; where++)
    in_child(cut_by_a_mapping, &where);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(laid_out),
    cmocka_unit_test(in_its_slots_test),
    cmocka_unit_test(created_in_vain_test),
    cmocka_unit_test(mapped_in_steps_test),
    cmocka_unit_test(little_memory_test),
    cmocka_unit_test(no_more_than_needed_test),
    cmocka_unit_test(cut_by_a_mapping_test),
    cmocka_unit_test(what_was_freed_test),
  };
  return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
