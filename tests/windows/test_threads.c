/* SPDX-License-Identifier: MIT
 * Threads of Windows itself: what an ended one had cached comes back, several use one budget, and the figures are exact. */
#include "heap/heap.h"
#include "unit.h"
#include <errno.h>
#include <tidepool.h>
#include <windows.h>

enum { THREADS = 8, BLOCKS = 500, ROUNDS = 40 };

typedef DWORD WINAPI body_fn(void *argument);

static void run_threads(body_fn *body, void *argument)
{
  HANDLE threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    must((threads[i] = CreateThread(NULL, 0, body, argument, 0, NULL)) != NULL);
  must(WaitForMultipleObjects(THREADS, threads, TRUE, 600000) == WAIT_OBJECT_0);
  for (size_t i = 0; i < THREADS; i++)
    must(CloseHandle(threads[i]));
}

static pool_stats_t stats_of(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  return stats;
}

static size_t size_at(size_t i) { return 16 + i * 37 % 3000; }

static DWORD WINAPI use_default(void *unused)
{
  void *blocks[BLOCKS];
  (void)unused;
  for (size_t i = 0; i < BLOCKS; i++) {
    must((blocks[i] = pool_alloc(size_at(i))) != NULL);
    memset(blocks[i], (int)i, size_at(i));
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    must(*(unsigned char *)blocks[i] == (unsigned char)i);
    pool_free(blocks[i]);
  }
  return 0;
}

/* Each thread has cached blocks when it ends. The threads of all rounds together hold no more than those of the first. */
static void caches_come_back(void **state)
{
  (void)state;
  run_threads(use_default, NULL);
  pool_stats_t first = stats_of(pool_heap_default());
  assert_true(first.cached_bytes > 0); /* in depots */
  for (size_t round = 0; round < ROUNDS; round++)
    run_threads(use_default, NULL);
  pool_stats_t last = stats_of(pool_heap_default());
  assert_int_equal(last.live_blocks, first.live_blocks);
  assert_int_equal(last.live_bytes, first.live_bytes);
  assert_true(last.cached_bytes <= first.cached_bytes + first.idle_bytes && last.mapped_bytes <= first.mapped_bytes + 8 * MIB);
  assert_true(check_everything());
}

static DWORD WINAPI free_array(void *argument)
{
  void **blocks = argument;
  for (size_t i = 0; i < BLOCKS; i++)
    if (blocks[i])
      pool_free(InterlockedExchangePointer(&blocks[i], NULL));
  return 0;
}

/* Blocks of one thread that others free, which allocate nothing. */
static void freed_by_others(void **state)
{
  void *blocks[BLOCKS];
  (void)state;
  size_t before = stats_of(pool_heap_default()).live_blocks;
  for (size_t round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < BLOCKS; i++)
      assert_non_null(blocks[i] = pool_alloc(size_at(i)));
    assert_int_equal(stats_of(pool_heap_default()).live_blocks, before + BLOCKS);
    run_threads(free_array, blocks);
    assert_int_equal(stats_of(pool_heap_default()).live_blocks, before);
  }
}

typedef struct shared {
  pool_heap_t *heap;
  volatile LONG64 taken, refused;
} shared_t;

/* Threads exhaust a budget together, and free all that they have. */
static DWORD WINAPI exhaust(void *argument)
{
  shared_t *shared = argument;
  for (size_t round = 0; round < ROUNDS; round++) {
    void *first = NULL;
    for (void **block; (block = pool_heap_alloc(shared->heap, 200)) != NULL; first = block) {
      *block = first;
      InterlockedIncrement64(&shared->taken);
    }
    must(errno == ENOMEM);
    InterlockedIncrement64(&shared->refused);
    while (first) {
      void **block = first;
      first = *block;
      pool_heap_free(shared->heap, block);
    }
  }
  return 0;
}

static size_t blocks_of(pool_heap_t *heap)
{
  size_t count = 0;
  while (pool_heap_alloc(heap, 200))
    count++;
  return count;
}

