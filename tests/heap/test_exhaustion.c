/* SPDX-License-Identifier: MIT
 * What happens when a heap is exhausted, in this order: its own cached and idle memory, on_exhausted, the overflow heap, NULL.
 * These tests are about the first and the last. */
#include "helpers.h"
#include "option.h"

/* ---- without help ---- */

static void nothing_left(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(SMALL);
  list_t list = {0};
  list_exhaust(&list, heap, 100);
  for (unsigned i = 1; i <= 3; i++) {
    errno = UNTOUCHED;
    assert_null(pool_heap_alloc(heap, 100));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(stats_of(heap).exhausted_count, i + 1);
  }
  assert_null(pool_heap_zalloc(heap, 100000));
  assert_null(pool_heap_calloc(heap, 10, 10000));
  assert_null(pool_heap_aligned_alloc(heap, 4096, 100000));
  assert_null(pool_heap_realloc(heap, NULL, 100000));
  void *block = list.first;
  assert_null(pool_heap_realloc(heap, block, 100000));
  pool_stats_t s = stats_of(heap);
  assert_int_equal(s.exhausted_count, 9);
  assert_int_equal(s.retried_count, 0);
  assert_int_equal(s.overflowed_count, 0);
  assert_int_equal(s.live_blocks, list.count);
  list_free(&list, heap);
  assert_non_null(pool_heap_alloc(heap, 100));
  pool_heap_destroy(heap);
}

/* ---- the end of a program that asked for it ---- */

static pool_heap_t *requests;
static void *volatile got; /* or a compiler leaves out a call whose block nobody uses */

static void alloc(void) { got = pool_heap_alloc(requests, 1000000000); }
static void zalloc(void) { got = pool_heap_zalloc(requests, 1000000000); }
static void calloc_more_than_there_is(void) { got = pool_heap_calloc(requests, opaque(SIZE_MAX / 2), 3); }
static void aligned_alloc_(void) { got = pool_heap_aligned_alloc(requests, 64, 1000000000); }
static void realloc_(void) { got = pool_heap_realloc(requests, pool_heap_alloc(requests, 100), 1000000000); }
static void make_objects(void)
{
  object_pool_create(&(object_pool_options_t){.object_size = 1000, .capacity = 1000000, .heap = requests});
}
static void default_alloc(void) { got = pool_alloc(opaque(PTRDIFF_MAX)); } /* half of it may be there on a machine of 32 bits */
static void default_calloc(void) { got = pool_calloc(opaque(SIZE_MAX / 2), 3); }

/* The line has the call, the heap and what was asked for. */
static const struct last_request {
  void (*make)(void);
  const char *words;
} last_requests[] = {
  {alloc, "tidepool: pool_heap_alloc(heap \"requests\", 1000000000): memory exhausted\n"},
  {zalloc, "tidepool: pool_heap_zalloc(heap \"requests\", 1000000000): memory exhausted\n"},
  {calloc_more_than_there_is, "tidepool: pool_heap_calloc(heap \"requests\", "},
  {aligned_alloc_, "tidepool: pool_heap_aligned_alloc(heap \"requests\", 1000000000): memory exhausted\n"},
  {realloc_, "tidepool: pool_heap_realloc(heap \"requests\", 1000000000): memory exhausted\n"},
  {make_objects, "tidepool: object_pool_create(heap \"requests\", "},
  {default_alloc, "tidepool: pool_alloc("},
  {default_calloc, "tidepool: pool_calloc("},
};

static void request(void *argument)
{
  const struct last_request *last = argument;
  settings.abort_on_exhausted = true;
  last->make();
}

static void the_last_request_is_said(void **state)
{
  (void)state;
  requests = heap_with((pool_heap_options_t){.name = "requests", .budget = SMALL});
  for (size_t i = 0; i < COUNT_OF(last_requests); i++)
    aborts_with(request, (void *)(uintptr_t)&last_requests[i], last_requests[i].words);
  pool_heap_destroy(requests);
}

/* Blocks of one class are freed; another class gets their memory without anybody being asked. */
static void own_memory_first(void **state)
{
  (void)state;
  static const size_t budgets[] = {SMALL, 4 << 20, LARGE};
  for (size_t i = 0; i < COUNT_OF(budgets); i++) {
    helper_t helper = helper_that(NULL, ~0u);
    pool_heap_t *heap = heap_helped_by(&helper, budgets[i]);
    fill(heap, &helper, 64);
    list_free(&helper.list, heap);
    errno = UNTOUCHED;
    size_t wanted = budgets[i] / 2 / 1000;
    list_take_many(&helper.list, heap, 1000, wanted);
    assert_int_equal(errno, UNTOUCHED);
    list_free(&helper.list, heap);
    void *block = pool_heap_alloc(heap, budgets[i] / 2);
    assert_non_null(block);
    pool_heap_free(heap, block);
    list_take_many(&helper.list, heap, 24, budgets[i] / 2 / 32);
    assert_int_equal(helper.calls, 0);
    finish(heap, &helper);
  }
}

/* What other threads hold back ends with them at the latest. */
static void fill_and_free(size_t index, void *heap)
{
  (void)index;
  list_t list = {0};
  list_exhaust(&list, heap, 200);
  list_free(&list, heap);
}

