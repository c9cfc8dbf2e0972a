/* SPDX-License-Identifier: MIT
 * Spaces against a model: runs never overlap, are where they should be, and what is said to be zero is; whatever else is mapped in
 * the window, and however often regions come and go. */
#include "space/space.h"
#include "option.h"
#include "os_fake.h"
#include "region.h"
#include "unit.h"
#include <pthread.h>
#include <sys/mman.h>

static void bring_up(void)
{
  os_fake_heal();
  must(space_init());
  space_of_process.purge_delay_ms = PURGE_NEVER;
}

/* A run stands for a large block in these tests. */
static int owner;

static run_t *take(space_t *space, size_t units, size_t alignment)
{
  run_t *run = space_take(space, units, alignment);
  if (run)
    run_become(run, RUN_LARGE, &owner);
  return run;
}

static char *map_somebody(char *at, size_t size)
{
  char *there = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  must(there == at);
  *there = 5;
  return there;
}

static void touch(const run_t *run, size_t bytes) { run->start[0] = run->start[bytes - 1] = 1; }

/* ---- the process's space ---- */

static void lowest_first(void *argument)
{
  (void)argument;
  bring_up();
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
  bring_up();
  for (size_t alignment = 1; alignment <= space_longest_run(); alignment *= 2)
    for (size_t units = 1; units <= space_longest_run(); units = units * 3 + 1) {
      run_t *run = take(&space_of_process, units, alignment);
      must(run && (uintptr_t)run->start % (alignment << UNIT_LOG2) == 0);
    }
  must(!take(&space_of_process, 1, space_longest_run() * 2));
  check_space(&space_of_process);
}

/* More arenas come when one is full, and the lowest that has room is taken from first. */
static void more_arenas(void *argument)
{
  (void)argument;
  bring_up();
  size_t longest = space_longest_run(), count = 0;
  run_t *first = take(&space_of_process, longest, 1), *run = first;
  must(!take(&space_of_process, longest + 1, 1));
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
  bring_up();
  space_t *space = &space_of_process;
  run_t *run = take(space, 10, 1), *wall = take(space, 1, 1);
  must(!space_lengthen(space, run, 11));
  space_shorten(space, run, 4);
  must(run->units == 4 && space->used_units == 5 && space->dirty_units == 6);
  must(run->zeroed && space_lengthen(space, run, 10) && run->units == 10 && !run->zeroed && space->dirty_units == 0);
  space_give(space, wall);
  must(space_lengthen(space, run, space_longest_run()) && run->units == space_longest_run());
  touch(run, space_longest_run() << UNIT_LOG2);
  must(!space_lengthen(space, run, space_longest_run() + 1));
  check_space(space);
  space_give(space, run);
  must(space->used_units == 0 && space->dirty_units == space_longest_run());
  check_space(space);
}

static void note_kind(const arena_t *arena, const run_t *run, void *context)
{
  const run_t **found = context;
  must(arena->space == &space_of_process && run->kind == RUN_LARGE);
  *found = run;
}

static void finding(void *argument)
{
  const run_t *asked = NULL;
  must(!space_find(argument) && !space_find(NULL) && !space_had_run(NULL));
  bring_up();
  run_t *a = take(&space_of_process, 2, 1), *b = take(&space_of_process, 60, 1), *c = take(&space_of_process, 1, 1);
  must(space_find(a->start) == a && space_find(a->start + 2 * UNIT - 1) == a);
  must(space_find(b->start) == b && space_find(b->start + 60 * UNIT - 1) == b && space_find(b->start + 55 * UNIT) == b);
  must(space_find(c->start) == c && !space_find(c->start + UNIT) && !space_find(a->start - 1));
  must(!space_find(space_arena_at(0)) && !space_find((char *)space_arena_at(0) - 1));
  must(space_ask(b->start + UNIT, note_kind, &asked) && asked == b && !space_ask(c->start + UNIT, note_kind, &asked));
  b->size = 5;
  char *was = b->start;
  must(!space_had_run(was));
  space_give(&space_of_process, b);
  must(!space_find(was) && !space_find(was + 59 * UNIT) && space_find(c->start) == c);
  must(space_had_run(was) && !space_had_run(was + 1) && !space_had_run(c->start));
  dice_t dice = {1};
  for (size_t i = 0; i < 100000; i++) {
    uintptr_t any = dice_roll(&dice) >> dice_below(&dice, 64);
    must(!space_find((void *)any) && !space_had_run((void *)any));
    const run_t *run = space_find((void *)(class_window.start + any));
    must(!run || run == a || run == c);
  }
}

