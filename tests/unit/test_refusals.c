/* SPDX-License-Identifier: MIT
 * A program that lives at its limit is refused again and again. A refusal returns what is free, once, and asks the system no
 * more than a program of glibc would; and no request is refused that could be served. */
#include "../dice.h"
#include "find_run.h"
#include "heap/tick.h"
#include "os_fake.h"
#include "space/budget.h"
#include "space/space.h"
#include "unit.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>

enum { LIVE_MOST = 20000, REQUESTS = 80000, LIMIT = 24 << 20 };

static void *live[LIVE_MOST];
static size_t live_count;

static void *take(pool_heap_t *heap, size_t size)
{
  void *block = heap ? pool_heap_alloc(heap, size) : pool_alloc(size);
  must(block || errno == ENOMEM);
  return block;
}

static void give(pool_heap_t *heap, void *block) { heap ? pool_heap_free(heap, block) : pool_free(block); }

static void give_one(pool_heap_t *heap, size_t i)
{
  void *block = live[i];
  live[i] = live[--live_count];
  give(heap, block);
}

static void give_all(pool_heap_t *heap)
{
  while (live_count)
    give_one(heap, live_count - 1);
}

static size_t size_of_roll(uint64_t *dice)
{
  size_t most = one_in(dice, 200) ? 12000000 : one_in(dice, 4) ? 30000 : 2000;
  return 1 + below(dice, most);
}

/* What a refusal remembers is forgotten, and what it keeps is returned: the next one drains, trims and searches everything. */
static void forget(heap_t *heap)
{
  heap_drain(heap, "forget", true);
  refusals_forget();
  FOR_EACH_BIN(bin, heap)
    bin->may_have_unused = true;
  space_of_process.trimmed_at = 0;
  for (space_t *space = heap->space; space; space = space->fallback)
    space->trimmed_at = 0;
}

static void expect_hopeless(pool_heap_t *heap, size_t size)
{
  forget(&default_heap);
  if (heap)
    forget(heap);
  void *block = take(heap, size);
  if (block)
    printf("a request of %zu bytes was refused, and could be served\n", size);
  must(!block);
}

/* A thread that gives blocks back when told to, and sleeps in between with what it has cached. */
static struct idler {
  pthread_t thread;
  sem_t wake, done;
  pool_heap_t *heap;
  size_t count; /* 0: it ends */
} idler;

static void *sleep_and_give(void *unused)
{
  while (!sem_wait(&idler.wake) && idler.count) {
    for (; idler.count && live_count; idler.count--)
      give_one(idler.heap, live_count / 2);
    must(!sem_post(&idler.done));
  }
  return unused;
}

static void idler_begin(void)
{
  must(!sem_init(&idler.wake, 0, 0) && !sem_init(&idler.done, 0, 0));
  must(!pthread_create(&idler.thread, NULL, sleep_and_give, NULL));
}

static void idler_end(void)
{
  idler.count = 0;
  must(!sem_post(&idler.wake) && !pthread_join(idler.thread, NULL));
}

static void give_in_another_thread(pool_heap_t *heap, size_t count)
{
  idler.heap = heap;
  idler.count = count;
  must(!count || (!sem_post(&idler.wake) && !sem_wait(&idler.done)));
}

/* Lives at the limit: what is refused makes room for itself, a block or many at a time, in this thread or in another. */
static size_t live_at_limit(pool_heap_t *heap, uint64_t seed, bool alone)
{
  uint64_t dice = seed;
  size_t refused = 0;
  if (!alone)
    idler_begin();
  for (size_t step = 0; step < REQUESTS; step++) {
    size_t size = size_of_roll(&dice);
    void *block = live_count < LIVE_MOST ? take(heap, size) : NULL;
    if (block) {
      live[live_count++] = block;
      continue;
    }
    if (live_count < LIVE_MOST && ++refused % 8 == 0)
      expect_hopeless(heap, size);
    size_t gives = one_in(&dice, 50) ? live_count - live_count / 50 : 1 + below(&dice, 3);
    if (!alone && one_in(&dice, 20))
      give_in_another_thread(heap, gives);
    else
      for (size_t i = 0; i < gives && live_count; i++)
        give_one(heap, below(&dice, live_count));
    if (one_in(&dice, 1000))
      os_fake.now_ms += below(&dice, 200);
  }
  give_all(heap);
  if (!alone)
    idler_end();
  size_t limit = os_fake.mapped_most;
  os_fake.mapped_most = 0; /* the check needs memory of its own */
  assert_true(check_everything());
  os_fake.mapped_most = limit;
  return refused;
}

