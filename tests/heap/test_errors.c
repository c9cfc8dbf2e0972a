/* SPDX-License-Identifier: MIT
 * What pool_error() says: of every way to EINVAL (wrong.c), in threads, at their end, in a child, and before the manager is
 * up. */
#include "heaps.h"
#include "wrong.h"
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <tidepool/object_pool.h>

static bool matches(const char *text, const char *pattern)
{
  for (; *pattern; pattern++) {
    if (*pattern != '#') {
      if (*text++ != *pattern)
        return false;
      continue;
    }
    if (!isdigit((unsigned char)*text))
      return false;
    while (isdigit((unsigned char)*text))
      text++;
  }
  return !*text;
}

static void says(const way_t *way)
{
  errno = UNTOUCHED;
  bool made = way->go();
  assert_false(made);
  assert_int_equal(errno, EINVAL);
  errno = UNTOUCHED;
  const char *text = pool_error();
  assert_int_equal(errno, UNTOUCHED);
  if (!matches(text, way->says))
    fail_msg("%s says \"%s\" and not \"%s\"", way->call, text, way->says);
  assert_ptr_equal(pool_error(), text);
  assert_true(matches(text, way->says));
}

static void every_way(void **state)
{
  (void)state;
  must(pool_alloc(8)); /* the manager is up */
  for (size_t i = 0; i < way_count; i++)
    says(&ways[i]);
}

/* What is enough according to the text is enough, wherever the buffer begins. */
static void enough_memory(void **state)
{
  (void)state;
  static _Alignas(64) char memory[1 << 20];
  static const size_t small[] = {16, 256}, large_one[] = {100000}, largest[] = {262144};
  static const struct {
    const size_t *sizes;
    size_t count;
  } classes[] = {{NULL, 0}, {small, 2}, {large_one, 1}, {largest, 1}};
  for (size_t c = 0; c < COUNT_OF(classes); c++)
    for (size_t from = 0; from < 64; from++) {
      pool_heap_options_t options = {
        .memory = memory + from, .memory_size = 1, .size_classes = classes[c].sizes, .size_class_count = classes[c].count};
      assert_null(pool_heap_create(&options));
      const char *words = "at least ", *number = strstr(pool_error(), words);
      assert_non_null(number);
      options.memory_size = strtoull(number + strlen(words), NULL, 10);
      assert_true(options.memory_size <= sizeof memory - 64);
      pool_heap_t *heap = pool_heap_create(&options);
      if (!heap)
        fail_msg("%zu bytes are not enough: %s", options.memory_size, pool_error());
      assert_non_null(pool_heap_alloc(heap, classes[c].sizes ? classes[c].sizes[0] : 16));
      pool_heap_destroy(heap);
    }
}

/* What the records take according to the text is the least budget that there can be, whatever was asked for. */
static void enough_budget(void **state)
{
  (void)state;
  static size_t classes[104];
  for (size_t i = 0; i < COUNT_OF(classes); i++)
    classes[i] = 16 * (i + 1);
  static const size_t counts[] = {0, 1, 2, 30, COUNT_OF(classes)};
  static char memory[65536];
  for (size_t c = 0; c < 2 * COUNT_OF(counts); c++)
    for (unsigned flags = 0; flags <= POOL_HEAP_PREFAULT; flags += POOL_HEAP_PREFAULT)
      for (size_t budget = 1; budget < 2000; budget += 97) {
        size_t count = counts[c / 2];
        pool_heap_options_t options = {
          .budget = budget, .flags = flags, .size_classes = count ? classes : NULL, .size_class_count = count};
        if (c % 2) {
          options.memory = memory;
          options.memory_size = 4096 + (budget % 60) * KIB;
        }
        pool_heap_t *heap = pool_heap_create(&options);
        pool_heap_destroy(heap);
        const char *number = heap ? NULL : strstr(pool_error(), "than the ");
        if (!number)
          continue;
        options.budget = strtoull(number + strlen("than the "), NULL, 10) - 1;
        assert_null(pool_heap_create(&options));
        options.budget++;
        heap = pool_heap_create(&options);
        if (!heap)
          fail_msg("%zu bytes are not enough: %s", options.budget, pool_error());
        pool_heap_destroy(heap);
      }
}