/* ---- walks ---- */

typedef struct steps { const run_t *run; const run_t *unwanted; size_t asked; } steps_t;

static bool want(const arena_t *arena, const run_t *run, void *context)
{
  steps_t *steps = context;
  must(arena->slots || arena->space->fixed == arena);
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
  bring_up();
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

/* ---- what is in the way ---- */

static void nothing_to_be_had(void *argument)
{
  (void)argument;
  bring_up();
  size_t mapped = os_fake.mapped_bytes;
  for (unsigned occupied = 0; occupied < 2; occupied++) {
    os_fake.fail_kinds = 1 << OS_MAP_AT;
    os_fake.occupied = occupied;
    must(!take(&space_of_process, 1, 1) && os_fake.mapped_bytes >= mapped);
    check_space(&space_of_process);
    os_fake_heal();
  }
  run_t *run = take(&space_of_process, 1, 1);
  must(run);
  touch(run, UNIT);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  must(!take(&space_of_process, space_longest_run(), 1));
  check_space(&space_of_process);
  os_fake_heal();
  must(take(&space_of_process, space_longest_run(), 1));
  check_space(&space_of_process);
}

/* Somebody maps something right behind the units that are mapped: it stays as it is, and all goes on in the next slot. */
static void in_the_next_slot(void *argument)
{
  (void)argument;
  bring_up();
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
  while (take(&space_of_process, 1, 1)->start < there) {   /* what is left of the first */
  }
  must(space_longest_in(0) == 0);
  check_space(&space_of_process);
}

/* Where a slot cannot even be begun: at its records, at its first unit, or all over it. */
static void in_the_slot_after_next(void *argument)
{
  const size_t *where = argument;
  bring_up();
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
  bring_up();
  os_fake.memory_limit = *limit;
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
  must(space_longest_run() == (space_is_short ? 2 : 64));
  run_t *run = take(&space_of_process, 2, 1);
  must(space_lengthen(&space_of_process, run, 3) == !space_is_short);
  space_shorten(&space_of_process, run, 1);
  must(space_lengthen(&space_of_process, run, 2));
  check_space(&space_of_process);
}

/* ---- on a budget's account ---- */

static void charged(void *argument)
{
  (void)argument;
  bring_up();
  budget_t above = {.limit = 40 * UNIT}, budget = {.parent = &above};
  run_t *run = space_take_charged(&space_of_process, &budget, 10 * UNIT - 5, 16);
  must(run && run->units == 10 && budget_held(&budget) == 10 * UNIT && budget_peak(&above) == 10 * UNIT);
  must(!space_take_charged(&space_of_process, &budget, 31 * UNIT, 16) && budget_held(&above) == 10 * UNIT);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  must(!space_take_charged(&space_of_process, &budget, 30 * UNIT, 16) && budget_held(&above) == 10 * UNIT && budget_held(&budget) == 10 * UNIT);
  os_fake_heal();
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
  region_t *region = region_new(12, MIB);
  bring_up();
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
    held += !inside ? UNIT : *prepaid ? 0 : 8192;
    must(budget_held(&budget) == held && inside == (i < here));
  }
  must(here > 100 && here < 130);
  for (size_t i = 0; i < 400; i++)
    space_give_charged(&region->space, &budget, runs[i]);
  must(budget_held(&budget) == 0 && region->space.used_units == 0 && space_of_process.used_units == 0);
  check_space(&region->space);
}

/* ---- regions in slots ---- */

static void take_all_of(space_t *space, size_t units)
{
  must(space->fixed->unit_count == units && !take(space, units + 1, 1));
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
  bring_up();
  must(take(&space_of_process, 1, 1));
  size_t before = os_fake.mapped_bytes, most = 0;
  for (size_t i = 0; i < 300; i++) {
    space_t *space = &spaces[dice_below(&dice, 4)];
    if (space->fixed) {
      size_t slot = space->fixed->slot, slots = space->fixed->slots;
      if (dice_below(&dice, 2))
        space_hide_slots(space);
      space_finish_slots(space);
      space->fixed = NULL;
      for (size_t j = slot; j < slot + slots; j++)
        must(!space_arena_at(j));
    } else {
      size_t units = 1 + dice_below(&dice, dice_below(&dice, 3) ? 400 : 40000);
      must(space_init_slots(space, units));
      for (size_t j = 0; j < space->fixed->slots; j++)
        must(space_arena_at(space->fixed->slot + j) == space->fixed);
      take_all_of(space, units);
    }
    most = max_size(most, window_slots_open());
  }
  must(most <= 1 + 4 * arena_slots_for(40000) + 4);
  for (size_t i = 0; i < 4; i++)
    if (spaces[i].fixed)
      space_finish_slots(&spaces[i]);
  must(os_fake.mapped_bytes == before + (most - 1) * 2 * (SLOT / UNIT));   /* the map stays */
  check_space(&space_of_process);
}