static void limit_the_process(void)
{
  os_fake_heal();
  pool_trim(0);
  os_fake.mapped_most = os_fake.mapped_bytes + LIMIT;
}

/* The search: whatever a refusal remembers, it is never the reason for one. */
static void no_request_is_refused_in_vain(void **state)
{
  (void)state;
  limit_the_process();
  for (uint64_t seed = 1; seed <= 4; seed++)
    assert_true(live_at_limit(NULL, seed, seed % 2) > 500);
  os_fake_heal();
}

static void nor_in_a_heap(pool_heap_options_t options)
{
  pool_heap_t *heap = pool_heap_create(&options);
  assert_non_null(heap);
  for (uint64_t seed = 1; seed <= 2; seed++)
    assert_true(live_at_limit(heap, seed, seed % 2) > 500);
  pool_heap_destroy(heap);
}

static void nor_by_a_heap_with_a_budget(void **state)
{
  (void)state;
  os_fake_heal();
  limit_the_process();
  nor_in_a_heap((pool_heap_options_t){0});
  os_fake_heal();
  nor_in_a_heap((pool_heap_options_t){.budget = 12 << 20});
  nor_in_a_heap((pool_heap_options_t){.budget = 4 << 20, .reserve = 2 << 20});
}

static size_t calls_of(os_call_t kind) { return os_fake.count[kind]; }
static size_t calls_that_map(void) { return calls_of(OS_MAP) + calls_of(OS_MAP_AT); }

/* Until a request of that size is refused. */
static void fill_all(pool_heap_t *heap, size_t size)
{
  while (live_count < LIVE_MOST && (live[live_count] = take(heap, size)) != NULL)
    live_count++;
  must(live_count < LIVE_MOST);
}

/* The system is asked once for each request, since it may have memory by now; but nothing is purged or unmapped again, and no
 * bin is drained again. There were 48 calls for each, and then six. */
static void a_refusal_asks_the_system_once(void **state)
{
  (void)state;
  enum { REFUSALS = 100 };
  limit_the_process();
  fill_all(NULL, 8000);
  for (size_t size = 100; size <= 200000; size *= 3) {
    while (take(NULL, size))
      continue; /* leaked on purpose: the test ends the group */
    size_t maps = calls_that_map(), returns = calls_of(OS_PURGE) + calls_of(OS_UNMAP);
    for (size_t i = 0; i < REFUSALS; i++)
      assert_null(take(NULL, size));
    maps = calls_that_map() - maps;
    printf("%zu bytes: %zu calls for %d refusals\n", size, maps, REFUSALS);
    assert_int_equal(maps, REFUSALS);
    assert_int_equal(calls_of(OS_PURGE) + calls_of(OS_UNMAP), returns);
  }
  give_all(NULL);
  os_fake_heal();
}

/* The system's own refusal is remembered for no longer than a request. */
static void memory_that_others_return_is_found(void **state)
{
  (void)state;
  limit_the_process();
  fill_all(NULL, 8000);
  assert_null(take(NULL, 8000));
  os_fake.mapped_most += 1 << 20;
  void *block = take(NULL, 8000);
  assert_non_null(block);
  pool_free(block);
  give_all(NULL);
  os_fake_heal();
}

/* No slab is closed for it: the class alone has a block again. */
static void a_block_that_a_sleeper_has_cached_is_found(void **state)
{
  (void)state;
  os_fake_heal();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20});
  assert_non_null(heap);
  idler_begin();
  fill_all(heap, 1000);
  for (size_t i = 0; i < 10; i++) {
    give_in_another_thread(heap, 1);
    live[live_count] = take(heap, 1000);
    assert_non_null(live[live_count++]);
    assert_null(take(heap, 1000));
  }
  give_all(heap);
  idler_end();
  pool_heap_destroy(heap);
}

