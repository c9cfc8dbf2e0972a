/* SPDX-License-Identifier: MIT
 * Huge blocks at random, of one thread and of several. Contents, addresses and the claim to be zero are held against a model.
 * */
#include "mappings.h"
#include "option.h"
#include "os_fake.h"
#include <pthread.h>

typedef struct model {
  dice_t dice;
  huge_t *blocks[BLOCKS];
  size_t sizes[BLOCKS];
  uint64_t keys[BLOCKS];
  bool alone;
} model_t;

static void apart(const model_t *model, size_t with)
{
  const huge_t *block = model->blocks[with];
  for (size_t i = 0; i < BLOCKS; i++) {
    const huge_t *other = model->blocks[i];
    must(i == with || !other || huge_start(other) + huge_size(other) <= huge_start(block) ||
         huge_start(block) + huge_size(block) <= huge_start(other));
  }
}

static void claim(model_t *model, size_t i, size_t size)
{
  apart(model, i);
  model->sizes[i] = size;
  pattern_write(huge_start(model->blocks[i]), size, model->keys[i] = dice_roll(&model->dice));
}

static void model_take(model_t *model, size_t i)
{
  bool zeroed;
  size_t size = 1 + dice_below(&model->dice, (size_t)1 << (12 + dice_below(&model->dice, 9)));
  size_t alignment = dice_below(&model->dice, 5) ? 1 : (size_t)1 << (10 + dice_below(&model->dice, 8));
  huge_t *huge = model->blocks[i] = huge_take(size, alignment, &owner, &owned, &zeroed);
  must(huge || os_fake.fail_kinds);
  if (!huge)
    return;
  must(huge_size(huge) == huge_bytes(size) && (uintptr_t)huge_start(huge) % max_size(alignment, PAGE) == 0);
  must(!zeroed || all_zero(huge_start(huge), huge_size(huge)));
  claim(model, i, size);
}

static void model_resize(model_t *model, size_t i)
{
  size_t size = 1 + dice_below(&model->dice, 3 * model->sizes[i]);
  bool may_move = dice_below(&model->dice, 2);
  char *start = huge_start(model->blocks[i]);
  bool done = huge_resize(model->blocks[i], size, may_move);
  must(done || huge_start(model->blocks[i]) == start);
  must(pattern_kept(huge_start(model->blocks[i]), done ? min_size(size, model->sizes[i]) : model->sizes[i], model->sizes[i],
                    model->keys[i]));
  if (done)
    claim(model, i, size);
}

static void model_give(model_t *model, size_t i)
{
  must(pattern_holds(huge_start(model->blocks[i]), model->sizes[i], model->keys[i]));
  huge_give(model->blocks[i]);
  model->blocks[i] = NULL;
}

static void model_step(model_t *model)
{
  size_t i = dice_below(&model->dice, BLOCKS), n = dice_below(&model->dice, 100);
  if (n < 4)
    huge_unmap_left();
  else if (!model->blocks[i])
    model_take(model, i);
  else if (n < 40)
    model_resize(model, i);
  else
    model_give(model, i);
}

static void model_end(model_t *model)
{
  for (size_t i = 0; i < BLOCKS; i++)
    if (model->blocks[i])
      model_give(model, i);
}

/* Some kinds of call fail for a while, or those of the thread are forbidden. Metadata can be had. */
static void vary(dice_t *dice)
{
  os_fake.fail_kinds = dice_below(dice, 3) ? 0 : (uint32_t)dice_roll(dice) & ~(1u << OS_MAP_AT);
  os_fake.fail_halfway = dice_below(dice, 2);
}

static void model(void *argument)
{
  static model_t model;
  model = (model_t){.dice = {*(const uint64_t *)argument}};
  window_up();
  have_records();
  for (size_t i = 0; i < some_of(12000); i++) {
    if (i % 150 == 0)
      vary(&model.dice);
    model_step(&model);
    if (i % 10 == 0)
      must(all_is_known());
  }
  os_fake_heal();
  model_end(&model);
  huge_unmap_left();
  must(huge_left_bytes() == 0 && bytes_of(&owner) == 0 && all_is_known());
}

static void *work(void *argument)
{
  model_t model = {.dice = {(uintptr_t)argument}};
  for (size_t i = 0; i < 3000; i++)
    model_step(&model);
  model_end(&model);
  return NULL;
}

static void threads(void *argument)
{
  pthread_t workers[4];
  window_up();
  have_records();
  for (uintptr_t i = 0; i < 4; i++)
    must(pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)(i + 1 + 10 * *(const uint64_t *)argument)) == 0);
  for (size_t i = 0; i < 4; i++)
    pthread_join(workers[i], NULL);
  huge_unmap_left();
  must(bytes_of(&owner) == 0 && all_is_known());
}

WITH(model, uint64_t, 1, 2, 3, 4, 5, 6)
WITH(threads, uint64_t, 1, 2)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(model_test),
    cmocka_unit_test(threads_test),
  };
  return cmocka_run_group_tests_name("huge_model", tests, NULL, NULL);
}
