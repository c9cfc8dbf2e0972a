/* SPDX-License-Identifier: MIT
 * Records of the manager's own, at random and beside forks. */
#include "heap/life.h"
#include "os_fake.h"
#include "records.h"
#include <pthread.h>

enum { RECORDS = 120, MODEL_STEPS = 6000 };

/* ---- at random ---- */

static void no_overlap(const record_t *records, const record_t *with)
{
  for (size_t i = 0; i < RECORDS; i++)
    must(&records[i] == with || !records[i].at || records[i].at + records[i].size <= with->at ||
         with->at + with->size <= records[i].at);
}

static void model_step(record_t *records, dice_t *dice)
{
  record_t *record = &records[dice_below(dice, RECORDS)];
  if (record->at) {
    must(pattern_holds(record->at, record->size, record->key));
    metadata_give(record->at, record->size);
    record->at = NULL;
    return;
  }
  size_t size = 1 + dice_below(dice, (size_t)64 << dice_below(dice, 13));
  bool pages = dice_below(dice, 4) == 0;
  record->size = pages ? round_up(size, os_fake.page_size) : size;
  record->at = metadata_take(record->size, pages ? os_fake.page_size : METADATA_ALIGNMENT);
  must(record->at || os_fake.fail_kinds);
  if (!record->at)
    return;
  must((uintptr_t)record->at % (pages ? os_fake.page_size : METADATA_ALIGNMENT) == 0 && all_zero(record->at, record->size));
  no_overlap(records, record);
  pattern_write(record->at, record->size, record->key = dice_roll(dice));
}

static void model(void *argument)
{
  static record_t records[RECORDS];
  dice_t dice = {*(const uint64_t *)argument};
  window_up();
  for (size_t i = 0; i < MODEL_STEPS; i++) {
    if (i % 100 == 0) {
      os_fake.fail_kinds = dice_below(&dice, 3) ? 0 : (uint32_t)dice_roll(&dice);
      os_fake.fail_halfway = dice_below(&dice, 2);
    }
    model_step(records, &dice);
  }
  os_fake_heal();
  for (size_t i = 0; i < RECORDS; i++)
    if (records[i].at)
      metadata_give(records[i].at, records[i].size);
  must(metadata_bytes() == 0);
}

/* ---- threads and forks ---- */

static bool ending;

static void *take_and_give(void *argument)
{
  dice_t dice = {(uintptr_t)argument};
  for (char *mine[30] = {0}; !__atomic_load_n(&ending, __ATOMIC_RELAXED);) {
    size_t i = dice_below(&dice, 30), size = 100 + i * 3000;
    if (mine[i]) {
      must(mine[i][0] == (char)(uintptr_t)argument && mine[i][size - 1] == mine[i][0]);
      metadata_give(mine[i], size);
      mine[i] = NULL;
    } else {
      mine[i] = metadata_take(size, METADATA_ALIGNMENT);
      must(mine[i] && !mine[i][0] && !mine[i][size - 1]);
      mine[i][0] = mine[i][size - 1] = (char)(uintptr_t)argument;
    }
  }
  return NULL;
}

static void take_in_the_child(void *argument)
{
  (void)argument;
  for (size_t i = 0; i < 30; i++) {
    char *record = metadata_take(100 + i * 3000, METADATA_ALIGNMENT);
    must(record && all_zero(record, 100 + i * 3000));
    metadata_give(record, 100 + i * 3000);
  }
}

static void forks(void *argument)
{
  pthread_t threads[3];
  (void)argument;
  os_fake_heal();
  must(manager_ready());
  for (uintptr_t i = 0; i < 3; i++)
    must(pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1)) == 0);
  for (size_t i = 0; i < 40; i++)
    in_child(take_in_the_child, NULL);
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
}

IN_CHILD(forks)

static void model_test(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++)
    in_child(model, &seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(model_test),
    cmocka_unit_test(forks_test),
  };
  return cmocka_run_group_tests_name("metadata_model", tests, NULL, NULL);
}
