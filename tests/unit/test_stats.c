/* SPDX-License-Identifier: MIT
 * The figures: of a known set of live blocks they are exact, and the JSON says the same. */
#include "heap/heap.h"
#include "json.h"
#include "unit.h"
#include <pthread.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>

/* The bins and the large blocks of the JSON add up to the heap's figures. */
static void json_adds_up(pool_heap_t *heap)
{
  pool_stats_t s;
  uint64_t blocks = 0, bytes = 0, cached = 0, last = 0;
  pool_heap_stats(heap, &s);
  json_read_heap(heap);
  for (size_t i = 0; i < json_length("pools"); i++) {
    uint64_t size = json_number("pools[%zu].block_size", i), live = json_number("pools[%zu].live_blocks", i);
    uint64_t held = json_number("pools[%zu].held_bytes", i), slabs = json_number("pools[%zu].slabs", i);
    assert_true(size > last);
    assert_true(slabs > 0 && held >= live * size && held % slabs == 0);
    last = size;
    blocks += live;
    bytes += live * size;
    cached += json_number("pools[%zu].cached_blocks", i) * size;
  }
  blocks += json_number("large.live_blocks");
  bytes += json_number("large.live_bytes");
  assert_true(json_number("large.held_bytes") >= json_number("large.live_bytes"));
  assert_int_equal(blocks, s.live_blocks);
  assert_int_equal(bytes, s.live_bytes);
  assert_int_equal(cached, s.cached_bytes);
}

enum { BLOCKS = 600 };

static size_t allocate_all(void **blocks, size_t *usable)
{
  static const size_t sizes[] = {1, 16, 100, 512, 513, 3000, 32 << 10, 40000, 256 << 10, 300000, 5 << 20};
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t size = sizes[i % (sizeof sizes / sizeof *sizes)];
    blocks[i] = pool_alloc(size);
    assert_non_null(blocks[i]);
    *usable += pool_usable_size(blocks[i]);
  }
  return BLOCKS;
}

static void *free_one(void *block)
{
  pool_free(block);
  return NULL;
}

/* Some of them in another thread. */
static void free_block(void **blocks, size_t i)
{
  pthread_t thread;
  if (i % 100 == 50 && pthread_create(&thread, NULL, free_one, blocks[i]) == 0)
    pthread_join(thread, NULL);
  else
    pool_free(blocks[i]);
}

static void figures_are_exact(void **state)
{
  (void)state;
  void *blocks[BLOCKS];
  pool_heap_t *heap = pool_heap_default();
  pool_stats_t before, s;
  size_t usable = 0;
  assert_true(pool_heap_stats(heap, &before));
  allocate_all(blocks, &usable);
  assert_true(pool_heap_stats(heap, &s));
  assert_int_equal(s.live_blocks - before.live_blocks, BLOCKS);
  assert_int_equal(s.live_bytes - before.live_bytes, usable);
  assert_true(s.held_bytes >= s.live_bytes + s.cached_bytes + s.idle_bytes);
  assert_true(s.peak_held_bytes >= s.held_bytes);
  for (size_t i = 0; i < BLOCKS; i++) {
    usable -= pool_usable_size(blocks[i]);
    free_block(blocks, i);
    assert_true(pool_heap_stats(heap, &s));
    assert_int_equal(s.live_blocks - before.live_blocks, BLOCKS - 1 - i);
    assert_int_equal(s.live_bytes - before.live_bytes, usable);
  }
  pool_trim(0);
  assert_true(pool_heap_stats(heap, &s));
  assert_int_equal(s.live_blocks, before.live_blocks);
  assert_true(s.purged_bytes > before.purged_bytes);
  assert_int_equal(s.cached_bytes, 0);
  assert_true(check_everything());
}

static void json_says_the_same(void **state)
{
  (void)state;
  void *blocks[BLOCKS];
  pool_heap_t *heap = pool_heap_default();
  size_t usable = 0;
  json_needed();
  allocate_all(blocks, &usable);
  json_agrees(heap);
  json_adds_up(heap);
  for (size_t i = 0; i < BLOCKS; i++)
    free_block(blocks, i);
  json_agrees(heap);
  json_adds_up(heap);
}

/* Of every size: what trims say has gone, and what went without one. */
static void what_went_back_is_counted(void **state)
{
  enum { BYTES = 48 << 20, LEAST = 1000, MOST = 24 << 20 };
  static void *row[BYTES / LEAST];
  pool_stats_t before, trimmed, after;
  (void)state;
  for (size_t size = LEAST; size <= MOST; size *= 3) {
    pool_trim(0);
    assert_true(pool_heap_stats(pool_heap_default(), &before));
    size_t count = BYTES / size;
    for (size_t i = 0; i < count; i++) {
      row[i] = pool_alloc(size);
      assert_non_null(row[i]);
      memset(row[i], 1, size);
    }
    for (size_t i = 0; i < count; i++)
      pool_free(row[i]);
    assert_true(pool_heap_stats(pool_heap_default(), &trimmed));
    size_t given = pool_trim(0);
    assert_true(pool_heap_stats(pool_heap_default(), &after));
    assert_int_equal(after.purged_bytes - trimmed.purged_bytes, given);
    assert_true(after.purged_bytes - before.purged_bytes >= count * size - count * size / 16);
  }
}

