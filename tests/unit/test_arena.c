/* SPDX-License-Identifier: MIT
 * One arena, without a space: where its records lie, which units it finds, how far it is mapped. Arenas that are asked to find
 * something are made of records alone; the others are in the first slots of the window. */
#include "space/arena.h"
#include "space/class_map.h"
#include "os_fake.h"
#include "unit.h"
#include <sys/mman.h>

enum { UNITS_MOST = 700, RUNS = 80, MODEL_STEPS = 8000 };

static struct space *const some_space = (struct space *)4096;   /* nobody looks into it */

static void *memory_for(size_t bytes)
{
  void *memory = os_map(round_up(bytes + 1, os_page_size()), os_page_size());
  must(memory);
  return memory;
}

static void bring_up(size_t slots)
{
  os_fake_heal();
  must(window_init() && window_open(slots));
}

static arena_t *create(size_t slot, size_t units)
{
  arena_t *arena;
  must(arena_create(some_space, slot, units, &arena) == TAKEN);
  return arena;
}

/* ---- where things are ---- */

static void laid_out(void **state)
{
  static const size_t sizes[] = {1, 2, 63, 64, 65, 127, 1000, 16384, 100000, SPAN_BITS_MOST};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (unsigned bitmaps = 0; bitmaps < 2; bitmaps++) {
      arena_t arena;
      size_t units = sizes[i], words = (units + 63) / 64;
      char *records = (char *)(1 << 20) + 8 * i, *end = arena_lay_out(&arena, records, units, bitmaps ? UNIT_LOG2 : 12);
      assert_true((char *)arena.room.map >= records && arena.dirty == arena.room.map + words && arena.start == arena.dirty + words);
      assert_true(arena.room.node >= arena.start + words && (char *)arena.runs >= (char *)(arena.room.node + span_tree_words(units)));
      assert_int_equal((uintptr_t)arena.runs % 64, 0);
      assert_int_equal(arena.long_bitmaps != NULL, bitmaps);
      const char *last = bitmaps ? (char *)(arena.long_bitmaps + units * long_bitmap_words(UNIT_LOG2)) : (char *)(arena.runs + units);
      assert_true(!bitmaps || (char *)arena.long_bitmaps >= (char *)(arena.runs + units));
      assert_ptr_equal(end, last);
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
    const char *runs_end = (char *)(arena->runs + arena->unit_count), *bitmaps_end = (char *)(arena->long_bitmaps + arena->unit_count * long_bitmap_words(UNIT_LOG2));
    must((char *)arena->long_bitmaps >= runs_end + 32 * KIB && (uintptr_t)arena->long_bitmaps % (64 * KIB) == 0);
    must(arena->base >= bitmaps_end + 64 * KIB && (uintptr_t)arena->base % (2 * MIB) == 0);
    must(arena_commit_all(arena) == TAKEN && arena->committed == arena->unit_count);
    must(arena->runs_end >= runs_end && arena->runs_end <= (char *)arena->long_bitmaps);
    must(arena->long_bitmaps_end >= bitmaps_end && arena->long_bitmaps_end + 32 * KIB <= arena->base);
    arena->runs[arena->unit_count - 1].units = 1;
    arena->long_bitmaps[arena->unit_count * long_bitmap_words(UNIT_LOG2) - 1] = 1;
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
      taken_t expected = occupied ? NO_ROOM : NO_MEMORY, taken = arena_create(some_space, 1, 5000, &arena);
      must(taken == TAKEN || (taken == expected && os_fake.mapped_bytes == mapped));
      if (taken == TAKEN) {
        taken = arena_commit_all(arena);
        must(taken == TAKEN || (taken == expected && arena->committed == 0));
        os_fake_heal();
        must(taken == TAKEN || arena_commit_all(arena) == TAKEN);
        arena_end(arena)[-1] = 1;
        arena_destroy(arena);
      }
      os_fake_heal();
      must(os_fake.mapped_bytes == mapped);
    }
}

/* ---- which units ---- */

typedef struct drawn {
  arena_t arena;
  bool    used[UNITS_MOST];
} drawn_t;

/* An arena of records alone, whose units are nowhere. */
static void draw(drawn_t *drawn, size_t units, uintptr_t base, unsigned unit_log2)
{
  arena_t scratch;
  size_t bytes = (size_t)(arena_lay_out(&scratch, NULL, units, 12) - (char *)NULL);
  *drawn = (drawn_t){0};
  arena_lay_out(&drawn->arena, memory_for(bytes), units, 12);
  arena_begin(&drawn->arena, (char *)base, units, unit_log2, false);
  drawn->arena.committed = (uint32_t)units;
}

