/* SPDX-License-Identifier: MIT
 *
 * What each function of the allocation family promises when it succeeds. */
#include "ours.h"
#include "testing.h"

void free_sized(void *block, size_t size) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

static const size_t sizes[] = {
  0,
  1,
  7,
  8,
  9,
  15,
  16,
  17,
  24,
  31,
  32,
  33,
  48,
  63,
  64,
  65,
  100,
  127,
  128,
  129,
  200,
  255,
  256,
  257,
  500,
  512,
  513,
  1000,
  1023,
  1024,
  1025,
  1500,
  2047,
  2048,
  2049,
  3000,
  4095,
  4096,
  4097,
  10000,
  16384,
  20000,
  32768,
  32769,
  100000,
  1 << 20,
  (1 << 20) + 1,
  5000000,
};

static void test_malloc_zero_is_a_unique_block(void **state)
{
  (void)state;
  void *blocks[1000];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    blocks[i] = malloc(opaque(0));
    assert_non_null(blocks[i]);
    for (size_t k = 0; k < i; k++)
      assert_ptr_not_equal(blocks[i], blocks[k]);
  }
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    free(blocks[i]);
}

static void test_blocks_are_aligned(void **state)
{
  (void)state;
  for (size_t size = 0; size < 5000; size++) {
    void *blocks[3];
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
      blocks[i] = malloc(size);
      assert_non_null(blocks[i]);
      assert_true(is_aligned(blocks[i], size <= 8 ? 8 : 16));
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
      free(blocks[i]);
  }
}

static void test_all_usable_bytes_are_usable(void **state)
{
  (void)state;
  enum { COPIES = 4 };
  unsigned char *blocks[COUNT_OF(sizes)][COPIES];
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    for (size_t k = 0; k < COPIES; k++) {
      blocks[i][k] = malloc(sizes[i]);
      assert_non_null(blocks[i][k]);
      assert_true(malloc_usable_size(blocks[i][k]) >= sizes[i]);
      memset(blocks[i][k], (int)(i * COPIES + k), malloc_usable_size(blocks[i][k]));
    }
  }
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    for (size_t k = 0; k < COPIES; k++) {
      assert_true(is_filled(blocks[i][k], (int)(i * COPIES + k), malloc_usable_size(blocks[i][k])));
      free(blocks[i][k]);
    }
  }
}

static void test_usable_size_of_null_is_zero(void **state)
{
  (void)state;
  assert_int_equal(malloc_usable_size(NULL), 0);
}

static void test_free_of_null_is_nothing(void **state)
{
  (void)state;
  KEEPS_ERRNO(free(NULL));
}

/* Leaves `count` blocks of every size class up to `size` behind, all bytes dirty. */
static void dirty(size_t size, size_t count)
{
  void *blocks[64];
  assert_true(count <= COUNT_OF(blocks));
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(size);
    assert_non_null(blocks[i]);
    memset(blocks[i], 0xa5, malloc_usable_size(blocks[i]));
  }
  for (size_t i = 0; i < count; i++)
    free(blocks[i]);
}

static void test_calloc_zeroes_all_usable_bytes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    size_t count = sizes[i] > MIB ? 3 : 40;
    dirty(sizes[i], count);
    void *blocks[40];
    for (size_t k = 0; k < count; k++) {
      blocks[k] = calloc(1, sizes[i]);
      assert_non_null(blocks[k]);
      assert_true(is_filled(blocks[k], 0, malloc_usable_size(blocks[k])));
    }
    for (size_t k = 0; k < count; k++)
      free(blocks[k]);
  }
}

static void test_calloc_multiplies(void **state)
{
  (void)state;
  void *block = calloc(opaque(33), 31);
  assert_true(malloc_usable_size(block) >= 33 * 31);
  free(block);
  void *nothing[] = {calloc(opaque(0), 8), calloc(8, opaque(0)), calloc(opaque(0), 0)};
  for (size_t i = 0; i < COUNT_OF(nothing); i++) {
    assert_non_null(nothing[i]);
    free(nothing[i]);
  }
}

static void test_realloc_of_null_allocates(void **state)
{
  (void)state;
  void *block = realloc(NULL, opaque(100));
  assert_true(malloc_usable_size(block) >= 100);
  memset(block, 1, 100);
  free(block);
  void *empty = realloc(NULL, opaque(0));
  assert_non_null(empty);
  free(empty);
}

