/* SPDX-License-Identifier: MIT
 * What a heap can be made of: every option by itself, those that contradict each other, names, and no heap at all. */
#include "heaps.h"

static void defaults(void **state)
{
  (void)state;
  errno = UNTOUCHED;
  pool_heap_t *heap = pool_heap_create(NULL), *other = pool_heap_create(&(pool_heap_options_t){0});
  assert_int_equal(errno, UNTOUCHED);
  assert_non_null(heap);
  assert_non_null(other);
  assert_ptr_not_equal(heap, other);
  assert_int_equal(stats_of(heap).budget, 0);
  void *block = pool_heap_alloc(heap, 100);
  assert_non_null(block);
  assert_ptr_equal(pool_heap_of(block), heap);
  assert_int_equal((uintptr_t)block % 16, 0);
  pool_heap_free(heap, block);
  assert_int_equal(errno, UNTOUCHED);
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
  assert_int_equal(errno, UNTOUCHED);
}

static void names(void **state)
{
  (void)state;
  char name[64] = "my subsystem";
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = name});
  name[0] = 'x';
  assert_string_equal(pool_heap_name(heap), "my subsystem");
  pool_heap_destroy(heap);
  memset(name, 'n', sizeof name - 1);
  heap = heap_with((pool_heap_options_t){.name = name});
  assert_int_equal(strlen(pool_heap_name(heap)), 31);
  pool_heap_destroy(heap);
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  assert_string_not_equal(pool_heap_name(first), pool_heap_name(second));
  assert_true(*pool_heap_name(first) && *pool_heap_name(second));
  assert_true(*pool_heap_name(pool_heap_default()));
  pool_heap_destroy(first);
  pool_heap_destroy(second);
  heap = heap_with((pool_heap_options_t){.name = ""});
  assert_string_equal(pool_heap_name(heap), "");
  pool_heap_destroy(heap);
}

static void contradictions(void **state)
{
  (void)state;
  static char buffer[64 << 10];
  static const size_t one_class = 64;
  enum {
    ALL_FLAGS = POOL_HEAP_SINGLE_THREAD | POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_ZERO_ON_FREE |
                POOL_HEAP_CHECKED | POOL_HEAP_DENSE
  };
  refuses((pool_heap_options_t){.flags = ~(unsigned)ALL_FLAGS}, EINVAL);
  refuses((pool_heap_options_t){.flags = ALL_FLAGS + 1}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer}, EINVAL);
  refuses((pool_heap_options_t){.memory_size = sizeof buffer}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .reserve = 4096}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .flags = POOL_HEAP_PREFAULT}, EINVAL);
  refuses((pool_heap_options_t){.budget = 1 << 20, .reserve = 2 << 20}, EINVAL);
  refuses((pool_heap_options_t){.flags = POOL_HEAP_PREFAULT}, EINVAL);
  refuses((pool_heap_options_t){.flags = POOL_HEAP_LOCK_MEMORY}, EINVAL);
  refuses((pool_heap_options_t){.flags = POOL_HEAP_DENSE}, EINVAL);
  refuses((pool_heap_options_t){.budget = (8 << 20) + 1, .flags = POOL_HEAP_DENSE}, EINVAL);
  refuses((pool_heap_options_t){.budget = 4 << 20, .reserve = 1 << 20, .flags = POOL_HEAP_DENSE}, EINVAL);
  refuses((pool_heap_options_t){.budget = 4 << 20, .size_classes = &one_class, .size_class_count = 1, .flags = POOL_HEAP_DENSE},
          EINVAL);
}

/* Only what has idle memory of its own can keep it for as long as it likes. */
static void purge_delays(void **state)
{
  (void)state;
  static _Alignas(64) char buffer[64 << 10];
  static const unsigned delays[] = {1, 1000, POOL_PURGE_NEVER};
  static const pool_heap_options_t with[] = {
    {.reserve = 100000}, {.reserve = 20 << 20}, {.budget = 8 << 20}, {.reserve = 1 << 20, .budget = 64 << 20}};
  for (size_t d = 0; d < COUNT_OF(delays); d++) {
    refuses((pool_heap_options_t){.purge_delay_ms = delays[d]}, EINVAL);
    refuses((pool_heap_options_t){.budget = (8 << 20) + 1, .purge_delay_ms = delays[d]}, EINVAL);
    refuses((pool_heap_options_t){.flags = POOL_HEAP_CHECKED, .purge_delay_ms = delays[d]}, EINVAL);
    for (size_t i = 0; i < COUNT_OF(with); i++) {
      pool_heap_options_t options = with[i];
      options.purge_delay_ms = delays[d];
      pool_heap_destroy(heap_with(options));
    }
  }
  refuses((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .purge_delay_ms = 1}, EINVAL);
  pool_heap_destroy(
    heap_with((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .purge_delay_ms = POOL_PURGE_NEVER}));
}