/* A refusal flushed all magazines, which the next requests refilled. */
static void a_refusal_keeps_blocks_that_end_no_slab(void **state)
{
  (void)state;
  enum { SIZE = 2000, FREED = 4 };
  limit_the_process();
  fill_all(NULL, SIZE);
  const bin_t *bin = published_bin(&default_heap, size_class_of(SIZE));
  size_t outstanding = bin->outstanding;
  for (size_t i = 1; i <= FREED; i++)
    give_one(NULL, i * live_count / (FREED + 1));
  assert_null(take(NULL, 4 * SIZE));
  assert_int_equal(bin->outstanding, outstanding);
  for (size_t i = 0; i < FREED; i++) {
    live[live_count] = take(NULL, SIZE / 2 + 1);
    assert_non_null(live[live_count++]);
  }
  assert_null(take(NULL, SIZE / 2 + 1));
  give_all(NULL);
  os_fake_heal();
}

static void a_refusal_returns_blocks_that_end_a_slab(void **state)
{
  (void)state;
  enum { SIZE = 2000 };
  limit_the_process();
  fill_all(NULL, SIZE);
  uintptr_t unit = (uintptr_t)live[live_count / 2] >> UNIT_LOG2;
  for (size_t i = live_count; i-- > 0;)
    if ((uintptr_t)live[i] >> UNIT_LOG2 == unit)
      give_one(NULL, i);
  live[live_count] = take(NULL, 60000);
  assert_non_null(live[live_count++]);
  give_all(NULL);
  os_fake_heal();
}

/* The capacity of magazines grows with a class, and the thread does not note that at once. In some rounds the loaded magazine
 * is empty when the memory is full: that one stays, and then has all blocks of a slab. */
static void a_refusal_returns_blocks_of_magazines_that_have_grown(void **state)
{
  enum { SIZE = 1500, BLOCKS = 1000, ROUNDS = 100, OTHER = 7000 }; /* slabs of one unit */
  (void)state;
  for (size_t round = 0; round < ROUNDS; round++) {
    os_fake_heal();
    pool_heap_t *heap = pool_heap_create(NULL);
    assert_non_null(heap);
    limit_the_process();
    while (live_count < BLOCKS + round)
      live[live_count++] = take(heap, SIZE);
    fill_all(heap, OTHER);
    const run_t *slab = space_find(live[BLOCKS / 2]);
    for (size_t i = BLOCKS + round; i-- > 0;)
      if ((uintptr_t)live[i] - (uintptr_t)slab->start < run_bytes(slab))
        give_one(heap, i);
    live[live_count] = take(heap, OTHER);
    assert_non_null(live[live_count++]);
    live_count = 0;
    pool_heap_destroy(heap);
  }
  os_fake_heal();
}

/* The next attempt then searches, instead of draining first. */
static void units_that_come_back_end_a_refusal(void **state)
{
  (void)state;
  enum { UNITS = 32 };
  limit_the_process();
  void *large = take(NULL, 2 << 20);
  fill_all(NULL, 2000);
  assert_null(take(NULL, UNITS * UNIT));
  assert_true(large && space_is_refused(&space_of_process, UNITS));
  pool_free(large);
  assert_false(space_is_refused(&space_of_process, UNITS));
  live[live_count] = take(NULL, UNITS * UNIT);
  assert_non_null(live[live_count++]);
  give_all(NULL);
  os_fake_heal();
}

/* A larger block serves it each time. Each took three calls. */
static void a_request_that_borrows_seldom_asks(void **state)
{
  (void)state;
  enum { REQUESTS_SERVED = 100, CALLS_MOST = 10 };
  limit_the_process();
  fill_all(NULL, 8000);
  while (take(NULL, 4100)) {} /* leaked on purpose */
  give_one(NULL, 0);
  size_t maps = calls_that_map();
  for (size_t i = 0; i < REQUESTS_SERVED; i++) {
    void *block = take(NULL, 4100);
    assert_non_null(block);
    pool_free(block);
  }
  maps = calls_that_map() - maps;
  printf("%zu calls for %d requests\n", maps, REQUESTS_SERVED);
  assert_in_range(maps, 0, CALLS_MOST);
  give_all(NULL);
  os_fake_heal();
}

