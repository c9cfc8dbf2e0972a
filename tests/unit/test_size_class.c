/* SPDX-License-Identifier: MIT
 * usage: test_size_class GENERATOR TABLE: what the generator prints is the table that is compiled in. */
#include "size_class.h"
#include "unit.h"

static const char *generator, *table;

static char *read_all(FILE *file, size_t *length)
{
  static char buffers[2][64 << 10];
  static unsigned turn;
  char *buffer = buffers[turn++ % 2];
  assert_non_null(file);
  *length = fread(buffer, 1, sizeof buffers[0], file);
  assert_true(*length > 0 && *length < sizeof buffers[0]);
  return buffer;
}

static void table_is_generated(void **state)
{
  (void)state;
  if (!generator)
    skip();
  size_t expected_length, length;
  FILE *file = fopen(table, "r");
  const char *is = read_all(file, &length);
  fclose(file);
  setenv("GENERATOR", generator, 1); /* its path may have anything in it */
  file = popen("exec \"$GENERATOR\"", "r");
  const char *expected = read_all(file, &expected_length);
  assert_int_equal(pclose(file), 0);
  assert_int_equal(length, expected_length);
  assert_memory_equal(is, expected, length);
}

static void sizes_ascend(void **state)
{
  (void)state;
  assert_int_equal(size_class_size(0), 0);
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    assert_true(size_class_size(c) > size_class_size(c - 1));
    assert_int_equal(size_class_size(c) % BLOCK_ALIGNMENT, 0);
  }
  assert_int_equal(size_class_size(CLASS_LINEAR), SIZE_LINEAR);
  assert_int_equal(size_class_size(CLASS_CACHED), SIZE_CACHED);
  assert_int_equal(size_class_size(CLASS_LAST), SIZE_MAX_CLASS);
}

/* The least class that is large enough, by whichever way the class is found. */
static void every_size_gets_the_least_class(void **state)
{
  (void)state;
  unsigned c = 1;
  for (size_t size = 1; size <= SIZE_MAX_CLASS; size++) {
    c += size > size_class_size(c);
    assert_int_equal(size_class_of(size), c);
    if (size <= SIZE_LINEAR)
      assert_int_equal(size_class_linear(size), c);
    if (size <= SIZE_CACHED)
      assert_int_equal(size_class_scaled(size), c * CLASS_SCALE);
  }
  assert_int_equal(c, CLASS_LAST);
  assert_int_equal(size_class_of(0), 1);
  assert_int_equal(size_class_linear(0), 0);
  assert_int_equal(size_class_scaled(0), 0);
}

static void waste_is_at_most_an_eighth(void **state)
{
  (void)state;
  for (size_t size = 257; size <= SIZE_MAX_CLASS; size++)
    assert_true((size_class_size(size_class_of(size)) - size) * 8 <= size);
}

/* What default_aligned_alloc() rests on. */
static void a_padded_size_gets_a_class_that_is_aligned(void **state)
{
  (void)state;
  for (size_t alignment = 1; alignment <= SIZE_CACHED; alignment *= 2)
    for (size_t padded = alignment; padded <= SIZE_CACHED; padded += alignment)
      assert_int_equal(size_class_size(size_class_of(padded)) % alignment, 0);
}

int main(int count, char **words)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(table_is_generated),
    cmocka_unit_test(sizes_ascend),
    cmocka_unit_test(every_size_gets_the_least_class),
    cmocka_unit_test(waste_is_at_most_an_eighth),
    cmocka_unit_test(a_padded_size_gets_a_class_that_is_aligned),
  };
  generator = count > 2 ? words[1] : NULL;
  table = count > 2 ? words[2] : NULL;
  return cmocka_run_group_tests_name("size classes", tests, NULL, NULL);
}
