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
  enum { ALL_FLAGS = POOL_HEAP_SINGLE_THREAD | POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_ZERO_ON_FREE | POOL_HEAP_CHECKED };
  refuses((pool_heap_options_t){.flags = ~(unsigned)ALL_FLAGS}, EINVAL);
  refuses((pool_heap_options_t){.flags = ALL_FLAGS + 1}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer}, EINVAL);
  refuses((pool_heap_options_t){.memory_size = sizeof buffer}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .reserve = 4096}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .flags = POOL_HEAP_PREFAULT}, EINVAL);
  refuses((pool_heap_options_t){.budget = 1 << 20, .reserve = 2 << 20}, EINVAL);
  refuses((pool_heap_options_t){.flags = POOL_HEAP_PREFAULT}, EINVAL);
  refuses((pool_heap_options_t){.flags = POOL_HEAP_LOCK_MEMORY}, EINVAL);
}

/* Only what has idle memory of its own can keep it for as long as it likes. */
static void purge_delays(void **state)
{
  (void)state;
  static _Alignas(64) char buffer[64 << 10];
  static const unsigned delays[] = {1, 1000, POOL_PURGE_NEVER};
  static const pool_heap_options_t with[] = {{.reserve = 100000}, {.reserve = 20 << 20}, {.budget = 8 << 20}, {.reserve = 1 << 20, .budget = 64 << 20}};
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
  pool_heap_destroy(heap_with((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .purge_delay_ms = POOL_PURGE_NEVER}));
}

static void too_small(void **state)
{
  (void)state;
  static char buffer[2048];
  for (size_t size = 1; size < 1024; size += 37)
    refuses((pool_heap_options_t){.memory = buffer, .memory_size = size}, EINVAL);
  for (size_t budget = 1; budget < 1024; budget += 37)
    refuses((pool_heap_options_t){.budget = budget}, EINVAL);
  /* With the heap's own classes: too small, or it is enough. */
  static size_t classes[104];
  for (size_t i = 0; i < COUNT_OF(classes); i++)
    classes[i] = 16 * (i + 1);
  for (size_t budget = 1, made = 0; budget < 8192 || !made; budget += 37) {
    errno = 0;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = budget, .size_classes = classes, .size_class_count = COUNT_OF(classes)});
    assert_true(heap ? ++made : errno == EINVAL && !made);
    pool_heap_destroy(heap);
  }
  assert_true(check_everything());
}

/* Whatever the two are, there is a heap that serves, or it is said that there cannot be one; and with a larger budget there is one again. */
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

/* ---- classes of its own ---- */

static void refuses_classes(const size_t *sizes, size_t count)
{
  refuses((pool_heap_options_t){.size_classes = sizes, .size_class_count = count}, EINVAL);
}

static void bad_classes(void **state)
{
  (void)state;
  size_t many[105];
  for (size_t i = 0; i < COUNT_OF(many); i++)
    many[i] = (i + 1) * 16;
  refuses_classes(many, 105);
  refuses_classes(many, 0);
  refuses_classes(NULL, 4);
  refuses_classes((size_t[]){64, 32}, 2);
  refuses_classes((size_t[]){64, 64}, 2);
  refuses_classes((size_t[]){0, 64}, 2);
  refuses_classes((size_t[]){40}, 1);
  refuses_classes((size_t[]){16, (256 << 10) + 16}, 2);
  pool_heap_t *heap = heap_with((pool_heap_options_t){.size_classes = many, .size_class_count = 104});
  pool_heap_destroy(heap);
}

static void expect_size(pool_heap_t *heap, size_t size, size_t usable)
{
  void *block = pool_heap_alloc(heap, opaque(size));
  assert_non_null(block);
  assert_int_equal(pool_usable_size(block), usable);
  memset(block, 0xee, usable);
  pool_heap_free(heap, block);
}