static void memory_of_threads_that_ended(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(4 << 20);
  run_threads(4, fill_and_free, heap);
  void *block = pool_heap_alloc(heap, 3 << 20);
  assert_non_null(block);
  pool_heap_destroy(heap);
}

/* ---- many threads at the limit ---- */

typedef struct shared {
  pool_heap_t *heap;
} shared_t;

static bool yield_and_retry(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  (void)heap, (void)bytes_needed, (void)context;
  return attempt < 3;
}

static void at_the_limit(size_t index, void *context)
{
  const shared_t *shared = context;
  dice_t dice = {index};
  for (unsigned round = 0; round < 20; round++) {
    list_t list = {0};
    size_t size = 16 + dice_below(&dice, 3000);
    while (list.count < 100000 && list_take(&list, shared->heap, size))
      memset((char *)list.first + sizeof(void *), (int)index, size - sizeof(void *));
    list_free(&list, shared->heap);
  }
}

static void many_threads_at_the_limit(void **state)
{
  (void)state;
  pool_heap_t *other = heap_with_budget(1 << 20);
  shared_t shared = {heap_with((pool_heap_options_t){.budget = 2 << 20, .overflow = other, .on_exhausted = yield_and_retry})};
  run_threads(4, at_the_limit, &shared);
  pool_stats_t s = stats_of(shared.heap), o = stats_of(other);
  assert_int_equal(s.live_blocks + o.live_blocks, 0);
  assert_true(s.peak_held_bytes <= s.budget && o.peak_held_bytes <= o.budget);
  assert_true(s.exhausted_count > 0 && s.retried_count > 0 && s.overflowed_count > 0);
  assert_true(check_everything());
  pool_heap_destroy(shared.heap);
  pool_heap_destroy(other);
}

/* ---- a block can always become smaller ---- */

static void smaller_when_nothing_is_left(void **state)
{
  (void)state;
  static const size_t block_sizes[] = {100, 3000, 30000, 100000, 500000};
  static const unsigned flags[] = {0, POOL_HEAP_ZERO_ON_FREE, POOL_HEAP_CHECKED};
  for (size_t f = 0; f < COUNT_OF(flags); f++)
    for (size_t i = 0; i < COUNT_OF(block_sizes); i++) {
      pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 2 << 20, .flags = flags[f]});
      size_t size = block_sizes[i];
      char *block = pool_heap_alloc(heap, size);
      assert_non_null(block);
      list_t list = {0};
      list_exhaust(&list, heap, size);
      list_exhaust(&list, heap, 16);
      size_t exhausted = stats_of(heap).exhausted_count;
      pattern_write(block, size, i);
      for (size_t less = size; less >= 16; less /= 3) {
        block = pool_heap_realloc(heap, block, less);
        assert_non_null(block);
        assert_true(pattern_kept(block, less, size, i));
      }
      assert_int_equal(stats_of(heap).exhausted_count, exhausted); /* and nobody was asked for anything */
      list_free(&list, heap);
      pool_heap_free(heap, block);
      pool_heap_destroy(heap);
    }
}

/* ---- a block that grows: what lets it is as good as what makes room for another ---- */

static void *in_the_way;

static bool free_what_is_in_the_way(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  size_t *calls = context;
  (void)bytes_needed;
  (void)attempt;
  ++*calls;
  bool any = in_the_way != NULL;
  pool_heap_free(heap, in_the_way);
  in_the_way = NULL;
  return any;
}

static void grows_when_the_callback_has_helped(void **state)
{
  (void)state;
  size_t calls = 0;
  pool_heap_t *heap =
    heap_with((pool_heap_options_t){.budget = 64 << 20, .on_exhausted = free_what_is_in_the_way, .context = &calls});
  char *block = pool_heap_alloc(heap, 40 << 20);
  in_the_way = pool_heap_alloc(heap, 10 << 20);
  assert_true(block && in_the_way);
  pattern_write(block, 40 << 20, 3);
  block = pool_heap_realloc(heap, block, 60 << 20);
  assert_non_null(block);
  assert_true(pattern_kept(block, 40 << 20, 40 << 20, 3));
  assert_int_equal(calls, 1);
  assert_int_equal(stats_of(heap).exhausted_count, 0);
  pool_heap_destroy(heap);
}

static void grows_into_what_is_cached(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(16 << 20);
  char *block = pool_heap_alloc(heap, 12 << 20);
  assert_non_null(block);
  list_t list = {0};
  list_exhaust(&list, heap, 1000);
  list_free(&list, heap); /* into magazines and depots, as far as they go */
  size_t room = (16 << 20) - stats_of(heap).held_bytes, had = (12 << 20) + room;
  block = pool_heap_realloc(heap, block, had + (200 << 10));
  assert_non_null(block);
  assert_int_equal(stats_of(heap).exhausted_count, 1); /* by the list */
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_left),
    cmocka_unit_test(the_last_request_is_said),
    cmocka_unit_test(own_memory_first),
    cmocka_unit_test(memory_of_threads_that_ended),
    cmocka_unit_test(many_threads_at_the_limit),
    cmocka_unit_test(smaller_when_nothing_is_left),
    cmocka_unit_test(grows_when_the_callback_has_helped),
    cmocka_unit_test(grows_into_what_is_cached),
  };
  return cmocka_run_group_tests_name("exhaustion", tests, NULL, NULL);
}