static void test_realloc_to_zero_frees(void **state)
{
  (void)state;
  size_t before = mallinfo2().uordblks;
  for (size_t i = 0; i < 2000; i++) {
    void *block = malloc(100000);
    assert_non_null(block);
    errno = UNTOUCHED;
    assert_null(realloc(block, opaque(0)));
    assert_int_equal(errno, UNTOUCHED);
  }
  assert_true(mallinfo2().uordblks < before + MIB);
}

static void test_realloc_keeps_the_contents(void **state)
{
  (void)state;
  for (size_t from = 0; from < COUNT_OF(sizes); from++) {
    for (size_t to = 0; to < COUNT_OF(sizes); to++) {
      if (sizes[to] == 0 || sizes[from] + sizes[to] > 2 * MIB)
        continue;
      unsigned char *block = malloc(sizes[from]);
      assert_non_null(block);
      for (size_t i = 0; i < sizes[from]; i++)
        block[i] = (unsigned char)(i * 7 + from);
      block = realloc(block, sizes[to]);
      assert_non_null(block);
      assert_true(malloc_usable_size(block) >= sizes[to]);
      size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
      for (size_t i = 0; i < kept; i++)
        assert_int_equal(block[i], (unsigned char)(i * 7 + from));
      free(block);
    }
  }
}

static void test_realloc_grows_a_buffer_step_by_step(void **state)
{
  (void)state;
  unsigned char *block = NULL;
  size_t filled = 0;
  for (size_t size = 1; size < 20 * MIB; size += size / 3 + 1) {
    block = realloc(block, size);
    assert_non_null(block);
    memset(block + filled, 0x3c, size - filled);
    filled = size;
    assert_int_equal(block[0], 0x3c);
    assert_int_equal(block[filled / 2], 0x3c);
  }
  assert_true(is_filled(block, 0x3c, filled));
  free(block);
}

static void test_realloc_within_the_block_does_not_move(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    char *block = malloc(sizes[i]);
    assert_non_null(block);
    uintptr_t address = (uintptr_t)block;
    size_t usable = malloc_usable_size(block);
    if (usable > 0) {
      block = realloc(block, usable);
      assert_int_equal((uintptr_t)block, address);
    }
    free(block);
  }
}

static void test_realloc_keeps_an_aligned_block_usable(void **state)
{
  (void)state;
  for (size_t alignment = 16; alignment <= MIB; alignment *= 2) {
    unsigned char *block = aligned_alloc(alignment, 1000);
    assert_non_null(block);
    memset(block, 0x77, 1000);
    block = realloc(block, 300000);
    assert_non_null(block);
    assert_true(is_filled(block, 0x77, 1000));
    free(block);
  }
}

static void test_reallocarray(void **state)
{
  (void)state;
  char *block = reallocarray(NULL, opaque(10), 10);
  assert_true(malloc_usable_size(block) >= 100);
  memset(block, 'x', 100);
  block = reallocarray(block, opaque(100), 100);
  assert_true(malloc_usable_size(block) >= 10000);
  assert_true(is_filled(block, 'x', 100));
  free(block);
}

static void check_aligned(void *block, size_t alignment, size_t size)
{
  assert_non_null(block);
  assert_true(is_aligned(block, alignment));
  assert_true(malloc_usable_size(block) >= size);
  memset(block, 0x11, malloc_usable_size(block));
}

/* Every power of two, with sizes that are no multiple of it; several live at once so that they cannot overlap unseen.
 */
static void test_aligned_alloc(void **state)
{
  (void)state;
  for (size_t alignment = 1; alignment <= 16 * MIB; alignment *= 2) {
    for (size_t i = 0; i<COUNT_OF(sizes); i += alignment> 4 * KIB ? 5 : 1) {
      void *blocks[3];
      for (size_t k = 0; k < COUNT_OF(blocks); k++) {
        blocks[k] = aligned_alloc(alignment, sizes[i]);
        check_aligned(blocks[k], alignment, sizes[i]);
        memset(blocks[k], (int)k, malloc_usable_size(blocks[k]));
      }
      for (size_t k = 0; k < COUNT_OF(blocks); k++) {
        assert_true(is_filled(blocks[k], (int)k, malloc_usable_size(blocks[k])));
        free(blocks[k]);
      }
    }
  }
}

static void test_aligned_alloc_rejects_what_is_no_power_of_two(void **state)
{
  (void)state;
  static const size_t alignments[] = {0, 3, 5, 6, 7, 12, 24, 48, 100, 4095, 4097, SIZE_MAX, SIZE_MAX / 2};
  for (size_t i = 0; i < COUNT_OF(alignments); i++) {
    errno = 0;
    assert_null(aligned_alloc(alignments[i], opaque(64)));
    assert_int_equal(errno, EINVAL);
  }
}

