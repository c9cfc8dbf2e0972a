/* SPDX-License-Identifier: MIT
 * Large blocks that grow, and those with a large alignment: what they cost a budget, and what stays mapped or dirty. */
#include "kinds.h"
#include "levels.h"
#include "os_fake.h"

/* A block that grows takes only the difference of the budget, whether it stays, moves or is longer than a run is taken. A wall
 * behind it keeps it from growing where it is. */
static void grows_within_its_budget(void *argument)
{
  enum { BUDGET_MIB = 400, STEP_MIB = 10, OTHERS_MIB = 15 };
  (void)argument;
  manager_up();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.budget = BUDGET_MIB * MIB});
  char *block = pool_heap_alloc(heap, STEP_MIB * MIB);
  for (size_t mib = 2 * STEP_MIB; mib <= BUDGET_MIB - OTHERS_MIB; mib += STEP_MIB) {
    char *wall = pool_heap_alloc(heap, MIB);
    must(wall && (block = pool_heap_realloc(heap, block, mib * MIB)) != NULL);
    block[0] = block[mib * MIB - 1] = (char)mib;
    must(figures(heap).held_bytes <= BUDGET_MIB * MIB);
    pool_heap_free(heap, wall);
  }
  pool_heap_destroy(heap);
}

/* A thread that does nothing but resize large blocks looks at the clock. */
static void resized_by_the_clock(void *argument)
{
  (void)argument;
  manager_up();
  size_t size = min_size(64 * MIB, space_longest_run() << UNIT_LOG2);
  void *freed = pool_alloc(size), *resized = pool_alloc(2 * MIB);
  pool_free(freed);
  must(space_of_process.dirty_units >= size / UNIT);
  for (size_t i = 0; i < 200; i++) {
    os_fake.now_ms += 10;
    must((resized = pool_realloc(resized, (2 + i % 2) * MIB)) != NULL);
  }
  must(space_of_process.dirty_units < 8 * MIB / UNIT);
  pool_free(resized);
}

/* What lies between blocks with a large alignment is not mapped. */
static void aligned_apart(void *argument)
{
  enum { COUNT = 20 };
  (void)argument;
  manager_up();
  size_t mapped = os_fake.mapped_bytes;
  for (size_t i = 0; i < COUNT; i++)
    must((blocks[i] = pool_aligned_alloc(64 * MIB, 4096)) != NULL);
  must(os_fake.mapped_bytes - mapped < 8 * MIB);
  for (size_t i = 0; i < COUNT; i++)
    pool_free(blocks[i]);
}

IN_CHILD(grows_within_its_budget)
IN_CHILD(resized_by_the_clock)
IN_CHILD(aligned_apart)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(grows_within_its_budget_test),
    cmocka_unit_test(resized_by_the_clock_test),
    cmocka_unit_test(aligned_apart_test),
  };
  return cmocka_run_group_tests_name("large_growth", tests, NULL, NULL);
}