static void erase(drawn_t *drawn)
{
  arena_t scratch;
  size_t bytes = (size_t)(arena_lay_out(&scratch, NULL, drawn->arena.unit_count, 12) - (char *)NULL);
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
  size_t base = (uintptr_t)drawn->arena.base >> drawn->arena.unit_log2;
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
  assert_ptr_equal(run->start, drawn->arena.base + (at << drawn->arena.unit_log2));
  assert_int_equal((uintptr_t)run->start % (alignment << drawn->arena.unit_log2), 0);
  set_used(drawn, at, units, true);
  return run;
}

static void give_drawn(drawn_t *drawn, run_t *run)
{
  size_t at = (size_t)(run - drawn->arena.runs), units = run->units;
  arena_set_start(&drawn->arena, at, false);
  arena_vacate(&drawn->arena, at, at + units);
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
    draw(&drawn, units, (1 + dice_below(&dice, 1000)) << UNIT_LOG2, UNIT_LOG2);
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
      draw(&drawn, 70, base << 12, 12);
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

/* Units that are not aligned themselves serve nobody who wants more. */
static void skewed(void **state)
{
  (void)state;
  drawn_t drawn;
  run_t *run;
  past_t past;
  os_fake_heal();
  draw(&drawn, 100, ((size_t)5 << 12) + 64, 12);
  assert_int_equal(arena_take(&drawn.arena, 1, 2, &run, &past), NO_ROOM);
  assert_int_equal(arena_take(&drawn.arena, 100, 1, &run, &past), TAKEN);
  erase(&drawn);
}

static void lengthened(void **state)
{
  (void)state;
  os_fake_heal();
  for (uint64_t seed = 1; seed <= 20; seed++) {
    dice_t dice = {seed};
    drawn_t drawn;
    run_t *runs[RUNS] = {0};
    draw(&drawn, 300, 1 << 20, 12);
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
    draw(&drawn, units, 1 << 20, 12);
    run_t *all = take_drawn(&drawn, units, 1);
    arena_set_start(&drawn.arena, (size_t)(all - drawn.arena.runs), false);
    for (size_t i = 0; i < 30; i++) {
      size_t from = dice_below(&dice, units), to = min_size(units, from + 1 + dice_below(&dice, 90));
      if (bits_next_set(drawn.arena.room.map, from, to) < to)
        continue;
      arena_vacate(&drawn.arena, from, to);
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

/* ---- how far it is mapped ---- */

static size_t committed_for(size_t units, size_t limit)
{
  bring_up(1);
  os_fake.memory_limit = limit;
  arena_t *arena = create(0, 0);
  past_t past;
  run_t *run;
  must(arena_take(arena, units, 1, &run, &past) == TAKEN && arena->committed >= units);
  run->start[0] = run->start[run_bytes(arena, run) - 1] = 1;
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
    must((char *)(arena->runs + committed) <= arena->runs_end && arena->runs_end <= (char *)(arena->runs + committed) + 32 * KIB + os_fake.page_size);
    must(arena->long_bitmaps_end >= (char *)(arena->long_bitmaps + committed * long_bitmap_words(UNIT_LOG2)));
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
    os_fake.fail_from = os_fake.calls + 1;
    os_fake.fail_to = os_fake.fail_from + 1;
    must(arena_take(arena, 3, 1, &run, &past) == TAKEN && arena->committed == committed + 3 && os_fake.fail_to <= os_fake.calls + 1);
    run->start[3 * UNIT - 1] = 1;
  }
  os_fake.fail_from = os_fake.calls + 1;
  os_fake.fail_to = UINT64_MAX;
  size_t units = arena->unit_count, committed = arena->committed;
  must(arena_take(arena, 3, 1, &run, &past) == (*occupied ? NO_ROOM : NO_MEMORY) && arena->committed == committed);
  must(arena->unit_count == (*occupied ? committed : units));
  os_fake_heal();
  must(arena_take(arena, 3, 1, &run, &past) == (*occupied ? NO_ROOM : TAKEN));
}

/* Somebody's mapping among the units, or among the records: the arena ends in front of it. */
static void cut_by_a_mapping(void *argument)
{
  const size_t *where = argument;   /* 0: at the unit, 1: at its run, 2: at its long bitmap */
  enum { AT = 1000 };
  past_t past;
  run_t *run, *last = NULL;
  bring_up(1);
  arena_t *arena = create(0, 0);
  char *places[] = {arena->base + AT * UNIT, (char *)(arena->runs + AT), (char *)(arena->long_bitmaps + AT * long_bitmap_words(UNIT_LOG2))};
  char *at = (char *)round_down((uintptr_t)places[*where], 4096), *there = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  must(there == at);
  *there = 5;
  size_t taken = 0;
  while (arena_take(arena, 3, 1, &run, &past) == TAKEN) {
    last = run;
    run->start[3 * UNIT - 1] = 1;
    taken += 3;
  }
  must(*there == 5 && taken <= AT + 32 && taken > AT - 64 && taken > 0 && arena->unit_count >= taken && arena->unit_count < taken + 64);
  while (arena_take(arena, 1, 1, &run, &past) == TAKEN)
    taken++;
  must(taken == arena->unit_count && arena->committed == taken && span_longest(&arena->room) == 0);
  must(!arena_lengthen(arena, last, 4, &past) || last->units == 4);
  /* It goes on with what it has. */
  size_t from = (size_t)(last - arena->runs);
  arena_set_start(arena, from, false);
  arena_vacate(arena, from, from + 3);
  must(arena_take(arena, 2, 1, &run, &past) == TAKEN && run == last && past.dirty == 2 && past.again == 2);
  munmap(there, 4096);
  arena_destroy(arena);
}

static size_t naive_end_of_use(const arena_t *arena)
{
  size_t end = arena->committed;
  while (end && bit_test(arena->room.map, end - 1) && !bit_test(arena->dirty, end - 1))
    end--;
  return end;
}

/* ---- all of it against a model ---- */

typedef struct model {
  arena_t *arena;
  dice_t   dice;
  run_t   *runs[RUNS];
  uint64_t keys[RUNS];
} model_t;

static void claim(model_t *model, size_t i, size_t from)
{
  run_t *run = model->runs[i];
  if (run->zeroed)
    for (size_t unit = from; unit < run->units; unit++)
      must(!run->start[unit * UNIT] && !run->start[unit * UNIT + UNIT - 1]);
  run->zeroed = false;
  model->keys[i] = dice_roll(&model->dice) | 1;
  for (size_t unit = 0; unit < run->units; unit++)
    run->start[unit * UNIT] = run->start[unit * UNIT + UNIT - 1] = (char)(model->keys[i] + 2 * unit);
}

static void holds(const model_t *model, size_t i)
{
  const run_t *run = model->runs[i];
  for (size_t unit = 0; unit < run->units; unit++)
    must(run->start[unit * UNIT] == (char)(model->keys[i] + 2 * unit) && run->start[unit * UNIT + UNIT - 1] == run->start[unit * UNIT]);
}

static void model_take(model_t *model, size_t i)
{
  past_t past;
  run_t *run;
  size_t units = 1 + dice_below(&model->dice, dice_below(&model->dice, 4) ? 4 : 90), used_end = model->arena->used_end;
  taken_t taken = arena_take(model->arena, units, (size_t)1 << dice_below(&model->dice, 4), &run, &past);
  must(taken == TAKEN || (taken == NO_MEMORY && os_fake.fail_kinds));
  if (taken != TAKEN)
    return;
  size_t at = (size_t)(run - model->arena->runs);
  must(past.dirty <= past.again && past.again == (at < used_end ? min_size(units, used_end - at) : 0) && run->zeroed == !past.dirty);
  model->runs[i] = run;
  claim(model, i, 0);
}

static void model_give(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  size_t at = (size_t)(run - model->arena->runs), keep = dice_below(&model->dice, 3) ? 0 : dice_below(&model->dice, run->units);
  holds(model, i);
  if (!keep)
    arena_set_start(model->arena, at, false);
  arena_vacate(model->arena, at + keep, at + run->units);
  run->units = (uint32_t)keep;
  if (!keep)
    model->runs[i] = NULL;
}

static void model_purge(model_t *model)
{
  size_t from, to, below = dice_below(&model->dice, 2) ? SIZE_MAX : dice_below(&model->dice, model->arena->committed + 1);
  for (size_t turns = dice_below(&model->dice, 8); turns-- && arena_highest_dirty(model->arena, below, &from, &to); below = from) {
    arena_begin_purge(model->arena, from, to);
    arena_end_purge(model->arena, from, to, os_purge(model->arena->base + from * UNIT, (to - from) * UNIT));
  }
}

/* Of runs and long bitmaps, as far as they are mapped. */
static size_t record_bytes(const arena_t *arena)
{
  must(arena->runs_end >= (char *)(arena->runs + arena->committed));
  must(arena->long_bitmaps_end >= (char *)(arena->long_bitmaps + arena->committed * long_bitmap_words(UNIT_LOG2)));
  return (size_t)(arena->runs_end - (const char *)arena) + (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps);
}

static void model_contract(model_t *model)
{
  arena_t *arena = model->arena;
  size_t end = naive_end_of_use(arena), committed = arena->committed, mapped = os_fake.mapped_bytes, records = record_bytes(arena);
  bool all = dice_below(&model->dice, 2), refuses = os_fake.fail_kinds >> OS_UNMAP & 1;
  arena_contract(arena, all);
  bool contracted = arena->committed < committed;
  must(contracted == (!refuses && committed - end >= (all ? 1 : max_size(16, committed / 8))));
  must(arena->committed == (contracted ? end : committed) && os_fake.mapped_bytes == mapped - (committed - arena->committed) * UNIT - (records - record_bytes(arena)));
  must(!contracted || arena->long_bitmaps_end <= (char *)(arena->long_bitmaps + end * long_bitmap_words(UNIT_LOG2)) + 32 * KIB + 4 * KIB);
  for (size_t at = round_up(end, 64); contracted && at < committed; at++)   /* of no kind, or as it was */
    must(arena->runs[at].kind == RUN_NONE);
}

static void model_ask(model_t *model)
{
  for (size_t i = 0; i < RUNS; i++) {
    const run_t *run = model->runs[i];
    const char *end = run ? run->start + run_bytes(model->arena, run) : NULL;
    must(!run || (arena_find(model->arena, run->start) == run && arena_find(model->arena, end - 1) == run && arena_find(model->arena, end) != run));
    must(!run || (run_of(model->arena, end - 1) == run && !arena_had_run(model->arena, run->start)));
  }
  for (size_t i = 0; i < 50; i++) {
    const char *any = model->arena->base + dice_below(&model->dice, (size_t)(model->arena->unit_count + 100) << UNIT_LOG2);
    const run_t *run = arena_find(model->arena, any);
    must((run == NULL) == (any >= arena_end(model->arena) || bit_test(model->arena->room.map, unit_of(model->arena, any))));
  }
  must(!arena_find(model->arena, model->arena->base - 1) && !arena_find(model->arena, NULL) && !arena_had_run(model->arena, NULL));
}

static void against_the_model(void *argument)
{
  model_t model = {.dice = {*(const uint64_t *)argument}};
  bring_up(1);
  size_t mapped = os_fake.mapped_bytes;
  model.arena = create(0, 0);
  for (size_t i = 0; i < MODEL_STEPS; i++) {
    size_t at = dice_below(&model.dice, RUNS), n = dice_below(&model.dice, 100);
    if (i % 200 == 0) {
      os_fake.fail_kinds = dice_below(&model.dice, 3) ? 0 : (uint32_t)dice_roll(&model.dice);
      os_fake.fail_halfway = dice_below(&model.dice, 2);
    }
    if (n < 4)
      model_purge(&model);
    else if (n < 8)
      model_contract(&model);
    else if (n < 10)
      model_ask(&model);
    else if (model.runs[at])
      model_give(&model, at);
    else
      model_take(&model, at);
  }
  os_fake_heal();
  arena_destroy(model.arena);
  must(os_fake.mapped_bytes == mapped);
}

static void against_the_model_test(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++)
    in_child(against_the_model, &seed);
}

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
  arena_vacate(arena, 0, 3);
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
    cmocka_unit_test(the_lowest_that_fits),
    cmocka_unit_test(aligned_where_it_can_be),
    cmocka_unit_test(skewed),
    cmocka_unit_test(lengthened),
    cmocka_unit_test(highest_dirty_units),
    cmocka_unit_test(mapped_in_steps_test),
    cmocka_unit_test(little_memory_test),
    cmocka_unit_test(no_more_than_needed_test),
    cmocka_unit_test(cut_by_a_mapping_test),
    cmocka_unit_test(against_the_model_test),
    cmocka_unit_test(what_was_freed_test),
  };
  return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