static void test_posix_memalign(void **state)
{
  (void)state;
  for (size_t alignment = sizeof(void *); alignment <= 8 * MIB; alignment *= 2) {
    for (size_t i = 0; i < COUNT_OF(sizes); i += 3) {
      void *block = NULL;
      KEEPS_ERRNO(assert_int_equal(posix_memalign(&block, alignment, sizes[i]), 0));
      check_aligned(block, alignment, sizes[i]);
      free(block);
    }
  }
}

static void test_posix_memalign_rejects_bad_alignments(void **state)
{
  (void)state;
  static const size_t alignments[] = {0, 1, 2, sizeof(void *) / 2, 3, 9, 12, 24, 40, 4095, SIZE_MAX};
  for (size_t i = 0; i < COUNT_OF(alignments); i++) {
    void *block = &block;
    assert_int_equal(posix_memalign(&block, alignments[i], 64), EINVAL);
    assert_ptr_equal(block, &block);
  }
}

static size_t round_up_to_power_of_two(size_t value)
{
  size_t power = 1;
  while (power < value)
    power *= 2;
  return power;
}

static void test_memalign_takes_any_alignment(void **state)
{
  (void)state;
  for (size_t alignment = 0; alignment <= 256; alignment++) {
    for (size_t i = 0; i < COUNT_OF(sizes); i += 7) {
      void *block = memalign(alignment, sizes[i]);
      check_aligned(block, round_up_to_power_of_two(alignment), sizes[i]);
      free(block);
    }
  }
  void *empty = memalign(8, opaque(0));
  assert_non_null(empty);
  free(empty);
}

static void test_valloc_and_pvalloc(void **state)
{
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t requests[] = {0, 1, 100, page - 1, page, page + 1, 3 * page + 5, MIB};
  for (size_t i = 0; i < COUNT_OF(requests); i++) {
    void *block = valloc(requests[i]);
    check_aligned(block, page, requests[i]);
    free(block);
    size_t whole_pages = requests[i] == 0 ? page : (requests[i] + page - 1) / page * page;
    block = pvalloc(requests[i]);
    check_aligned(block, page, whole_pages);
    free(block);
  }
}

static void test_free_sized(void **state)
{
  (void)state;
  assert_non_null(free_sized);
  assert_non_null(free_aligned_sized);
  KEEPS_ERRNO(free_sized(NULL, 0));
  KEEPS_ERRNO(free_aligned_sized(NULL, 16, 0));
  size_t before = mallinfo2().uordblks;
  for (size_t round = 0; round < 50; round++) {
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
      void *block = malloc(sizes[i]);
      assert_non_null(block);
      KEEPS_ERRNO(free_sized(block, sizes[i]));
      block = calloc(1, sizes[i]);
      assert_non_null(block);
      KEEPS_ERRNO(free_sized(block, sizes[i]));
      block = aligned_alloc(256, sizes[i]);
      assert_non_null(block);
      KEEPS_ERRNO(free_aligned_sized(block, 256, sizes[i]));
    }
  }
  assert_true(mallinfo2().uordblks < before + MIB);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_malloc_zero_is_a_unique_block),
    cmocka_unit_test(test_blocks_are_aligned),
    cmocka_unit_test(test_all_usable_bytes_are_usable),
    cmocka_unit_test(test_usable_size_of_null_is_zero),
    cmocka_unit_test(test_free_of_null_is_nothing),
    cmocka_unit_test(test_calloc_zeroes_all_usable_bytes),
    cmocka_unit_test(test_calloc_multiplies),
    cmocka_unit_test(test_realloc_of_null_allocates),
    cmocka_unit_test(test_realloc_to_zero_frees),
    cmocka_unit_test(test_realloc_keeps_the_contents),
    cmocka_unit_test(test_realloc_grows_a_buffer_step_by_step),
    cmocka_unit_test(test_realloc_within_the_block_does_not_move),
    cmocka_unit_test(test_realloc_keeps_an_aligned_block_usable),
    cmocka_unit_test(test_reallocarray),
    cmocka_unit_test(test_aligned_alloc),
    cmocka_unit_test(test_aligned_alloc_rejects_what_is_no_power_of_two),
    cmocka_unit_test(test_posix_memalign),
    cmocka_unit_test(test_posix_memalign_rejects_bad_alignments),
    cmocka_unit_test(test_memalign_takes_any_alignment),
    cmocka_unit_test(test_valloc_and_pvalloc),
    cmocka_unit_test(test_free_sized),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