static void try_own_classes(pool_heap_options_t options)
{
  size_t sizes[] = {48, 1024, 24576, 256 << 10};
  options.size_classes = sizes;
  options.size_class_count = COUNT_OF(sizes);
  pool_heap_t *heap = heap_with(options);
  memset(sizes, 0, sizeof sizes);           /* they were copied */
  expect_size(heap, 0, 48);
  expect_size(heap, 48, 48);
  expect_size(heap, 49, 1024);
  expect_size(heap, 1024, 1024);
  expect_size(heap, 1025, 24576);
  expect_size(heap, 100000, 256 << 10);
  expect_size(heap, 300 << 10, 300 << 10);
  void *block = pool_heap_alloc(heap, 20);
  pattern_write(block, 20, 1);
  assert_non_null(block = pool_heap_realloc(heap, block, 1000));
  assert_true(pattern_kept(block, 20, 20, 1));
  assert_int_equal(pool_usable_size(block), 1024);
  assert_non_null(block = pool_heap_realloc(heap, block, 10));
  assert_true(pattern_kept(block, 10, 20, 1));
  pool_free(block);
  for (size_t alignment = 1; alignment <= 64 << 10; alignment *= 2) {
    assert_non_null(block = pool_heap_aligned_alloc(heap, alignment, 40));
    assert_int_equal((uintptr_t)block % alignment, 0);
    pool_heap_free(heap, block);
  }
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

static void own_classes(void **state)
{
  (void)state;
  static char buffer[2 << 20];
  try_own_classes((pool_heap_options_t){0});
  try_own_classes((pool_heap_options_t){.budget = 4 << 20});
  try_own_classes((pool_heap_options_t){.budget = 40 << 20});
  try_own_classes((pool_heap_options_t){.reserve = 4 << 20});
  try_own_classes((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
  try_own_classes((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer});
  assert_true(check_everything());
}

/* ---- no heap ---- */

#define REFUSES_NULL(call)             \
  do {                                 \
    errno = UNTOUCHED;                 \
    assert_true(!(call));              \
    assert_int_equal(errno, EINVAL);   \
  } while (0)

static bool visit_nothing(const pool_block_t *block, void *context)
{
  (void)block, (void)context;
  return true;
}

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

/* ---- the family, in every kind of heap ---- */

#define NO_MEMORY(call)                \
  do {                                 \
    errno = UNTOUCHED;                 \
    assert_null(call);                 \
    assert_int_equal(errno, ENOMEM);   \
  } while (0)

static void try_family(pool_heap_t *heap)
{
  unsigned char *block = pool_heap_alloc(heap, 0), *other = pool_heap_alloc(heap, 0);
  assert_true(block && other && block != other);
  memset(block, 0xff, pool_usable_size(block));
  pool_heap_free(heap, block);
  pool_free(other);
  for (size_t size = 1; size <= 300000; size = size * 5 + 3) {
    assert_non_null(block = pool_heap_alloc(heap, size));
    memset(block, 0xff, size);
    pool_heap_free(heap, block);
    assert_non_null(block = pool_heap_zalloc(heap, size));
    assert_true(all_zero(block, pool_usable_size(block)));
    memset(block, 0xff, size);
    pool_heap_free(heap, block);
    assert_non_null(block = pool_heap_calloc(heap, size, 1));
    assert_true(all_zero(block, pool_usable_size(block)));
    pattern_write(block, size, size);
    assert_non_null(block = pool_heap_realloc(heap, block, size * 2));
    assert_true(pattern_kept(block, size, size, size));
    assert_non_null(block = pool_heap_realloc(heap, block, size));
    assert_true(pattern_kept(block, size, size, size));
    assert_ptr_equal(pool_heap_realloc(heap, block, pool_usable_size(block)), block);
    assert_ptr_equal(pool_block_start(block + size - 1, NULL), block);
    assert_true(pool_in_use(block));
    pool_heap_free(heap, block);
    assert_false(pool_in_use(block));
  }
  assert_non_null(block = pool_heap_realloc(heap, NULL, 10));
  assert_null(pool_heap_realloc(heap, block, 0));
  pool_heap_free(heap, NULL);
  NO_MEMORY(pool_heap_alloc(heap, opaque((size_t)PTRDIFF_MAX + 1)));
  NO_MEMORY(pool_heap_zalloc(heap, opaque(SIZE_MAX)));
  NO_MEMORY(pool_heap_calloc(heap, opaque(SIZE_MAX / 2), 4));
  NO_MEMORY(pool_heap_aligned_alloc(heap, 64, opaque(SIZE_MAX - 100)));
  assert_non_null(block = pool_heap_alloc(heap, 100));
  pattern_write(block, 100, 7);
  NO_MEMORY(pool_heap_realloc(heap, block, opaque(PTRDIFF_MAX)));
  assert_true(pattern_holds(block, 100, 7));
  errno = UNTOUCHED;
  pool_heap_free(heap, block);
  assert_int_equal(errno, UNTOUCHED);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
}

static void family_in_every_heap(void **state)
{
  (void)state;
  static char buffer[4 << 20];
  const pool_heap_options_t kinds[] = {
    {.budget = 0}, {.budget = 4 << 20}, {.budget = 32 << 20}, {.reserve = 1 << 20}, {.reserve = 16 << 20, .budget = 32 << 20},
    {.memory = buffer, .memory_size = sizeof buffer},
  };
  static const unsigned flags[] = {0, POOL_HEAP_SINGLE_THREAD, POOL_HEAP_CHECKED, POOL_HEAP_ZERO_ON_FREE,
    POOL_HEAP_SINGLE_THREAD | POOL_HEAP_CHECKED, POOL_HEAP_CHECKED | POOL_HEAP_ZERO_ON_FREE};
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    for (size_t j = 0; j < COUNT_OF(flags); j++) {
      pool_heap_options_t options = kinds[i];
      options.flags = flags[j];
      pool_heap_t *heap = heap_with(options);
      try_family(heap);
      pool_heap_reset(heap);
      try_family(heap);
      pool_heap_destroy(heap);
    }
  assert_true(check_everything());
}

/* ---- reserves of any length, and what a user writes first: reserve == budget ---- */

static void reserves_of_any_length(void **state)
{
  (void)state;
  static const size_t mib[] = {1, 7, 8, 9, 64, 250, 254, 255, 256, 257, 300, 1023, 1024, 1500, 3000};
  for (size_t i = 0; i < COUNT_OF(mib); i++) {
    size_t reserve = mib[i] << 20;
    if (SANITIZED && mib[i] > 300)
      break;   /* shadows of that would be too much */
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = reserve});
    if (!heap && mib[i] > 512)
      break;   /* there is not so much memory */
    assert_non_null(heap);
    assert_true(stats_of(heap).held_bytes >= reserve);
    char *block = pool_heap_alloc(heap, reserve - reserve / 4), *last = block + reserve - reserve / 4 - 1;
    assert_non_null(block);
    *block = *last = 1;
    assert_ptr_equal(pool_heap_of(last), heap);
    assert_ptr_equal(pool_block_start(last, NULL), block);
    pool_heap_free(heap, block);
    assert_non_null(block = pool_heap_alloc(heap, 100));
    assert_ptr_equal(pool_heap_of(block), heap);
    pool_free(block);
    assert_true(check_everything());
    pool_heap_destroy(heap);
    assert_null(pool_heap_of(last));
  }
}

/* Whatever the one size is that a reserve is used for: as many blocks of it as there is room for, although the parent is full. What is
 * no size class takes whole units. */
static void serves(pool_heap_options_t options, size_t size)
{
  pool_heap_t *parent = heap_with_budget(2 * options.reserve + (1 << 20));
  options.parent = parent;
  pool_heap_t *heap = heap_with(options), *full = heap_with((pool_heap_options_t){.parent = parent});
  list_t list = {0}, others = {0};
  list_exhaust(&others, full, 4096);
  list_exhaust(&others, full, 16);
  size_t good = pool_heap_good_size(heap, size);
  list_exhaust(&list, heap, size);
  if (list.count < options.reserve / good)
    print_error("a reserve of %zu bytes serves %zu blocks of %zu\n", options.reserve, list.count, good);
  assert_true(list.count >= options.reserve / good);
  pool_heap_destroy(full);
  pool_heap_destroy(heap);
  pool_heap_destroy(parent);
}

static void a_reserve_serves_any_size_class(void **state)
{
  (void)state;
  static const size_t own[] = {48, 208, 1040, 5008, 33344, 262144};
  static const size_t reserves[] = {2 << 10, 10 << 10, 100000, 128 << 10, 300 << 10, 1000000, 1 << 20, 5000000, 9000000, 31 << 20};
  for (size_t r = 0; r < COUNT_OF(reserves); r++) {
    size_t reserve = reserves[r], most = reserve <= 1 << 20 ? 32 << 10 : reserve <= 8 << 20 ? 64 << 10 : 256 << 10;
    for (size_t size = 16; size <= most && size <= reserve; size += size < 512 ? 48 : size / 5)
      for (unsigned checked = 0; checked <= POOL_HEAP_CHECKED; checked += POOL_HEAP_CHECKED)
        serves((pool_heap_options_t){.reserve = reserve, .flags = (size % 3 ? 0 : POOL_HEAP_SINGLE_THREAD) | checked}, size);
    for (size_t i = 0; i < COUNT_OF(own) && own[i] <= reserve; i++)
      serves((pool_heap_options_t){.reserve = reserve, .size_classes = own, .size_class_count = COUNT_OF(own)}, own[i]);
  }
  /* As the others are cut into smaller units, so small reserves have smaller classes; these are what a user would write. */
  serves((pool_heap_options_t){.reserve = 128 << 10}, 32 << 10);
  serves((pool_heap_options_t){.reserve = 4 << 20}, 1 << 20);
}

static void all_of_the_budget_reserved(void **state)
{
  (void)state;
  for (size_t kib = 64; kib <= 64 << 10; kib += kib < 4096 ? 64 : 1024) {
    size_t bytes = kib << 10;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = bytes, .reserve = bytes});
    assert_non_null(heap);
    pool_stats_t s = stats_of(heap);
    assert_true(s.held_bytes <= bytes && s.held_bytes >= bytes - bytes / 8);
    list_t list = {0};
    list_exhaust(&list, heap, 1000);
    s = stats_of(heap);
    assert_true(s.live_bytes >= bytes / 100 * (kib < 1024 ? 70 : 85) && s.held_bytes <= bytes);
    list_free(&list, heap);
    pool_heap_destroy(heap);
  }
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(defaults),
    cmocka_unit_test(names),
    cmocka_unit_test(contradictions),
    cmocka_unit_test(purge_delays),
    cmocka_unit_test(too_small),
    cmocka_unit_test(small_reserves_and_budgets),
    cmocka_unit_test(parent_is_full),
    cmocka_unit_test(nothing_fits),
    cmocka_unit_test(bad_classes),
    cmocka_unit_test(own_classes),
    cmocka_unit_test(no_heap),
    cmocka_unit_test(family_in_every_heap),
    cmocka_unit_test(reserves_of_any_length),
    cmocka_unit_test(a_reserve_serves_any_size_class),
    cmocka_unit_test(all_of_the_budget_reserved),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