/* A budget that leaves no unit to a reserve. */
static void budgets_of_reserves(void **state)
{
  (void)state;
  size_t small = 0, no_room = 0;
  for (size_t reserve = 1; reserve <= 20000; reserve += 997)
    for (size_t budget = reserve; budget < reserve + 20000; budget += 499) {
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = reserve, .budget = budget});
      pool_heap_destroy(heap);
      if (heap)
        continue;
      char words[160];
      snprintf(words, sizeof words, "budget is %zu, less than the # bytes of the heap's own records", budget);
      bool is_small = matches(pool_error(), words);
      snprintf(words, sizeof words, "budget is %zu, with no room for blocks beside the # bytes of the heap's own records",
               budget);
      bool has_no_room = matches(pool_error(), words);
      if (is_small == has_no_room)
        fail_msg("a budget of %zu: %s", budget, pool_error());
      small += is_small;
      no_room += has_no_room;
    }
  assert_true(small + no_room > 0);
}

/* ---- threads, forks, and a process whose manager is not up ---- */

static bool said(const char *words) { return strcmp(pool_error(), words) == 0; }

static void another_thread(size_t index, void *context)
{
  must(said("no argument was wrong so far"));
  must(!pool_aligned_alloc(3 + 2 * index, 8));
  char words[80];
  snprintf(words, sizeof words, "alignment is %zu, not a power of two", 3 + 2 * index);
  for (int i = 0; i < 1000; i++)
    must(said(words));
  must(pool_error() != context);
}

static void threads_have_their_own(void **state)
{
  (void)state;
  assert_null(pool_aligned_alloc(24, 8));
  const char *text = pool_error();
  run_threads(16, another_thread, (void *)(uintptr_t)text);
  assert_string_equal(text, "alignment is 24, not a power of two");
  assert_ptr_equal(pool_error(), text);
}

static void same_text(void *unused)
{
  (void)unused;
  must(said("alignment is 24, not a power of two"));
  must(!pool_aligned_alloc(40, 8) && said("alignment is 40, not a power of two"));
}

static void forks(void **state)
{
  (void)state;
  assert_null(pool_aligned_alloc(24, 8));
  in_child(same_text, NULL);
  assert_string_equal(pool_error(), "alignment is 24, not a power of two");
}

static pthread_key_t key;
static const char *at_end, *later;

/* The keys that were made after the library's own run behind its destructor in the next round. */
static void ends(void *value)
{
  at_end = pool_error();
  static int rounds;
  if (++rounds < 4)
    pthread_setspecific(key, value);
  else if (pool_aligned_alloc(56, 8))
    abort();
  else
    later = pool_error();
}

static void *wrong_thread(void *unused)
{
  pthread_setspecific(key, &key);
  if (pool_aligned_alloc(24, 8))
    abort();
  return unused;
}

/* A thread that has given its record back has the text without the numbers. One that has none, and is the first of these, has
 * them. */
static void thread_that_ends(void **state)
{
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_key_create(&key, ends), 0);
  assert_int_equal(pthread_create(&thread, NULL, wrong_thread, NULL), 0);
  pthread_join(thread, NULL);
  assert_string_equal(at_end, "alignment is not a power of two");
  assert_string_equal(later, "alignment is 56, not a power of two");
}

static bool makes_a_pool(size_t capacity)
{
  return object_pool_create(&(object_pool_options_t){
           .object_size = 8, .capacity = capacity, .max_capacity = 10, .when_full = OBJECT_POOL_GROW}) != NULL;
}

/* The manager is not brought up by a wrong argument, nor by the question what it was, so options can still be set. */
static void before_the_manager(void *unused)
{
  (void)unused;
  must(said("no argument was wrong so far"));
  must(!pool_option_set("huge_pages", "yes") && errno == EINVAL);
  must(said("value is not one of the values of huge_pages: never, auto, always"));
  must(!makes_a_pool(20) && said("max_capacity is 10, less than capacity, 20"));
  must(pool_option_set("purge_delay_ms", "50"));
  must(makes_a_pool(5) && said("max_capacity is 10, less than capacity, 20"));
  must(!pool_option_set("checked", "1") && said("checked cannot be set any more: the manager is in use"));
}
IN_CHILD(before_the_manager)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(before_the_manager_test), /* first: the others bring it up */
    cmocka_unit_test(every_way),
    cmocka_unit_test(enough_memory),
    cmocka_unit_test(enough_budget),
    cmocka_unit_test(budgets_of_reserves),
    cmocka_unit_test(threads_have_their_own),
    cmocka_unit_test(forks),
    cmocka_unit_test(thread_that_ends),
  };
  return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