/* Its region is not refused because of what is remembered. */
static void a_heap_finds_memory_that_others_return(void **state)
{
  (void)state;
  limit_the_process();
  fill_all(NULL, 8000);
  assert_null(take(NULL, 8000));
  os_fake.mapped_most += 4 << 20;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 2 << 20});
  assert_non_null(heap);
  pool_heap_destroy(heap);
  give_all(NULL);
  os_fake_heal();
}

/* Neither a growth in place nor one that has no room for a copy. The highest block has nothing behind it. */
static void a_block_that_grows_finds_memory_that_others_return(void **state)
{
  enum { BLOCK = 60000, GROWTHS = 4 };
  (void)state;
  limit_the_process();
  fill_all(NULL, BLOCK);
  size_t highest = 0;
  for (size_t i = 1; i < live_count; i++)
    highest = live[i] > live[highest] ? i : highest;
  for (size_t i = 1; i <= GROWTHS; i++) {
    size_t size = BLOCK + i * UNIT;
    assert_null(take(NULL, BLOCK));
    assert_false(pool_resize_in_place(live[highest], size));
    os_fake.mapped_most += UNIT;
    if (i % 2)
      assert_true(pool_resize_in_place(live[highest], size));
    else
      assert_ptr_equal(pool_realloc(live[highest], size), live[highest]);
  }
  give_all(NULL);
  os_fake_heal();
}

/* The growth in place is refused first, and more than a run elsewhere needs to map: one page of a hole behind free units. */
static void a_block_whose_growth_is_refused_moves(void **state)
{
  enum { PAGE_UNITS = 32, FEWEST = 4 };
  (void)state;
  limit_the_process();
  size_t before = 0, at = 0;
  for (size_t units = 2 * PAGE_UNITS; before < FEWEST; units += FEWEST + 1) {
    at = live_count++;
    live[at] = take(NULL, units * UNIT);
    assert_non_null(live[at]);
    before = -((uintptr_t)live[at] >> UNIT_LOG2) % PAGE_UNITS;
  }
  char *hole = live[at];
  fill_all(NULL, UNIT);
  give_one(NULL, at);
  pool_trim(0);
  os_fake.mapped_most = os_fake.mapped_bytes;
  size_t highest = 0, size = (before + PAGE_UNITS) * UNIT;
  for (size_t i = 1; i < live_count; i++)
    highest = live[i] > live[highest] ? i : highest;
  assert_null(pool_realloc(live[highest], size));
  os_fake.mapped_most += (PAGE_UNITS + 1) * UNIT;
  void *moved = pool_realloc(live[highest], size);
  assert_ptr_equal(moved, hole);
  live[highest] = moved;
  give_all(NULL);
  os_fake_heal();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_request_is_refused_in_vain),
    cmocka_unit_test(nor_by_a_heap_with_a_budget),
    cmocka_unit_test(a_block_that_a_sleeper_has_cached_is_found),
    cmocka_unit_test(memory_that_others_return_is_found),
    cmocka_unit_test(a_refusal_asks_the_system_once),
    cmocka_unit_test(a_refusal_keeps_blocks_that_end_no_slab),
    cmocka_unit_test(a_refusal_returns_blocks_that_end_a_slab),
    cmocka_unit_test(a_refusal_returns_blocks_of_magazines_that_have_grown),
    cmocka_unit_test(units_that_come_back_end_a_refusal),
    cmocka_unit_test(a_request_that_borrows_seldom_asks),
    cmocka_unit_test(a_heap_finds_memory_that_others_return),
    cmocka_unit_test(a_block_that_grows_finds_memory_that_others_return),
    cmocka_unit_test(a_block_whose_growth_is_refused_moves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
