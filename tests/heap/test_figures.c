/* SPDX-License-Identifier: MIT
 * The figures of a heap: exact when it is quiet, adding up to what is held, and the same as JSON. */
#include "../unit/json.h"
#include "heaps.h"

/* held is what the kinds of memory add up to, to the byte. Records are few; a region pays for all of its own at once. */
static void adds_up(pool_heap_t *heap, size_t region)
{
  pool_stats_t s = stats_of(heap), all = stats_of(pool_heap_default());
  assert_int_equal(s.held_bytes, s.live_bytes + s.cached_bytes + s.idle_bytes + s.metadata_bytes + s.children_bytes);
  assert_int_equal(all.held_bytes,
                   all.live_bytes + all.cached_bytes + all.idle_bytes + all.metadata_bytes + all.children_bytes);
  assert_int_equal(s.mapped_bytes, s.held_bytes);
  assert_int_equal(s.idle_bytes, s.free_bytes + s.returned_bytes);
  assert_int_equal(all.mapped_bytes, all.live_bytes + all.cached_bytes + all.free_bytes + all.returned_bytes +
                                       all.metadata_bytes + all.children_bytes);
  assert_true(s.metadata_bytes <= 8192 + s.held_bytes / 8 + region / 16);
  assert_true(all.metadata_bytes < 64 << 20); /* it is the rest of a difference */
  assert_true(s.peak_held_bytes >= s.held_bytes);
  assert_true(!s.budget || s.peak_held_bytes <= s.budget);
}

enum { BLOCKS = 700 };

static void try_figures(pool_heap_t *heap, size_t region)
{
  static const size_t sizes[] = {1, 16, 100, 512, 3000, 40000};
  void *blocks[BLOCKS];
  size_t usable = 0;
  adds_up(heap, region);
  for (size_t i = 0; i < BLOCKS; i++) {
    assert_non_null(blocks[i] = pool_heap_alloc(heap, sizes[i % COUNT_OF(sizes)]));
    usable += pool_usable_size(blocks[i]);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    pool_stats_t s = stats_of(heap);
    assert_int_equal(s.live_blocks, BLOCKS - i);
    assert_int_equal(s.live_bytes, usable);
    if (i % 100 == 0)
      adds_up(heap, region);
    usable -= pool_usable_size(blocks[i]);
    pool_heap_free(heap, blocks[i]);
  }
  adds_up(heap, region);
  pool_heap_trim(heap, 0);
  adds_up(heap, region);
  pool_heap_destroy(heap);
}

static void exact(void **state)
{
  (void)state;
  try_figures(heap_with((pool_heap_options_t){0}), 0);
  try_figures(heap_with((pool_heap_options_t){.budget = 8 << 20}), 8 << 20);
  try_figures(heap_with((pool_heap_options_t){.budget = 64 << 20}), 0);
  try_figures(heap_with((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD}), 0);
  try_figures(heap_with((pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE}), 0);
}

static void exact_in_a_buffer(void **state)
{
  (void)state;
  static char buffer[8 << 20];
  try_figures(heap_with((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer}), sizeof buffer);
}

static void exact_with_a_reserve(void **state)
{
  (void)state;
  try_figures(heap_with((pool_heap_options_t){.reserve = 16 << 20}), 0);
  try_figures(heap_with((pool_heap_options_t){.reserve = 1 << 20}), 0);
}

/* Blocks of no class, whose units end beyond them; a family; object pools, whose records are on the heap's account; and what
 * comes and goes leaves the process's figure as it was. */
static void exact_for_all_that_is_held(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {{0},
                                              {.budget = 4 << 20},
                                              {.budget = 256 << 20},
                                              {.reserve = 3 << 20},
                                              {.reserve = 12 << 20},
                                              {.flags = POOL_HEAP_CHECKED},
                                              {.flags = POOL_HEAP_SINGLE_THREAD, .budget = 1 << 20}};
  for (size_t round = 0; round < 2; round++)
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
      pool_heap_options_t options = kinds[i];
      pool_heap_t *top = heap_with((pool_heap_options_t){0}), *heap;
      options.parent = top;
      heap = heap_with(options);
      list_t list = {0};
      for (size_t n = 0; n < 100 && list_take(&list, heap, 266241); n++) {}
      adds_up(heap, options.budget + options.reserve);
      object_pool_t *pool = object_pool_create(
        &(object_pool_options_t){.object_size = 100, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = heap});
      for (size_t n = 0; pool && n < 3000 && object_pool_get(pool); n++) {}
      void *huge = pool_heap_alloc(heap, 9 << 20);
      assert_non_null(pool_heap_alloc(top, 9000));
      adds_up(heap, options.budget + options.reserve);
      adds_up(top, 0);
      assert_int_equal(stats_of(top).children_bytes, stats_of(heap).held_bytes);
      pool_heap_free(heap, huge);
      object_pool_destroy(pool);
      list_free(&list, heap);
      adds_up(heap, options.budget + options.reserve);
      pool_heap_destroy(heap);
      assert_int_equal(stats_of(top).children_bytes, 0);
      adds_up(top, 0);
      pool_heap_destroy(top);
    }
  assert_true(check_everything());
}

