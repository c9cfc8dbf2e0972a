/* SPDX-License-Identifier: MIT
 * Large blocks of any heap, against a model. */
#include "large_blocks.h"
#include "os_fake.h"
#include <errno.h>

enum { BLOCKS = 48, MODEL_STEPS = 2500 };

typedef struct kind {
  const char *name;
  pool_heap_options_t options;
} kind_t;

static const kind_t kinds[] = {
  {"default", {.name = "the default heap"}},
  {"plain", {0}},
  {"budget of 64 MiB", {.budget = 64 << 20}},
  {"budget of 8 MiB", {.budget = 8 << 20}},
  {"reserve of 32 MiB", {.reserve = 32 << 20}},
  {"reserve of 6 MiB and budget", {.reserve = 6 << 20, .budget = 50 << 20}},
  {"zero on free", {.flags = POOL_HEAP_ZERO_ON_FREE}},
  {"checked", {.flags = POOL_HEAP_CHECKED}},
};

typedef struct model {
  pool_heap_t *heap;
  dice_t dice;
  char *blocks[BLOCKS];
  size_t sizes[BLOCKS];
  uint64_t keys[BLOCKS];
  bool checked;
} model_t;

static size_t some_size(dice_t *dice)
{
  switch (dice_below(dice, 8)) {
  case 0:
    return 1 + dice_below(dice, 40 * KIB);
  case 1:
    return 4 * MIB - 8192 + dice_below(dice, 16384);
  case 2:
    return 4 * MIB + dice_below(dice, 8 * MIB);
  default:
    return 30 * KIB + dice_below(dice, (size_t)1 << (15 + dice_below(dice, 7)));
  }
}

static bool claim(model_t *model, size_t i, char *block, size_t size)
{
  must(errno == (block ? 77 : ENOMEM));
  if (!block)
    return false;
  must(pool_usable_size(block) >= size && pool_heap_of(block) == model->heap && pool_in_use(block + size - 1));
  model->blocks[i] = block;
  model->sizes[i] = size;
  pattern_write(block, size, model->keys[i] = dice_roll(&model->dice));
  return true;
}

static void model_take(model_t *model, size_t i)
{
  size_t size = some_size(&model->dice), alignment = (size_t)16 << dice_below(&model->dice, 20);
  errno = 77;
  switch (dice_below(&model->dice, 4)) {
  case 0: {
    char *block = pool_heap_calloc(model->heap, 1, size);
    must(!block || all_zero(block, pool_usable_size(block)));
    claim(model, i, block, size);
    break;
  }
  case 1: {
    char *block = pool_heap_aligned_alloc(model->heap, alignment, size);
    must((uintptr_t)block % alignment == 0);
    claim(model, i, block, size);
    break;
  }
  default:
    claim(model, i, pool_heap_alloc(model->heap, size), size);
  }
}

static void model_resize(model_t *model, size_t i)
{
  size_t had = model->sizes[i],
         size = dice_below(&model->dice, 2) ? some_size(&model->dice) : 1 + dice_below(&model->dice, 2 * had);
  char *was = model->blocks[i];
  bool in_place = dice_below(&model->dice, 3) == 0;
  errno = 77;
  if (in_place && !pool_resize_in_place(was, size)) {
    must(errno == 77 && (model->checked || size > had) && pattern_holds(was, had, model->keys[i]));
    return;
  }
  char *block = in_place ? was : pool_heap_realloc(model->heap, was, size);
  must(pattern_kept(block ? block : was, block ? min_size(size, had) : had, had, model->keys[i]));
  claim(model, i, block, size);
}

static void model_give(model_t *model, size_t i)
{
  must(pattern_holds(model->blocks[i], model->sizes[i], model->keys[i]));
  errno = 77;
  if (dice_below(&model->dice, 2))
    pool_free(model->blocks[i]);
  else
    pool_heap_free(model->heap, model->blocks[i]);
  must(errno == 77);
  model->blocks[i] = NULL;
}

static size_t live(const model_t *model)
{
  size_t count = 0;
  for (size_t i = 0; i < BLOCKS; i++)
    count += model->blocks[i] != NULL;
  return count;
}

static void vary(dice_t *dice)
{
  os_fake.fail_kinds = dice_below(dice, 2) ? 0 : (uint32_t)dice_roll(dice);
  os_fake.fail_halfway = dice_below(dice, 2);
  os_fake.now_ms += 20;
}

static void model(void *argument)
{
  static model_t model;
  const kind_t *kind = argument;
  os_fake_heal();
  model = (model_t){.heap = kind->options.name ? pool_heap_default() : pool_heap_create(&kind->options),
                    .dice = {(uint64_t)(kind - kinds)},
                    .checked = kind->options.flags & POOL_HEAP_CHECKED};
  must(model.heap);
  for (size_t step = 0; step < some_of(MODEL_STEPS); step++) {
    size_t i = dice_below(&model.dice, BLOCKS), n = dice_below(&model.dice, 100);
    if (step % 50 == 0)
      vary(&model.dice);
    if (n < 1)
      pool_heap_trim(model.heap, dice_below(&model.dice, 2) * MIB);
    else if (!model.blocks[i])
      model_take(&model, i);
    else if (n < 45)
      model_resize(&model, i);
    else
      model_give(&model, i);
    if (step % 25)
      continue;
    os_fake_heal();
    pool_stats_t stats = figures(model.heap);
    must(check_everything() && stats.live_blocks == live(&model) && stats.peak_held_bytes >= stats.held_bytes);
    must(!stats.budget || stats.held_bytes <= stats.budget);
  }
  os_fake_heal();
  for (size_t i = 0; i < BLOCKS; i++)
    if (model.blocks[i])
      model_give(&model, i);
  pool_heap_trim(model.heap, 0);
  must(check_everything() && figures(model.heap).live_bytes == 0);
  if (!kind->options.name)
    pool_heap_destroy(model.heap);
  pool_trim(0);
  must(check_everything() && space_of_process.used_units == 0 && huge_left_bytes() == 0);
}

static void model_test(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    in_child_named(kinds[i].name, model, (void *)(uintptr_t)&kinds[i]);
}

/* All of a heap's large blocks end with it, live or not. */
static void all_at_once(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *above = pool_heap_create(&(pool_heap_options_t){.budget = 200 << 20}),
              *heap = pool_heap_create(&(pool_heap_options_t){.parent = above});
  for (size_t turn = 0; turn < 10; turn++) {
    size_t held = figures(above).held_bytes;
    for (size_t size = 300 * KIB; size < 20 * MIB; size = size * 3 / 2)
      must(pool_heap_alloc(heap, size));
    must(figures(heap).live_blocks == 11 && figures(above).held_bytes > held + 50 * MIB && check_everything());
    pool_heap_reset(heap);
    must(figures(heap).live_blocks == 0 && figures(heap).live_bytes == 0 && figures(above).held_bytes == held &&
         check_everything());
  }
  pool_heap_destroy(heap);
  pool_heap_destroy(above);
  must(check_everything());
}

IN_CHILD(all_at_once)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(model_test),
    cmocka_unit_test(all_at_once_test),
  };
  return cmocka_run_group_tests_name("large_model", tests, NULL, NULL);
}