static void hidden(void *argument)
{
  space_t space;
  (void)argument;
  bring_up();
  must(space_init_slots(&space, 100));
  run_t *run = take(&space, 10, 1);
  char *inside = run->start;
  must(space_find(inside) == run);
  space_hide_slots(&space);
  must(!space_find(inside) && !space_had_run(inside) && !space_arena_at(0));
  space_finish_slots(&space);
  must(!space_find(inside));
}

static void init_in_vain(void *argument)
{
  space_t space;
  (void)argument;
  bring_up();
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
      space_finish_slots(&space);
    must(os_fake.mapped_bytes == before);
  }
  must(space_init_slots(&space, 1000) && space.fixed->slot == 0);
  space_finish_slots(&space);
  must(!space_init_slots(&space, SPAN_BITS_MOST + 1) && !space_init_slots(&space, SIZE_MAX));
  must(os_fake.mapped_bytes == before);
}

/* However many regions there are, the process can have arenas of its own. */
static void slots_are_left_to_the_process(void *unused)
{
  static space_t spaces[SLOTS_MOST];
  (void)unused;
  bring_up();
  size_t made = 0;
  while (made < SLOTS_MOST && space_init_slots(&spaces[made], 1))
    made++;
  must(made < window_slots_most() && made >= window_slots_most() / 2);
  run_t *run = space_take(&space_of_process, 64, 1);
  must(run);
  space_give(&space_of_process, run);
  while (made)
    space_finish_slots(&spaces[--made]);
}
IN_CHILD(slots_are_left_to_the_process)

/* Somebody is in the slots that would do: at the records, in the middle or at the end of the units. */
static void init_elsewhere(void *argument)
{
  const size_t *where = argument;
  enum { UNITS = 20000 };
  space_t space;
  bring_up();
  must(space_init_slots(&space, UNITS));
  const char *base = window_slot(0);
  size_t places[] = {ARENA_GAP, (size_t)((char *)(space.fixed->runs + 5000) - base), (size_t)(space.fixed->base - base),
                     (size_t)(space.fixed->base + UNITS / 2 * UNIT - base), (size_t)(space.fixed->base + UNITS * UNIT - 4096 - base)};
  size_t slots = space.fixed->slots;
  space_finish_slots(&space);
  size_t before = os_fake.mapped_bytes;
  char *there = map_somebody(window_slot(0) + round_down(places[*where], 4096), 4096);
  for (size_t turn = 0; turn < 3; turn++) {
    must(space_init_slots(&space, UNITS) && space.fixed->slot == slots && *there == 5);
    take_all_of(&space, UNITS);
    space_finish_slots(&space);
  }
  must(window_slots_open() == 2 * slots);
  must(os_fake.mapped_bytes == before + slots * 2 * (SLOT / UNIT));
}

/* ---- guests ---- */

/* Records in front, units behind them, all of it inside the memory there is. */
static void guests(void **state)
{
  static _Alignas(4096) char memory[3 << 20];
  dice_t dice = {3};
  (void)state;
  os_fake_heal();
  for (size_t i = 0; i < 3000; i++) {
    size_t skew = dice_below(&dice, 5000), size = dice_below(&dice, (size_t)1 << (10 + dice_below(&dice, 12)));
    unsigned unit_log2 = 10 + (unsigned)dice_below(&dice, 3);
    space_t space;
    arena_t arena;
    char *records = space_init_guest(&space, &arena, memory + skew, size, unit_log2), *end = memory + skew + size;
    if (!records) {
      assert_true(size < 3 * ((size_t)1 << unit_log2));
      continue;
    }
    assert_true((char *)arena.room.map >= memory + skew && (char *)(arena.runs + arena.unit_count) <= records);
    assert_true(records <= arena.base && arena_end(&arena) <= end);
    assert_true((uintptr_t)arena.base % space.alignment == 0 && space.alignment <= (size_t)1 << unit_log2);
    assert_true(size < 64 * KIB || space.alignment == (size_t)1 << unit_log2);
    size_t lost = size - ((size_t)arena.unit_count << unit_log2);
    assert_true(lost <= size / 3 + 2 * ((size_t)1 << unit_log2) + 512);
    run_t *run = take(&space, arena.unit_count, 1);
    assert_non_null(run);
    assert_false(run->zeroed);
    memset(run->start, 9, run_bytes(&arena, run));
    check_space(&space);
  }
}

