/* SPDX-License-Identifier: MIT
 * Spaces against a model of one byte a unit: runs never overlap, are where they should be, and what is said to be zero is. */
#include "arena.h"
#include "os_fake.h"
#include "region.h"
#include "unit.h"

static void bring_up(void)
{
  os_fake_heal();
  must(space_init());
  space_of_process.purge_delay_ms = PURGE_NEVER;
}

/* A run stands for a large block in these tests. */
static run_t *take(space_t *space, size_t units, size_t alignment)
{
  static int owner;
  run_t *run = space_take(space, units, alignment);
  if (run) {
    run->kind = RUN_LARGE;
    run->owner = &owner;
  }
  return run;
}

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
  space_give(&space_of_process, runs[3], true);
  space_give(&space_of_process, runs[1], true);
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
  for (size_t alignment = 1; alignment <= space_longest_run(); alignment *= 2) {
    run_t *run = take(&space_of_process, 1, alignment);
    must(run && (uintptr_t)run->start % (alignment << UNIT_LOG2) == 0);
  }
  must(!take(&space_of_process, 1, space_longest_run() * 2));
  check_space(&space_of_process);
}

/* The longest run there is fits more than once into an arena; more arenas come when one is full. */
static void more_arenas(void *argument)
{
  (void)argument;
  bring_up();
  size_t longest = space_longest_run(), count = 0;
  must(!take(&space_of_process, longest + 1, 1));
  while (space_arena_count < 4) {
    run_t *run = take(&space_of_process, longest, 1);
    must(run);
    run->start[0] = run->start[(longest << UNIT_LOG2) - 1] = 1;
    must(space_find(run->start) == run && space_find(run->start + (longest << UNIT_LOG2) - 1) == run);
    must(++count < 100);
  }
  must(count >= 3 * 3);
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
  space_give(space, wall, false);
  must(space_lengthen(space, run, 500) && run->units == 500);
  run->start[(500 << UNIT_LOG2) - 1] = 1;
  must(!space_lengthen(space, run, (size_t)1 << 20));
  check_space(space);
  space_give(space, run, true);
  must(space->used_units == 0 && space->dirty_units == 500);
  check_space(space);
}

static void finding(void *argument)
{
  (void)argument;
  must(!space_find(argument) && !space_find(NULL));
  bring_up();
  run_t *a = take(&space_of_process, 2, 1), *b = take(&space_of_process, 70, 1), *c = take(&space_of_process, 1, 1);
  must(space_find(a->start) == a && space_find(a->start + 2 * UNIT - 1) == a);
  must(space_find(b->start) == b && space_find(b->start + 70 * UNIT - 1) == b && space_find(b->start + 65 * UNIT) == b);
  must(space_find(c->start) == c && !space_find(c->start + UNIT) && !space_find(a->start - 1));
  must(!space_find(space_arenas[0]) && !space_find((char *)space_arenas[0] - 1));
  space_give(&space_of_process, b, true);
  must(!space_find(b->start) && !space_find(b->start + 69 * UNIT) && space_find(c->start) == c);
  dice_t dice = {1};
  for (size_t i = 0; i < 10000; i++)
    space_find((void *)(dice_roll(&dice) >> dice_below(&dice, 64)));
}

/* Given back and taken again: purged memory reads as zero and is known to; dirty memory is not taken for zero. */
static void purging(void *argument)
{
  (void)argument;
  bring_up();
  space_t *space = &space_of_process;
  run_t *run = take(space, 200, 1);
  memset(run->start, 7, 200 * UNIT);
  space_give(space, run, true);
  must(space->dirty_units == 200 && space->used_units == 0);
  must(space_purge(space, 150 * UNIT) == 50 * UNIT && space->dirty_units == 150);
  must(space->purged_bytes == 50 * UNIT);
  check_space(space);
  run_t *dirty = take(space, 150, 1), *clean = take(space, 50, 1);
  must(!dirty->zeroed && clean->zeroed && all_zero(clean->start, 50 * UNIT));
  space_give(space, dirty, true);
  space_give(space, clean, false);
  must(space->dirty_units == 150);
  must(space_purge(space, 0) == 150 * UNIT && space->dirty_units == 0 && space_purge(space, 0) == 0);
  run = take(space, 200, 1);
  must(run->zeroed && all_zero(run->start, 200 * UNIT));
  check_space(space);
}

static void purging_in_vain(void *argument)
{
  (void)argument;
  bring_up();
  space_t *space = &space_of_process;
  run_t *run = take(space, 100, 1);
  memset(run->start, 7, 100 * UNIT);
  space_give(space, run, true);
  os_fake.fail_kinds = 1 << OS_PURGE;
  must(space_purge(space, 0) == 0 && space->dirty_units == 100);
  check_space(space);
  os_fake_heal();
  must(space_purge(space, 0) == 100 * UNIT);
  check_space(space);
}

