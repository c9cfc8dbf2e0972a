/* SPDX-License-Identifier: MIT
 * Heaps that write zeros over what is freed, or have all their memory before it is asked for. */
#include "kinds.h"
#include "option.h"
#include "os_fake.h"
#include <sys/mman.h>

static void zero_on_free(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  for (size_t size = 10; size < 200 * KIB; size *= 3) {
    char *block = pool_heap_alloc(heap, size);
    size_t usable = pool_usable_size(block);
    memset(block, 7, usable);
    pool_heap_free(heap, block);
    assert_true(all_zero(block, usable));
  }
  pool_heap_destroy(heap);
}

/* A large block is zero when it is back, in pieces too, whether the system wipes it or not; what was never touched stays so. */
static void zero_large_on_free(void *argument)
{
  pool_heap_options_t options = *(const pool_heap_options_t *)argument;
  os_fake_heal();
  options.flags |= POOL_HEAP_ZERO_ON_FREE;
  pool_heap_t *heap = heap_new(&options);
  for (int refused = 0; refused < 3; refused++)
    for (size_t size = 300000; size < 12 * MIB; size = size * 5 / 2 + 4097) {
      os_fake.fail_kinds = refused ? 1 << OS_PURGE : 0;
      os_fake.fail_halfway = refused == 2;
      char *outer = pool_heap_alloc(heap, size);
      if (!outer)
        break;
      size_t usable = pool_usable_size(outer), less = usable / 2 + 100;
      memset(outer, 7, usable);
      if (pool_resize_in_place(outer, less)) {
        size_t has = pool_usable_size(outer);
        must(outer[less - 1] == 7 && all_zero(outer + less, has - less));
        usable = has;
      }
      pool_heap_free(heap, outer);
      os_fake_heal();
      must(size > 4 * MIB || all_zero(outer, usable));
    }
  uint64_t purges = os_fake.count[OS_PURGE];
  char *block = pool_heap_alloc(heap, MIB);
  pool_heap_free(heap, block);
  bool in_the_way = options.memory || options.flags & POOL_HEAP_PREFAULT || heap_has_granules(heap);
  must((os_fake.count[OS_PURGE] == purges) == in_the_way);
  pool_heap_destroy(heap);
}
WITH(zero_large_on_free, pool_heap_options_t, {0}, {.budget = 60 << 20}, {.reserve = 30 << 20}, {.reserve = 6 << 20},
     {.reserve = 3 << 20, .budget = 3 << 20}, {.reserve = 30 << 20, .flags = POOL_HEAP_PREFAULT},
     {.memory = buffer, .memory_size = sizeof buffer})

/* Of 64 MiB one byte was written to: no more than some pages become memory. */
static void zero_untouched_on_free(void *argument)
{
  enum { PAGES = 64 << 20 >> 12 };
  static unsigned char there[PAGES];
  (void)argument;
  os_fake_heal();
  space_of_process.purge_delay_ms = 1000000;
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  char *block = pool_heap_zalloc(heap, 64 << 20);
  block[5] = 1;
  uint64_t purges = os_fake.count[OS_PURGE];
  must(pool_resize_in_place(block, 32 << 20) && os_fake.count[OS_PURGE] > purges);
  must(mincore(block, 32 << 20, there) == 0);
  size_t resident = 0;
  for (size_t i = 0; i < PAGES / 2; i++)
    resident += there[i] & 1;
  must(resident < PAGES / 8);
  os_fake.fail_kinds = 1 << OS_UNMAP; /* to look at it when it is gone */
  pool_heap_reset(heap);
  must(mincore(block, 32 << 20, there) == 0);
  for (size_t i = resident = 0; i < PAGES / 2; i++)
    resident += there[i] & 1;
  must(resident < PAGES / 8);
  os_fake_heal();
  pool_heap_destroy(heap);
}
IN_CHILD(zero_untouched_on_free)

/* Also where a block moves whose pages the system does not move, and what it leaves is kept. */
static void zero_where_it_was(void *argument)
{
  (void)argument;
  os_fake_heal();
  settings.purge_delay_ms = PURGE_NEVER;
  pool_heap_t *heap = heap_new(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  char *first = pool_heap_alloc(heap, 20 * MIB); /* the next two are behind each other */
  char *behind, *block = pool_heap_alloc(heap, 20 * MIB), *wall = pool_heap_alloc(heap, 20 * MIB);
  memset(block, 7, 20 * MIB);
  os_fake.fail_kinds = 1 << OS_REMAP;
  char *moved = pool_heap_realloc(heap, block, 60 * MIB);
  must(first && wall && moved && moved != block && moved[0] == 7 && moved[20 * MIB - 1] == 7);
  os_fake_heal();
  while ((behind = pool_alloc(20 * MIB)) != NULL && behind != block)
    must(all_zero(behind, 20 * MIB));
  must(behind == block && all_zero(behind, 20 * MIB));
}
IN_CHILD(zero_where_it_was)

/* What was reserved can be had without the system. */
static void reserved(void **state)
{
  (void)state;
  os_fake_heal();
  for (unsigned flags = 0; flags <= POOL_HEAP_PREFAULT; flags += POOL_HEAP_PREFAULT) {
    pool_heap_t *heap = heap_new(&(pool_heap_options_t){.reserve = 4 << 20, .flags = flags | POOL_HEAP_SINGLE_THREAD});
    fill(heap, 1000, 1);
    pool_heap_free(heap, blocks[0]);
    os_fake.refuse = true;
    size_t count = fill(heap, 1000, BLOCKS);
    assert_true(usable_of(count) >= (4 << 20) * 97 / 100);
    os_fake_heal();
    check_everything();
    pool_heap_destroy(heap);
  }
}

static void forbidden_calls(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap =
    heap_new(&(pool_heap_options_t){.reserve = 1 << 20, .flags = POOL_HEAP_PREFAULT | POOL_HEAP_SINGLE_THREAD});
  uint64_t calls = os_fake.calls;
  assert_false(pool_forbid_system_calls(true));
  size_t count = fill(heap, 3000, BLOCKS);
  free_all(heap, count);
  assert_true(pool_forbid_system_calls(false));
  assert_true(count > 300);
  assert_int_equal(os_fake.calls, calls);
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(zero_on_free),
    cmocka_unit_test(zero_where_it_was_test),
    cmocka_unit_test(zero_large_on_free_test),
    cmocka_unit_test(zero_untouched_on_free_test),
    cmocka_unit_test(reserved),
    cmocka_unit_test(forbidden_calls),
  };
  return cmocka_run_group_tests_name("heap_flags", tests, NULL, NULL);
}
