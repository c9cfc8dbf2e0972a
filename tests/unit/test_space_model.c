/* SPDX-License-Identifier: MIT
 * Spaces against a model, and of several threads: runs never overlap, are where they should be, and what is said to be zero
 * is. */
#include "option.h"
#include "os_fake.h"
#include "region.h"
#include "runs.h"
#include <pthread.h>

enum { RUNS = 60, MODEL_STEPS = 3000 };

typedef struct model {
  space_t *space;
  dice_t dice;
  run_t *runs[RUNS];
  uint64_t keys[RUNS];
  size_t used;
  bool failures;
} model_t;

static size_t bytes_of(const run_t *run) { return (size_t)run->units << UNIT_LOG2; }

/* For blocks that are filled, or for what may be touched here and there. */
static run_t *take_either(model_t *model, size_t units, size_t alignment)
{
  static budget_t budget;
  if (alignment > 1 || dice_below(&model->dice, 2))
    return take(model->space, units, alignment);
  run_t *run = space_take_filled(model->space, &budget, units << UNIT_LOG2);
  if (run)
    run_become(run, RUN_LARGE, &owner);
  return run;
}

static void claim(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  must(!run->zeroed || all_zero(run->start, bytes_of(run)));
  model->keys[i] = dice_roll(&model->dice);
  run->zeroed = false;
  pattern_write(run->start, bytes_of(run), model->keys[i]);
  model->used += run->units;
}

static void release(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  must(pattern_holds(run->start, bytes_of(run), model->keys[i]));
  model->used -= run->units;
  model->runs[i] = NULL;
  space_give(model->space, run);
}

static void resize(model_t *model, size_t i)
{
  run_t *run = model->runs[i];
  size_t units = 1 + dice_below(&model->dice, run->units * 2), kept = min_size(units, run->units) << UNIT_LOG2;
  size_t had = run->units;
  if (units < had)
    space_shorten(model->space, run, units);
  else if (units == had || !space_lengthen(model->space, run, units))
    return;
  must(pattern_kept(run->start, kept, had << UNIT_LOG2, model->keys[i]));
  model->used -= had;
  run->zeroed = false;
  claim(model, i);
}

static void model_step(model_t *model)
{
  size_t i = dice_below(&model->dice, RUNS), n = dice_below(&model->dice, 200);
  if (n < 2) {
    space_purge(model->space, dice_below(&model->dice, 64) << UNIT_LOG2);
  } else if (n < 3) {
    os_fake.now_ms += 40;
    space_tick_region(model->space, os_fake.now_ms); /* to its end, also of the process's space */
  } else if (!model->runs[i]) {
    size_t most = dice_below(&model->dice, 4) ? 4 : 64;
    model->runs[i] = take_either(model, 1 + dice_below(&model->dice, most), dice_below(&model->dice, 8) ? 1 : 4);
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
  for (size_t i = 0; i < some_of(MODEL_STEPS); i++) {
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
  space_up();
  space_of_process.huge_pages = HUGE_PAGES_AUTO;
  space_of_process.purge_delay_ms = *seed % 3 ? *seed % 3 == 1 ? PURGE_NEVER : 0 : 100;
  against_the_model(&space_of_process, *seed, *seed > 3);
}

static void slots_model(void *argument)
{
  const uint64_t *seed = argument;
  space_t space;
  space_up();
  must(space_init_slots(&space, 300));
  space.purge_delay_ms = 100;
  against_the_model(&space, *seed, *seed > 3);
  space_destroy_slots(&space);
}

static void region_model(void *argument)
{
  const uint64_t *seed = argument;
  os_fake_heal();
  against_the_model(&region_new(100 * UNIT + 77)->space, *seed, false);
}

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
    else if ((model.runs[at] = take_either(&model, 1 + dice_below(&model.dice, 8), 1)) != NULL)
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
  space_up();
  space_of_process.huge_pages = HUGE_PAGES_AUTO;
  space_of_process.purge_delay_ms = *(const uint64_t *)argument % 2 ? 100 : 0;
  for (uintptr_t i = 0; i < THREADS; i++)
    must(pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)(i + 1 + *(const uint64_t *)argument * THREADS)) == 0);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(workers[i], NULL);
  must(space_of_process.used_units == 0);
  check_space(&space_of_process);
}

WITH(process_model, uint64_t, 1, 2, 3, 4, 5, 6)
WITH(slots_model, uint64_t, 1, 2, 3, 4, 5, 6)
WITH(region_model, uint64_t, 1, 2, 3)
WITH(threads, uint64_t, 1, 2, 3, 4)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(process_model_test),
    cmocka_unit_test(slots_model_test),
    cmocka_unit_test(region_model_test),
    cmocka_unit_test(threads_test),
  };
  return cmocka_run_group_tests_name("space_model", tests, NULL, NULL);
}