/* All of a region can be taken, and nothing else; its memory is never the system's to have back. */
static void whole_region(void *argument)
{
  (void)argument;
  for (size_t bytes = 5000; bytes < 20 * MIB; bytes = bytes * 3 / 2) {
    region_t *region = region_new(bytes < MIB ? 10 : 12, bytes);
    size_t units = region->arena.unit_count;
    must(units > 0 && !take(&region->space, units + 1, 1));
    run_t *run = take(&region->space, units, 1);
    must(run && !take(&region->space, 1, 1));
    memset(run->start, 1, units << region->space.unit_log2);
    check_space(&region->space);
    space_give(&region->space, run);
    must(space_purge(&region->space, 0) == 0);
    for (size_t i = 0; i < units; i++)
      must(take(&region->space, 1, 1));
    must(!take(&region->space, 1, 1));
    check_space(&region->space);
  }
}

/* ---- any space, against a model ---- */

enum { RUNS = 60, MODEL_STEPS = 3000 };

typedef struct model {
  space_t *space;
  dice_t   dice;
  run_t   *runs[RUNS];
  uint64_t keys[RUNS];
  size_t   used;
  bool     failures;
} model_t;

static size_t bytes_of(const model_t *model, const run_t *run) { return (size_t)run->units << model->space->unit_log2; }

static void claim(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  must(!run->zeroed || all_zero(run->start, bytes_of(model, run)));
  model->keys[i] = dice_roll(&model->dice);
  run->zeroed = false;
  pattern_write(run->start, bytes_of(model, run), model->keys[i]);
  model->used += run->units;
}

static void release(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  must(pattern_holds(run->start, bytes_of(model, run), model->keys[i]));
  model->used -= run->units;
  model->runs[i] = NULL;
  space_give(model->space, run);
}

static void resize(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  size_t units = 1 + dice_below(&model->dice, run->units * 2), kept = min_size(units, run->units) << model->space->unit_log2;
  size_t had = run->units;
  if (units < had)
    space_shorten(model->space, run, units);
  else if (units == had || !space_lengthen(model->space, run, units))
    return;
  must(pattern_kept(run->start, kept, had << model->space->unit_log2, model->keys[i]));
  model->used -= had;
  run->zeroed = false;
  claim(model, i);
}

static void model_step(model_t *model)
{
  size_t i = dice_below(&model->dice, RUNS), n = dice_below(&model->dice, 200);
  if (n < 2) {
    space_purge(model->space, dice_below(&model->dice, 64) << model->space->unit_log2);
  } else if (n < 3) {
    os_fake.now_ms += 40;
    space_tick(model->space, os_fake.now_ms);
  } else if (!model->runs[i]) {
    size_t most = dice_below(&model->dice, 4) ? 4 : 64;
    model->runs[i] = take(model->space, 1 + dice_below(&model->dice, most), dice_below(&model->dice, 8) ? 1 : 4);
    if (model->runs[i])
      claim(model, i);
  } else if (dice_below(&model->dice, 3) == 0) {
    resize(model, i);
  } else {
    release(model, i);
  }
  must(model->space->used_units == model->used);
}

static void against_the_model(space_t *space, uint64_t seed, bool failures)
{
  model_t model = {.space = space, .dice = {seed}};
  for (size_t i = 0; i < MODEL_STEPS; i++) {
    if (failures && i % 100 == 0) {
      os_fake.fail_kinds = dice_below(&model.dice, 2) ? 0 : (uint32_t)dice_roll(&model.dice) & ~(uint32_t)(1 << OS_MAP);
      os_fake.fail_halfway = dice_below(&model.dice, 2);
      os_fake.occupied = dice_below(&model.dice, 10) == 0;
    }
    model_step(&model);
    if (i % 16 == 0)
      check_space(space);
  }
  os_fake_heal();
  for (size_t i = 0; i < RUNS; i++)
    if (model.runs[i])
      release(&model, i);
  check_space(space);
}