static void regions_count_when_they_go(void **state)
{
  pool_stats_t before, after;
  (void)state;
  for (size_t reserve = 1 << 20; reserve <= 64 << 20; reserve *= 8) {
    assert_true(pool_heap_stats(pool_heap_default(), &before));
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = reserve});
    assert_non_null(heap);
    pool_heap_destroy(heap);
    pool_trim(0);
    assert_true(pool_heap_stats(pool_heap_default(), &after));
    assert_true(after.purged_bytes - before.purged_bytes >= reserve);
  }
}

static void exhaustion_is_counted(void **state)
{
  (void)state;
  pool_stats_t before, after;
  pool_heap_stats(pool_heap_default(), &before);
  assert_null(pool_alloc(opaque((size_t)1 << (ADDRESS_BITS - 1))));
  assert_null(pool_calloc(opaque((size_t)1 << (ADDRESS_BITS - 8)), (size_t)1 << 7));
  assert_null(pool_aligned_alloc(16, opaque((size_t)3 << (ADDRESS_BITS - 2))));
  pool_heap_stats(pool_heap_default(), &after);
  assert_int_equal(after.exhausted_count - before.exhausted_count, 3);
}

/* As snprintf. */
static void json_into_any_buffer(void **state)
{
  (void)state;
  static char text[64 << 10];
  char part[200];
  size_t length = pool_heap_stats_json(pool_heap_default(), text, sizeof text);
  assert_int_equal(pool_heap_stats_json(pool_heap_default(), NULL, 0), length);
  for (size_t size = 0; size < sizeof part; size++) {
    memset(part, '#', sizeof part);
    assert_int_equal(pool_heap_stats_json(pool_heap_default(), part, size), length);
    assert_int_equal(part[size], '#');
    assert_memory_equal(part, text, size ? min_size(size - 1, length) : 0);
    assert_true(!size || part[min_size(size - 1, length)] == 0);
  }
}

static void the_whole_process(void **state)
{
  (void)state;
  pool_stats_t s;
  json_read_process();
  pool_heap_stats(pool_heap_default(), &s);
  assert_int_equal(json_number("heaps[0].live_blocks"), s.live_blocks);
  assert_int_equal(json_number("heaps[0].held_bytes"), s.held_bytes);
}

static void nothing_to_tell(void **state)
{
  (void)state;
  pool_stats_t s;
  assert_false(pool_heap_stats(NULL, &s));
  assert_false(pool_heap_stats(pool_heap_default(), NULL));
}

/* What is free is held, too, and a peak never falls. */
static void peaks_never_fall(void **state)
{
  (void)state;
  static void *blocks[100];
  pool_stats_t s;
  for (size_t i = 0; i < 100; i++)
    assert_non_null(blocks[i] = pool_alloc(300000));
  for (size_t i = 0; i < 100; i++)
    pool_free(blocks[i]);
  pool_heap_stats(pool_heap_default(), &s);
  size_t held = s.held_bytes;
  pool_trim(0);
  pool_heap_stats(pool_heap_default(), &s);
  assert_true(s.peak_held_bytes >= held && s.held_bytes < held);
}

/* Figures are read one after the other while threads change them: each pair here is seen with one of the two noted and the
 * other not yet. None falls below nothing for that, and the peak is never below what is held. */
static void sane_figures(pool_heap_t *heap)
{
  pool_stats_t s;
  const size_t much = SIZE_MAX / 2;
  assert_true(pool_heap_stats(heap, &s));
  assert_true(s.held_bytes < much && s.live_bytes < much && s.live_blocks < much && s.cached_bytes < much &&
              s.idle_bytes < much);
  assert_true(s.metadata_bytes < much && s.children_bytes < much && s.peak_held_bytes >= s.held_bytes);
}

static void sane_with(pool_heap_t *heap, size_t *figure, size_t value)
{
  size_t noted = *figure;
  *figure = value;
  sane_figures(heap);
  sane_figures(pool_heap_default());
  *figure = noted;
}

static void half_noted_figures(void **state)
{
  (void)state;
  enum { SOME = 3000 };
  static void *blocks[SOME];
  pool_heap_t *heap = pool_heap_create(NULL);
  void *large = pool_heap_alloc(heap, 1 << 20);
  assert_non_null(large);
  for (int i = 0; i < SOME; i++)
    assert_non_null(blocks[i] = pool_heap_alloc(heap, 100));
  for (int i = 0; i < SOME; i += 2)
    pool_free(blocks[i]);
  FOR_EACH_BIN(bin, heap) {
    sane_with(heap, &bin->outstanding, 0); /* what is cached, but not what came out of slabs */
    sane_with(heap, &bin->held_bytes, 0);  /* blocks of a slab that has gone */
  }
  sane_with(heap, &heap->large_bytes, heap->large_held + ((size_t)1 << 30));
  sane_with(heap, &heap->budget.held, heap->budget.peak + 1);
  sane_with(heap, &heap->record_bytes, (size_t)1 << 30); /* charged, but not touched */
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(figures_are_exact),         cmocka_unit_test(json_says_the_same),
    cmocka_unit_test(what_went_back_is_counted), cmocka_unit_test(regions_count_when_they_go),
    cmocka_unit_test(exhaustion_is_counted),     cmocka_unit_test(json_into_any_buffer),
    cmocka_unit_test(the_whole_process),         cmocka_unit_test(nothing_to_tell),
    cmocka_unit_test(peaks_never_fall),          cmocka_unit_test(half_noted_figures),
  };
  return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
