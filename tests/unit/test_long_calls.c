/* SPDX-License-Identifier: MIT
 * No call of a long life waits long for the system: sizes that change by phases, most of what is live dropped at each change,
 * and the clock going on. What a call gives back is counted, in calls of the system and in bytes. */
#include "levels.h"
#include "os_fake.h"
#include "unit.h"
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

/* A flush of a full magazine may close a slab with each of its 62 blocks, and ask for a range for each, or for three where very
 * much is dirty. The most that 40 seeds had was 68; 275 of 8 seeds when a tick purged at one go. */
enum { BLOCKS = 8192, ROUNDS = 60000, PHASES = 10, OPERATIONS_PER_MS = 200, CALLS_MOST = 100, SEEDS = 8 };

static void *blocks[BLOCKS];

typedef struct sizes {
  size_t least, most, live;
} sizes_t;
static const sizes_t phases[] = {
  {16, 128, 8192}, {100, 1000, 8192}, {24, 64, 8192}, {4096, 64 << 10, 600}, {1024, 16 << 10, 3000}};
enum { KINDS = sizeof phases / sizeof *phases };

static uint64_t system_calls(void) { return os_fake.count[OS_PURGE] + os_fake.count[OS_UNMAP]; }

static void must_be_short(uint64_t before) { must(system_calls() - before <= CALLS_MOST); }

static void change(dice_t *dice, const sizes_t *sizes)
{
  void **block = &blocks[dice_below(dice, sizes->live)];
  uint64_t before = system_calls();
  pool_free(*block);
  must_be_short(before);
  before = system_calls();
  size_t size = sizes->least + dice_below(dice, sizes->most - sizes->least);
  must(*block = pool_alloc(size));
  must_be_short(before);
  **(char **)block = 1;
}

static void drop(dice_t *dice, size_t of_ten)
{
  for (size_t i = 0; i < BLOCKS; i++)
    if (dice_below(dice, 10) < of_ten) {
      uint64_t before = system_calls();
      pool_free(blocks[i]);
      must_be_short(before);
      blocks[i] = NULL;
    }
}

/* And what is begun is brought to its end: little is idle when the program has gone on a while with next to nothing. */
static void live(void *argument)
{
  dice_t dice = {(uintptr_t)argument};
  manager_up();
  for (size_t phase = 0; phase < PHASES; phase++) {
    for (size_t i = 0; i < ROUNDS; i++) {
      os_fake.now_ms += i % OPERATIONS_PER_MS == 0;
      change(&dice, &phases[phase % KINDS]);
    }
    must(check_everything());
    drop(&dice, 8);
  }
  drop(&dice, 10);
  must(system_calls() > 100);
  for (size_t i = 0; i < 200000; i++) {
    os_fake.now_ms += i % OPERATIONS_PER_MS == 0;
    change(&dice, &(sizes_t){16, 4096, 500});
  }
  pool_stats_t after;
  pool_heap_stats(pool_heap_default(), &after);
  must(after.idle_bytes <= 8 << 20 && check_everything());
}

static void phases_test(void **state)
{
  (void)state;
  for (uintptr_t seed = 1; seed <= SEEDS; seed++)
    in_child(live, (void *)seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(phases_test)};
  return cmocka_run_group_tests_name("long_calls", tests, time_stands_still, NULL);
}
