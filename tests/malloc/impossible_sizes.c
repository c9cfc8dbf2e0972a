/* SPDX-License-Identifier: MIT
 *
 * Requests that nobody can serve: every entry point answers NULL and ENOMEM, and everything stays as it was. */
#include "ours.h"
#include "testing.h"

enum { SIZE_BITS = 8 * sizeof(size_t) };

static const size_t impossible[] = {
  PTRDIFF_MAX,
  (size_t)PTRDIFF_MAX + 1,
  (size_t)PTRDIFF_MAX + 2,
  (size_t)PTRDIFF_MAX + 16,
  (size_t)PTRDIFF_MAX + 4096,
  (size_t)PTRDIFF_MAX - 1,
  (size_t)PTRDIFF_MAX - 15,
  (size_t)PTRDIFF_MAX - 4096,
  (size_t)PTRDIFF_MAX - 65536,
  SIZE_MAX / 3 * 2,
#if SIZE_MAX > UINT32_MAX
  (size_t)1 << 62,
  (size_t)1 << 48,
#endif
};

typedef void *allocate_fn(size_t size);

static void *by_calloc_one(size_t size) { return calloc(1, size); }
static void *by_calloc_many(size_t size) { return calloc(size, 1); }
static void *by_realloc(size_t size) { return realloc(NULL, size); }
static void *by_reallocarray(size_t size) { return reallocarray(NULL, size, 1); }
static void *by_aligned_alloc(size_t size) { return aligned_alloc(16, size); }

static allocate_fn *const entry_points[] = {
  malloc, by_calloc_one, by_calloc_many, by_realloc, by_reallocarray, by_aligned_alloc, valloc, pvalloc,
};

static void expect_no_memory(allocate_fn *allocate, size_t size)
{
  errno = 0;
  void *block = allocate(size);
  if (block)
    fail_msg("entry point got a block of %#zx bytes", size);
  assert_int_equal(errno, ENOMEM);
}

static void test_every_entry_point(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(entry_points); i++) {
    for (size_t k = 0; k < COUNT_OF(impossible); k++)
      expect_no_memory(entry_points[i], impossible[k]);
    for (size_t below = 0; below <= 16 * KIB; below += below < 64 ? 1 : 61) {
      expect_no_memory(entry_points[i], SIZE_MAX - below);
      expect_no_memory(entry_points[i], (size_t)PTRDIFF_MAX + 1 + below);
    }
  }
}

static void expect_no_aligned_memory(size_t alignment, size_t size)
{
  errno = 0;
  assert_null(aligned_alloc(alignment, size));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(memalign(alignment, size));
  assert_int_equal(errno, ENOMEM);
  if (alignment < sizeof(void *))
    return;
  void *block = &block;
  errno = 0;
  assert_int_equal(posix_memalign(&block, alignment, size), ENOMEM);
  assert_ptr_equal(block, &block);
  assert_int_equal(errno, ENOMEM);
}

static void test_every_alignment(void **state)
{
  (void)state;
  for (unsigned bit = 0; bit < SIZE_BITS; bit++) {
    size_t alignment = (size_t)1 << bit;
    for (size_t k = 0; k < COUNT_OF(impossible); k++)
      expect_no_aligned_memory(alignment, impossible[k]);
    for (size_t below = 0; below <= 16 * KIB; below += 127)
      expect_no_aligned_memory(alignment, SIZE_MAX - below);
    expect_no_aligned_memory(alignment, SIZE_MAX - alignment);
    expect_no_aligned_memory(alignment, (size_t)0 - alignment);
  }
}

static void test_alignments_beyond_the_address_space(void **state)
{
  (void)state;
  for (unsigned bit = 48; bit < SIZE_BITS; bit++) {
    expect_no_aligned_memory((size_t)1 << bit, 1);
    expect_no_aligned_memory((size_t)1 << bit, 100000);
  }
}

static void test_memalign_of_an_alignment_that_cannot_be_rounded_up(void **state)
{
  (void)state;
  static const size_t alignments[] = {SIZE_MAX, SIZE_MAX - 1, (SIZE_MAX / 2 + 1) + 1, SIZE_MAX / 4 * 3};
  for (size_t i = 0; i < COUNT_OF(alignments); i++) {
    errno = 0;
    assert_null(memalign(alignments[i], opaque(16)));
    assert_int_equal(errno, EINVAL);
  }
}

static void test_products_that_overflow(void **state)
{
  (void)state;
  static const size_t factors[][2] = {
    {SIZE_MAX, 2},           {2, SIZE_MAX},
    {SIZE_MAX / 2 + 1, 2},   {2, SIZE_MAX / 2 + 1},
    {SIZE_MAX, SIZE_MAX},    {(size_t)1 << SIZE_BITS / 2, (size_t)1 << SIZE_BITS / 2},
    {SIZE_MAX / 16 + 2, 16}, {65537, SIZE_MAX / 65536},
  };
  for (size_t i = 0; i < COUNT_OF(factors); i++) {
    errno = 0;
    assert_null(calloc(factors[i][0], factors[i][1]));
    assert_int_equal(errno, ENOMEM);
    char *block = malloc(32);
    memset(block, 'k', 32);
    errno = 0;
    assert_null(reallocarray(block, factors[i][0], factors[i][1]));
    assert_int_equal(errno, ENOMEM);
    assert_true(is_filled(block, 'k', 32));
    free(block);
  }
}

static void test_a_failed_realloc_leaves_the_block(void **state)
{
  (void)state;
  static const size_t sizes[] = {1, 16, 1000, 40000, 3000000};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    char *block = malloc(sizes[i]);
    assert_non_null(block);
    memset(block, 'u', sizes[i]);
    for (size_t k = 0; k < COUNT_OF(impossible); k++) {
      errno = 0;
      assert_null(realloc(block, impossible[k]));
      assert_int_equal(errno, ENOMEM);
      assert_true(is_filled(block, 'u', sizes[i]));
    }
    errno = 0;
    assert_null(realloc(block, opaque(SIZE_MAX)));
    assert_int_equal(errno, ENOMEM);
    free(block);
  }
}

/* A refusal must cost nothing: neither memory nor the ability to serve the next request. */
static void test_refusals_leave_nothing_behind(void **state)
{
  (void)state;
  size_t before = mallinfo2().uordblks, held = held_bytes();
  for (size_t i = 0; i < 20000; i++) {
    assert_null(malloc(opaque(SIZE_MAX / 3 * 2)));
    assert_null(aligned_alloc((size_t)1 << (SIZE_BITS * 5 / 8), opaque(SIZE_MAX / 3 * 2)));
  }
  assert_true(mallinfo2().uordblks <= before + 64 * KIB);
  HOLDS_AT_MOST(held + MIB);
  void *block = malloc(10 * MIB);
  assert_non_null(block);
  free(block);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_entry_point),
    cmocka_unit_test(test_every_alignment),
    cmocka_unit_test(test_alignments_beyond_the_address_space),
    cmocka_unit_test(test_memalign_of_an_alignment_that_cannot_be_rounded_up),
    cmocka_unit_test(test_products_that_overflow),
    cmocka_unit_test(test_a_failed_realloc_leaves_the_block),
    cmocka_unit_test(test_refusals_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