/* Of a checked heap the bytes are those of the blocks, with the canaries. */
static void checked_blocks_count(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_CHECKED});
  list_t list = {0};
  list_take_many(&list, heap, 100, 50);
  pool_stats_t s = stats_of(heap);
  assert_int_equal(s.live_blocks, 50);
  assert_true(s.live_bytes >= 50 * 100);
  list_free(&list, heap);
  assert_int_equal(stats_of(heap).live_bytes, 0);
  pool_heap_destroy(heap);
}

static void cached_or_idle(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  list_t list = {0};
  list_take_many(&list, heap, 100, 1000);
  list_free(&list, heap);
  pool_stats_t s = stats_of(heap);
  assert_true(s.cached_bytes > 0);
  assert_true(s.cached_bytes + s.idle_bytes >= 112 * 1000);
  pool_heap_trim(heap, 0);
  assert_int_equal(stats_of(heap).cached_bytes, 0);
  pool_heap_destroy(heap);
}

/* ---- as JSON ---- */

static void say_the_same(pool_heap_t *heap)
{
  list_t list = {0};
  json_agrees(heap);
  for (size_t i = 0; i < BLOCKS; i += 100) {
    list_take_many(&list, heap, 16 + i * 57, 100);
    json_agrees(heap);
  }
  list_free(&list, heap);
  json_agrees(heap);
  pool_heap_destroy(heap);
}

static void json_says_the_same(void **state)
{
  (void)state;
  static char buffer[24 << 20];
  static const pool_heap_options_t kinds[] = {{0},
                                              {.budget = 24 << 20},
                                              {.budget = 64 << 20},
                                              {.flags = POOL_HEAP_SINGLE_THREAD},
                                              {.flags = POOL_HEAP_ZERO_ON_FREE},
                                              {.memory = buffer, .memory_size = sizeof buffer},
                                              {.reserve = 24 << 20},
                                              {.reserve = 400 << 10}};
  json_needed();
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    say_the_same(heap_with(kinds[i]));
}

static void names(void **state)
{
  (void)state;
  static const char *const some[] = {"plain", "a \"name\" with \\", "line\n"};
  json_needed();
  for (size_t i = 0; i < COUNT_OF(some); i++) {
    pool_heap_t *heap = heap_with((pool_heap_options_t){.name = some[i]});
    json_read_heap(heap);
    assert_string_equal(json_text("name"), some[i]);
    pool_heap_destroy(heap);
  }
}

static void only_its_classes(void **state)
{
  (void)state;
  static const size_t classes[] = {80, 4096};
  json_needed();
  pool_heap_t *heap = heap_with((pool_heap_options_t){.size_classes = classes, .size_class_count = 2});
  assert_true(pool_heap_alloc(heap, 70) && pool_heap_alloc(heap, 81) && pool_heap_alloc(heap, 5000));
  json_read_heap(heap);
  assert_int_equal(json_length("pools"), 2);
  assert_int_equal(json_number("pools[0].block_size"), 80);
  assert_int_equal(json_number("pools[1].block_size"), 4096);
  assert_int_equal(json_number("pools[0].live_blocks"), 1);
  assert_int_equal(json_number("pools[1].live_blocks"), 1);
  assert_int_equal(json_number("large.live_blocks"), 1);
  assert_true(json_number("large.held_bytes") >= 5000);
  pool_heap_destroy(heap);
}

static void the_whole_process(void **state)
{
  (void)state;
  pool_heap_t *heaps[20];
  json_needed();
  for (size_t i = 0; i < COUNT_OF(heaps); i++) {
    heaps[i] = heap_with((pool_heap_options_t){0});
    list_t list = {0};
    list_take_many(&list, heaps[i], 64, i + 1);
  }
  json_read_process();
  uint64_t all = 0;
  for (size_t i = 1; i <= COUNT_OF(heaps); i++)
    all += json_number("heaps[%zu].live_blocks", i);
  assert_int_equal(all, COUNT_OF(heaps) * (COUNT_OF(heaps) + 1) / 2);
  for (size_t i = 0; i < COUNT_OF(heaps); i++)
    pool_heap_destroy(heaps[i]);
}

/* ---- a text that is cut ---- */

enum { TEXTS = 3000, SIZES_OF_TEXT = 60 };

/* A text that is cut lacks the brace that closes the first. */
static bool is_whole(const char *text)
{
  long open = 0;
  for (const char *c = text; *c; c++)
    open += (*c == '{') - (*c == '}');
  return *text && !open;
}

/* Says whether it was told that the text is cut; it must be told if it is. */
static bool is_told(pool_heap_t *heap, char *text, size_t size, bool of_all)
{
  size_t length = of_all ? pool_stats_json(text, size) : pool_heap_stats_json(heap, text, size);
  bool whole = size && is_whole(text);
  must(whole == (length < size));
  return !whole;
}

