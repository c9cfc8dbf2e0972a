/* SPDX-License-Identifier: MIT
 * One arena against a model: units that are used, dirty and mapped. */
#include "arenas.h"
#include "os_fake.h"
#include "space/budget.h"

enum { MODEL_STEPS = 8000 };

static size_t naive_end_of_use(const arena_t *arena)
{
  size_t end = arena->committed;
  while (end && bit_test(arena->room.map, end - 1) && !bit_test(arena->dirty, end - 1))
    end--;
  return end;
}

typedef struct model {
  arena_t *arena;
  dice_t dice;
  run_t *runs[RUNS];
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
    must(run->start[unit * UNIT] == (char)(model->keys[i] + 2 * unit) &&
         run->start[unit * UNIT + UNIT - 1] == run->start[unit * UNIT]);
}

static void model_take(model_t *model, size_t i)
{
  past_t past;
  run_t *run;
  size_t units = 1 + dice_below(&model->dice, dice_below(&model->dice, 4) ? 4 : 90), dirty = model->arena->dirty_count;
  taken_t taken = arena_take(model->arena, units, (size_t)1 << dice_below(&model->dice, 4), &run, &past);
  must(taken == TAKEN || (taken == NO_MEMORY && os_fake.fail_kinds));
  if (taken != TAKEN)
    return;
  must(past.dirty <= units && past.dirty == dirty - model->arena->dirty_count && run->zeroed == !past.dirty);
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
  arena_give(model->arena, at + keep, at + run->units);
  run->units = (uint32_t)keep;
  if (!keep)
    model->runs[i] = NULL;
}

static void model_purge(model_t *model)
{
  size_t from, to, below = dice_below(&model->dice, 2) ? SIZE_MAX : dice_below(&model->dice, model->arena->committed + 1);
  for (size_t turns = dice_below(&model->dice, 8); turns-- && arena_highest_dirty(model->arena, below, &from, &to);
       below = from) {
    arena_begin_purge(model->arena, from, to);
    arena_end_purge(model->arena, from, to, os_purge(model->arena->base + from * UNIT, (to - from) * UNIT));
  }
}

/* Of runs and long bitmaps, as far as they are mapped. */
static size_t record_bytes(const arena_t *arena)
{
  must(arena->runs_end >= (char *)(arena->runs + arena->committed));
  must(arena->long_bitmaps_end >= (char *)(arena->long_bitmaps + arena->committed * LONG_BITMAP_WORDS));
  return (size_t)(arena->runs_end - (const char *)arena) + (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps);
}

static size_t mapped_units(const arena_t *arena)
{
  return arena->committed - bits_count(arena->holes, 0, HUGE_PAGES_MOST) * HUGE_PAGE_UNITS;
}

/* Without an error there is no unit beyond what is used, and each page of which nothing is used is a hole. */
static void all_idle_is_unmapped(const arena_t *arena, size_t end)
{
  must(arena->committed == end);
  for (size_t page = 0; page < end / HUGE_PAGE_UNITS; page++) {
    size_t from = page * HUGE_PAGE_UNITS, to = from + HUGE_PAGE_UNITS;
    bool idle = bits_count(arena->room.map, from, to) == HUGE_PAGE_UNITS && !bits_count(arena->dirty, from, to);
    must(idle == bit_test(arena->holes, page));
  }
}

static void model_unmap_idle(model_t *model)
{
  arena_t *arena = model->arena;
  size_t end = naive_end_of_use(arena), committed = arena->committed, mapped = os_fake.mapped_bytes,
         records = record_bytes(arena), units = mapped_units(arena);
  bool refuses = os_fake.fail_kinds >> OS_UNMAP & 1;
  arena_unmap_idle(arena, SIZE_MAX);
  if (refuses)
    must(arena->committed == committed);
  else
    all_idle_is_unmapped(arena, end);
  must(os_fake.mapped_bytes == mapped - (units - mapped_units(arena)) * UNIT - (records - record_bytes(arena)));
  must(arena->committed == committed ||
       arena->long_bitmaps_end <= (char *)(arena->long_bitmaps + end * LONG_BITMAP_WORDS) + 32 * KIB + 4 * KIB);
  for (size_t at = round_up(end, 64); at < committed; at++) /* of no kind, or as it was */
    must(arena->runs[at].kind == RUN_NONE);
}

static void model_ask(model_t *model)
{
  for (size_t i = 0; i < RUNS; i++) {
    const run_t *run = model->runs[i];
    const char *end = run ? run->start + run_bytes(run) : NULL;
    must(!run || (arena_find(model->arena, run->start) == run && arena_find(model->arena, end - 1) == run &&
                  arena_find(model->arena, end) != run));
    must(!run || (run_of(model->arena, end - 1) == run && !arena_had_run(model->arena, run->start)));
  }
  for (size_t i = 0; i < 50; i++) {
    const char *any = model->arena->base + dice_below(&model->dice, (size_t)(model->arena->unit_count + 100) << UNIT_LOG2);
    const run_t *run = arena_find(model->arena, any);
    must((run == NULL) == (any >= arena_end(model->arena) || bit_test(model->arena->room.map, unit_of(model->arena, any))));
  }
  must(!arena_find(model->arena, model->arena->base - 1) && !arena_find(model->arena, NULL) &&
       !arena_had_run(model->arena, NULL));
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
      refusals_forget();
    }
    if (n < 4)
      model_purge(&model);
    else if (n < 8)
      model_unmap_idle(&model);
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

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(against_the_model_test),
  };
  return cmocka_run_group_tests_name("arena_model", tests, NULL, NULL);
}