/* With a delay of 0 nothing stays; with a delay, what was not needed for so long goes at the next tick. */
static void delays(void *argument)
{
  (void)argument;
  bring_up();
  space_t *space = &space_of_process;
  space->purge_delay_ms = 0;
  space_give(space, take(space, 100, 1), true);
  must(space->dirty_units == 0);
  space->purge_delay_ms = 100;
  space->epoch_ms = os_fake.now_ms;
  run_t *run = take(space, 64, 1);
  space_give(space, run, true);
  size_t kept = space->dirty_units;
  must(kept > 0 && kept <= 64);
  must(!space_tick(space, os_fake.now_ms + 99 / 4 - 5));
  for (unsigned i = 1; i <= 20; i++)
    must(space_tick(space, os_fake.now_ms + i * 100));
  must(space->dirty_units <= 16);
  check_space(space);
  space->purge_delay_ms = PURGE_NEVER;
  must(!space_tick(space, os_fake.now_ms + 1000000));
}

static void no_memory(void *argument)
{
  (void)argument;
  bring_up();
  os_fake.fail_kinds = 1 << OS_RESERVE;
  must(!take(&space_of_process, 1, 1) && space_arena_count == 0);
  os_fake.fail_kinds = 1 << OS_COMMIT;
  size_t reserved = os_fake.reserved_bytes;
  must(!take(&space_of_process, 1, 1) && space_arena_count == 0 && os_fake.reserved_bytes == reserved);
  os_fake_heal();
  must(take(&space_of_process, 1, 1));
  os_fake.fail_kinds = 1 << OS_COMMIT;
  must(!take(&space_of_process, 5000 < space_longest_run() ? 5000 : space_longest_run(), 1));
  check_space(&space_of_process);
}

/* ---- any space, against a model ---- */

enum { RUNS = 60, MODEL_STEPS = 3000 };

typedef struct model {
  space_t *space;
  dice_t   dice;
  run_t   *runs[RUNS];
  uint64_t keys[RUNS];
  size_t   used;
  bool     writes;        /* units are large enough to take a pattern at both ends */
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
  space_give(model->space, run, true);
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
  size_t i = dice_below(&model->dice, RUNS);
  if (dice_below(&model->dice, 200) == 0) {
    space_purge(model->space, dice_below(&model->dice, 64) << model->space->unit_log2);
  } else if (!model->runs[i]) {
    model->runs[i] = take(model->space, 1 + dice_below(&model->dice, dice_below(&model->dice, 4) ? 4 : 80), 1);
    if (model->runs[i])
      claim(model, i);
  } else if (dice_below(&model->dice, 3) == 0) {
    resize(model, i);
  } else {
    release(model, i);
  }
  must(model->space->used_units == model->used);
}

static void against_the_model(space_t *space, uint64_t seed)
{
  model_t model = {.space = space, .dice = {seed}};
  for (size_t i = 0; i < MODEL_STEPS; i++) {
    model_step(&model);
    if (i % 16 == 0)
      check_space(space);
  }
  for (size_t i = 0; i < RUNS; i++)
    if (model.runs[i])
      release(&model, i);
  check_space(space);
}

static void process_model(void *argument)
{
  const uint64_t *seed = argument;
  bring_up();
  space_of_process.purge_delay_ms = *seed % 2 ? PURGE_NEVER : 100;
  against_the_model(&space_of_process, *seed);
}

static void windowed_model(void *argument)
{
  os_fake.address_space_limit = GIB;
  process_model(argument);
  must(class_map_windowed);
}

static void region_model(void *argument)
{
  const uint64_t *seed = argument;
  os_fake_heal();
  for (unsigned log2 = 10; log2 <= UNIT_LOG2; log2 += 2)
    against_the_model(&region_new(log2, ((size_t)100 << log2) + 77)->space, *seed);
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
    space_give(&region->space, run, true);
    must(space_purge(&region->space, 0) == 0);
    for (size_t i = 0; i < units; i++)
      must(take(&region->space, 1, 1));
    must(!take(&region->space, 1, 1));
    check_space(&region->space);
  }
}

#define IN_CHILD(name)                       \
  static void name##_test(void **state)      \
  {                                          \
    (void)state;                             \
    in_child(name, NULL);                    \
  }
#define WITH_SEEDS(name)                         \
  static void name##_test(void **state)          \
  {                                              \
    (void)state;                                 \
    for (uint64_t seed = 1; seed <= 3; seed++)   \
      in_child(name, &seed);                     \
  }

IN_CHILD(lowest_first)
IN_CHILD(aligned)
IN_CHILD(more_arenas)
IN_CHILD(longer_and_shorter)
IN_CHILD(finding)
IN_CHILD(purging)
IN_CHILD(purging_in_vain)
IN_CHILD(delays)
IN_CHILD(no_memory)
IN_CHILD(whole_region)
WITH_SEEDS(process_model)
static void windowed_model_test(void **state)
{
  (void)state;
  if (!window_is_free())
    skip();
  for (uint64_t seed = 1; seed <= 3; seed++)
    in_child(windowed_model, &seed);
}
WITH_SEEDS(region_model)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lowest_first_test),
    cmocka_unit_test(aligned_test),
    cmocka_unit_test(more_arenas_test),
    cmocka_unit_test(longer_and_shorter_test),
    cmocka_unit_test(finding_test),
    cmocka_unit_test(purging_test),
    cmocka_unit_test(purging_in_vain_test),
    cmocka_unit_test(delays_test),
    cmocka_unit_test(no_memory_test),
    cmocka_unit_test(whole_region_test),
    cmocka_unit_test(process_model_test),
    cmocka_unit_test(windowed_model_test),
    cmocka_unit_test(region_model_test),
  };
  return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