static void one_budget(void **state)
{
  static const size_t budgets[] = {MIB, 20 * MIB}; /* of granules, and of slabs */
  (void)state;
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
    shared_t shared = {.heap = pool_heap_create(&(pool_heap_options_t){.budget = budgets[i]})};
    assert_non_null(shared.heap);
    size_t all = blocks_of(shared.heap);
    assert_true(all * 200 > budgets[i] / 2);
    pool_heap_reset(shared.heap);
    run_threads(exhaust, &shared);
    pool_stats_t stats = stats_of(shared.heap);
    assert_true(shared.taken >= (LONG64)all && stats.exhausted_count == (uint64_t)shared.refused + 1);
    assert_true(stats.live_blocks == 0 && stats.live_bytes == 0 && stats.peak_held_bytes <= budgets[i]);
    assert_true(stats.held_bytes == stats.cached_bytes + stats.idle_bytes + stats.metadata_bytes);
    pool_heap_reset(shared.heap);
    assert_int_equal(blocks_of(shared.heap), all);
    assert_true(check_heap(shared.heap));
    pool_heap_destroy(shared.heap);
  }
}

/* A second life of a heap has the figures of the first, and trimming leaves nothing to return. */
static void exact_figures(void **state)
{
  void *blocks[BLOCKS];
  pool_stats_t of[3];
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 64 * MIB});
  for (size_t life = 0; life < 3; life++) {
    size_t bytes = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t size = i % 50 ? size_at(i) : 100000;
      assert_non_null(blocks[i] = pool_heap_alloc(heap, size));
      memset(blocks[i], 7, size);
      bytes += pool_usable_size(blocks[i]);
    }
    of[life] = stats_of(heap);
    assert_int_equal(of[life].live_bytes, bytes);
    assert_int_equal(of[life].live_blocks, BLOCKS);
    assert_int_equal(of[life].held_bytes,
                     of[life].live_bytes + of[life].cached_bytes + of[life].idle_bytes + of[life].metadata_bytes);
    pool_heap_reset(heap);
    pool_heap_trim(heap, 0);
    pool_stats_t empty = stats_of(heap);
    assert_true(empty.live_blocks == 0 && empty.cached_bytes == 0 && empty.free_bytes == 0 && empty.live_bytes == 0);
    assert_int_equal(empty.held_bytes, empty.idle_bytes + empty.metadata_bytes);
    assert_int_equal(pool_heap_trim(heap, 0), 0);
  }
  assert_int_equal(of[1].held_bytes, of[2].held_bytes);
  assert_int_equal(of[1].live_bytes, of[0].live_bytes);
  assert_int_equal(of[1].mapped_bytes, of[2].mapped_bytes);
  pool_heap_destroy(heap);
}

/* Whether Windows has memory for all of these pages, or for none. */
static bool all_are(const char *at, size_t size, bool committed)
{
  MEMORY_BASIC_INFORMATION pages;
  for (const char *end = at + size; at < end; at = (const char *)pages.BaseAddress + pages.RegionSize)
    if (!VirtualQuery(at, &pages, sizeof pages) || (pages.State == MEM_COMMIT) != committed)
      return false;
  return true;
}

/* Trimming returns the memory of the end of a block that has shrunk, and of one that is free. */
static void memory_is_returned(void **state)
{
  enum { BYTES = 200 << 20 };
  (void)state;
  char *block = pool_alloc(BYTES), *shorter;
  assert_true(block && all_are(block, BYTES, true));
  block[0] = block[BYTES - 1] = 7;
  assert_non_null(shorter = pool_realloc(block, BYTES / 2));
  assert_ptr_equal(shorter, block);
  pool_trim(0);
  assert_true(all_are(block, BYTES / 2, true) && all_are(block + BYTES / 2 + 2 * MIB, BYTES / 2 - 2 * MIB, false) &&
              block[0] == 7);
  uintptr_t start = (uintptr_t)block;
  pool_free(shorter);
  pool_trim(0);
  assert_true(all_are((const char *)start, BYTES, false));
}

/* The background thread starts, returns memory, and ends. */
static void background(void **state)
{
  (void)state;
  assert_true(pool_background_start() && pool_background_start());
  use_default(NULL);
  run_threads(use_default, NULL);
  pool_background_stop();
  assert_true(pool_background_start());
  pool_background_stop();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(caches_come_back), cmocka_unit_test(freed_by_others),    cmocka_unit_test(one_budget),
    cmocka_unit_test(exact_figures),    cmocka_unit_test(memory_is_returned), cmocka_unit_test(background),
  };
  return cmocka_run_group_tests_name("Windows threads", tests, NULL, NULL);
}