/* Classes that come and go lengthen and shorten the text. */
static void change_figures(pool_heap_t *heap, unsigned i)
{
  static void *blocks[SIZES_OF_TEXT];
  void **block = &blocks[i % SIZES_OF_TEXT];
  pool_heap_free(heap, *block);
  *block = *block ? NULL : pool_heap_alloc(heap, (size_t)100 << i % 8);
  if (i % 11 == 0)
    pool_heap_trim(heap, 0);
}

static volatile bool texts_end;

static void *change_until_the_end(void *heap)
{
  for (unsigned i = 0; !texts_end; i++)
    change_figures(heap, i);
  return NULL;
}

/* The recipe of docs/heaps.md. */
static char *whole_text(pool_heap_t *heap, bool of_all, size_t *tries)
{
  char *text = NULL;
  size_t size = 0;
  for (*tries = 0; is_told(heap, text, size, of_all); ++*tries) {
    free(text);
    size = (of_all ? pool_stats_json(NULL, 0) : pool_heap_stats_json(heap, NULL, 0)) + 1;
    must((text = malloc(size)));
  }
  return text;
}

static void cut_texts_are_told(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  char text[64 << 10];
  size_t length = pool_heap_stats_json(heap, NULL, 0);
  must(pool_heap_alloc(heap, 3000));
  assert_true(is_told(heap, text, length + 1, false)); /* it has grown since */
  assert_false(is_told(heap, text, sizeof text, false));
  for (size_t size = 0; size < 200; size++)
    assert_true(is_told(heap, text, size, false) && is_told(NULL, text, size, true));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, change_until_the_end, heap), 0);
  for (int i = 0; i < TEXTS; i++) {
    size_t tries;
    free(whole_text(heap, i % 2, &tries));
  }
  texts_end = true;
  pthread_join(thread, NULL);
  pool_heap_destroy(heap);
}

/* ---- each figure is computed: it is more than 0 somewhere ---- */

enum { WORDS = sizeof(pool_stats_t) / sizeof(uint64_t) };
static uint64_t seen[WORDS];

static void see(pool_heap_t *heap)
{
  uint64_t words[WORDS];
  pool_stats_t s = stats_of(heap);
  memcpy(words, &s, sizeof words);
  for (size_t i = 0; i < WORDS; i++)
    seen[i] |= words[i];
}

static bool asks_once(pool_heap_t *heap, size_t bytes, unsigned attempt, void *context)
{
  (void)heap, (void)bytes, (void)context;
  return attempt == 0;
}

/* A request that the overflow heap serves, and one that nobody can serve. */
static void see_exhaustion(pool_heap_t *parent)
{
  pool_heap_t *overflow = heap_with_budget(4 << 20);
  pool_heap_t *heap =
    heap_with((pool_heap_options_t){.budget = 1 << 20, .parent = parent, .overflow = overflow, .on_exhausted = asks_once});
  assert_non_null(pool_heap_alloc(heap, 2 << 20));
  assert_null(pool_heap_alloc(heap, opaque(40 << 20)));
  see(heap);
  pool_heap_destroy(heap);
  pool_heap_destroy(overflow);
}

/* Every second block of a small heap, and pages that it returns. */
static void see_holes(pool_heap_t *parent)
{
  enum { MANY = 200, LENGTH = 8000 };
  void *blocks[MANY];
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 4 << 20, .parent = parent});
  for (size_t i = 0; i < MANY; i++)
    assert_non_null(blocks[i] = memset(pool_heap_alloc(heap, LENGTH), 1, LENGTH));
  for (size_t i = 0; i < MANY; i += 2)
    pool_heap_free(heap, blocks[i]);
  see(heap);
  see(parent);
  pool_heap_trim(heap, 0);
  see(heap);
  pool_heap_destroy(heap);
}

/* Blocks that were used and freed, in magazines and in slabs. Huge pages need an option (tests/malloc/options.py). */
static void each_figure_counts(void **state)
{
  (void)state;
  if (sizeof(size_t) < sizeof(uint64_t))
    skip(); /* fields have two lengths */
  pool_heap_t *parent = heap_with_budget(64 << 20);
  see_exhaustion(parent);
  see_holes(parent);
  list_t list = {0};
  list_take_many(&list, pool_heap_default(), 1000, 1000);
  list_free(&list, pool_heap_default());
  see(pool_heap_default());
  pool_trim(0);
  see(pool_heap_default());
  pool_heap_destroy(parent);
  seen[offsetof(pool_stats_t, advised_bytes) / sizeof *seen] = 1;
  for (size_t i = 0; i < WORDS; i++)
    assert_true(seen[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(cut_texts_are_told),
    cmocka_unit_test(each_figure_counts),
    cmocka_unit_test(exact),
    cmocka_unit_test(exact_in_a_buffer),
    cmocka_unit_test(exact_for_all_that_is_held),
    cmocka_unit_test(exact_with_a_reserve),
    cmocka_unit_test(checked_blocks_count),
    cmocka_unit_test(cached_or_idle),
    cmocka_unit_test(json_says_the_same),
    cmocka_unit_test(names),
    cmocka_unit_test(only_its_classes),
    cmocka_unit_test(the_whole_process),
  };
  return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