static void too_small(void **state)
{
  (void)state;
  static char buffer[2048];
  for (size_t size = 1, made = 0; size <= 1024 || !made; size++) {
    errno = 0;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer, .memory_size = size});
    assert_true(heap ? ++made : errno == EINVAL && !made && size < 1024);
    assert_true(!heap || pool_heap_alloc(heap, 1));
    pool_heap_destroy(heap);
  }
  for (size_t budget = 1; budget < 1024; budget += 37)
    refuses((pool_heap_options_t){.budget = budget}, EINVAL);
  /* With the heap's own classes: too small, or it is enough. */
  static size_t classes[104];
  for (size_t i = 0; i < COUNT_OF(classes); i++)
    classes[i] = 16 * (i + 1);
  static char memory[58368]; /* in which the table of classes takes a unit of its own */
  for (size_t size = 0; size <= sizeof memory; size += sizeof memory)
    for (size_t budget = 1, made = 0; budget < 8192 || !made; budget++) {
      errno = 0;
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = size ? memory : NULL,
                                                                  .memory_size = size,
                                                                  .budget = budget,
                                                                  .size_classes = classes,
                                                                  .size_class_count = COUNT_OF(classes)});
      assert_true(heap ? ++made : errno == EINVAL && !made);
      pool_heap_destroy(heap);
    }
  assert_true(check_everything());
}

/* Whatever the two are, there is a heap that serves, or it is said that there cannot be one; and with a larger budget there is
 * one again. */
static void small_reserves_and_budgets(void **state)
{
  (void)state;
  size_t made = 0, refused = 0;
  for (unsigned flags = 0; flags <= POOL_HEAP_PREFAULT; flags += POOL_HEAP_PREFAULT)
    for (size_t reserve = 1; reserve <= 20000; reserve += reserve < 16 ? 1 : 251) {
      bool served = false;
      for (size_t budget = reserve; budget < reserve + 20000; budget += budget - reserve < 16 ? 1 : 499) {
        errno = 0;
        pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = reserve, .budget = budget, .flags = flags});
        assert_true(heap ? ++made : errno == EINVAL && ++refused);
        assert_true(heap || !served);
        if (!heap)
          continue;
        served = true;
        void *block = pool_heap_alloc(heap, 16);
        assert_non_null(block);
        memset(block, 7, 16);
        assert_true(stats_of(heap).held_bytes <= budget);
        pool_heap_destroy(heap);
      }
    }
  assert_true(made > 1000 && refused > 100);
  assert_true(check_everything());
}

/* A budget of a parent counts as memory that is not there. */
static void parent_is_full(void **state)
{
  (void)state;
  pool_heap_t *parent = heap_with_budget(64 << 10);
  refuses((pool_heap_options_t){.parent = parent, .reserve = 1 << 20}, ENOMEM);
  refuses((pool_heap_options_t){.parent = parent, .budget = 1 << 20, .reserve = 1 << 20}, ENOMEM);
  pool_stats_t after = stats_of(parent);
  assert_true(after.held_bytes <= after.budget);
  assert_int_equal(after.live_blocks, 0);
  pool_heap_destroy(parent);
  assert_true(check_everything());
}

static void nothing_fits(void **state)
{
  (void)state;
  refuses((pool_heap_options_t){.reserve = PTRDIFF_MAX}, ENOMEM);
  refuses((pool_heap_options_t){.reserve = SIZE_MAX}, EINVAL);
}

/* ---- no heap ---- */

#define REFUSES_NULL(call) \
  do { \
    errno = UNTOUCHED; \
    assert_true(!(call)); \
    assert_int_equal(errno, EINVAL); \
  } while (0)