static void process_model(void *argument)
{
  const uint64_t *seed = argument;
  bring_up();
  space_of_process.purge_delay_ms = *seed % 3 ? *seed % 3 == 1 ? PURGE_NEVER : 0 : 100;
  against_the_model(&space_of_process, *seed, *seed > 3);
}

static void slots_model(void *argument)
{
  const uint64_t *seed = argument;
  space_t space;
  bring_up();
  must(space_init_slots(&space, 300));
  space.purge_delay_ms = 100;
  against_the_model(&space, *seed, *seed > 3);
  space_finish_slots(&space);
}

static void region_model(void *argument)
{
  const uint64_t *seed = argument;
  os_fake_heal();
  for (unsigned log2 = 10; log2 <= UNIT_LOG2; log2 += 2)
    against_the_model(&region_new(log2, ((size_t)100 << log2) + 77)->space, *seed, false);
}

/* ---- threads ---- */

enum { THREADS = 4 };

static void *work(void *argument)
{
  model_t model = {.space = &space_of_process, .dice = {(uintptr_t)argument}};
  for (size_t i = 0; i < 2000; i++) {
    size_t at = dice_below(&model.dice, RUNS);
    if (dice_below(&model.dice, 300) == 0)
      space_purge(model.space, dice_below(&model.dice, 200) * UNIT);
    else if (model.runs[at])
      release(&model, at);
    else if ((model.runs[at] = take(model.space, 1 + dice_below(&model.dice, 8), 1)) != NULL)
      claim(&model, at);
  }
  for (size_t i = 0; i < RUNS; i++)
    if (model.runs[i])
      release(&model, i);
  return NULL;
}

static void threads(void *argument)
{
  pthread_t workers[THREADS];
  bring_up();
  space_of_process.purge_delay_ms = *(const uint64_t *)argument % 2 ? 100 : 0;
  for (uintptr_t i = 0; i < THREADS; i++)
    must(pthread_create(&workers[i], NULL, work, (void *)(i + 1 + *(const uint64_t *)argument * THREADS)) == 0);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(workers[i], NULL);
  must(space_of_process.used_units == 0);
  check_space(&space_of_process);
}

IN_CHILD(lowest_first)
IN_CHILD(aligned)
IN_CHILD(more_arenas)
IN_CHILD(longer_and_shorter)
IN_CHILD(finding)
IN_CHILD(one_after_the_other)
IN_CHILD(nothing_to_be_had)
IN_CHILD(in_the_next_slot)
WITH(in_the_slot_after_next, size_t, 0, 1, 2)
WITH(under_a_limit, size_t, 4 * MIB, 16 * MIB, 64 * MIB)
WITH(short_of_memory, size_t, SIZE_MAX, 256 * MIB, 256 * MIB - 1, MIB)
IN_CHILD(charged)
WITH(charged_beyond, bool, false, true)
WITH(come_and_go, uint64_t, 1, 2, 3)
IN_CHILD(hidden)
IN_CHILD(init_in_vain)
WITH(init_elsewhere, size_t, 0, 1, 2, 3, 4)
IN_CHILD(whole_region)
WITH(process_model, uint64_t, 1, 2, 3, 4, 5, 6)
WITH(slots_model, uint64_t, 1, 2, 3, 4, 5, 6)
WITH(region_model, uint64_t, 1, 2, 3)
WITH(threads, uint64_t, 1, 2, 3, 4)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lowest_first_test),
    cmocka_unit_test(aligned_test),
    cmocka_unit_test(more_arenas_test),
    cmocka_unit_test(longer_and_shorter_test),
    cmocka_unit_test(finding_test),
    cmocka_unit_test(one_after_the_other_test),
    cmocka_unit_test(nothing_to_be_had_test),
    cmocka_unit_test(in_the_next_slot_test),
    cmocka_unit_test(in_the_slot_after_next_test),
    cmocka_unit_test(under_a_limit_test),
    cmocka_unit_test(short_of_memory_test),
    cmocka_unit_test(charged_test),
    cmocka_unit_test(charged_beyond_test),
    cmocka_unit_test(come_and_go_test),
    cmocka_unit_test(hidden_test),
    cmocka_unit_test(init_in_vain_test),
    cmocka_unit_test(init_elsewhere_test),
    cmocka_unit_test(guests),
    cmocka_unit_test(whole_region_test),
    cmocka_unit_test(slots_are_left_to_the_process_test),
    cmocka_unit_test(process_model_test),
    cmocka_unit_test(slots_model_test),
    cmocka_unit_test(region_model_test),
    cmocka_unit_test(threads_test),
  };
  return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