static void no_heap(void **state)
{
  (void)state;
  char byte;
  pool_stats_t stats;
  REFUSES_NULL(pool_heap_alloc(NULL, 1));
  REFUSES_NULL(pool_heap_alloc(NULL, 5000));
  REFUSES_NULL(pool_heap_alloc(NULL, 5 << 20));
  REFUSES_NULL(pool_heap_zalloc(NULL, 1));
  REFUSES_NULL(pool_heap_calloc(NULL, 1, 1));
  REFUSES_NULL(pool_heap_realloc(NULL, NULL, 1));
  REFUSES_NULL(pool_heap_aligned_alloc(NULL, 16, 1));
  REFUSES_NULL(pool_heap_trim(NULL, 0));
  REFUSES_NULL(pool_heap_set_budget(NULL, 1 << 20));
  REFUSES_NULL(pool_heap_walk(NULL, visit_nothing, NULL));
  REFUSES_NULL(pool_heap_name(NULL));
  REFUSES_NULL(pool_heap_stats(NULL, &stats));
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  REFUSES_NULL(pool_heap_walk(heap, NULL, NULL));
  REFUSES_NULL(pool_heap_stats(heap, NULL));
  REFUSES_NULL(pool_heap_aligned_alloc(heap, 24, 1));
  REFUSES_NULL(pool_heap_aligned_alloc(heap, 0, 1));
  pool_heap_destroy(heap);
  pool_heap_free(NULL, NULL);
  errno = 0;
  pool_heap_reset(NULL);
  assert_int_equal(errno, EINVAL);
  pool_heap_destroy(NULL);
  assert_int_equal(pool_heap_stats_json(NULL, &byte, 1), strlen("null"));
}

/* What a heap's records take of its memory counts for its budget, too. */
static void what_is_least_has_room_in_the_budget(void **state)
{
  (void)state;
  static char buffer[64 << 10];
  unsigned refused = 0;
  for (size_t budget = 1; budget < 1300; budget++) {
    pool_heap_options_t o = {.memory = buffer + budget % 16, .budget = budget, .flags = budget % 3 ? 0 : POOL_HEAP_CHECKED};
    size_t least = pool_heap_least_memory(&o);
    o.memory_size = least ? least : sizeof buffer - 16;
    if (least)
      pool_heap_destroy(heap_with(o));
    else
      refuses(o, EINVAL);
    refused += !least;
  }
  assert_true(refused > 100 && refused < 1000);
}

/* With each set of flags the least budget is enough, and a byte less is not. */
static void least_budgets(void **state)
{
  (void)state;
  size_t accepted = 0;
  for (unsigned flags = 0; flags < POOL_HEAP_DENSE << 1; flags++) {
    pool_heap_options_t o = {.flags = flags};
    o.budget = pool_heap_least_memory(&o);
    if (!o.budget)
      continue;
    accepted++;
    pool_heap_destroy(heap_with(o));
    o.budget--;
    if (!SANITIZED) /* where blocks are from malloc, no flag needs a region */
      refuses(o, EINVAL);
  }
  assert_true(accepted >= 24);
}

/* What is refused as too much is what the figures say is held, after what is idle has gone. */
static void budget_of_the_default_heap(void *unused)
{
  (void)unused;
  pool_heap_t *other = heap_with((pool_heap_options_t){0}), *heap = pool_heap_default();
  for (int i = 0; i < 100; i++)
    must(pool_heap_alloc(other, 100000));
  void *block = pool_alloc(3000);
  pool_heap_destroy(other);
  size_t held = stats_of(heap).held_bytes;
  must(block && pool_heap_set_budget(heap, held));
  pool_trim(0);
  size_t least = stats_of(heap).held_bytes;
  must(!pool_heap_set_budget(heap, least - 1) && stats_of(heap).budget == held);
  must(pool_heap_set_budget(heap, least) && stats_of(heap).budget == least);
  pool_free(block);
}
IN_CHILD(budget_of_the_default_heap)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(least_budgets),  cmocka_unit_test(budget_of_the_default_heap_test),
    cmocka_unit_test(defaults),       cmocka_unit_test(names),
    cmocka_unit_test(contradictions), cmocka_unit_test(purge_delays),
    cmocka_unit_test(too_small),      cmocka_unit_test(small_reserves_and_budgets),
    cmocka_unit_test(parent_is_full), cmocka_unit_test(nothing_fits),
    cmocka_unit_test(no_heap),        cmocka_unit_test(what_is_least_has_room_in_the_budget),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
