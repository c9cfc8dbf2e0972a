/* SPDX-License-Identifier: MIT
 * What tidepool/pool.h promises. */
#include "unit.h"
#include <errno.h>
#include <pthread.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <unistd.h>

enum { ERRNO_BEFORE = 77 };

/* Sizes around every border there is. */
static size_t sizes[256], size_count;

static int find_sizes(void **state)
{
  (void)state;
  static const size_t borders[] = {0, 8, 16, 256, SIZE_LINEAR, 1024, 4096, SIZE_CACHED, UNIT, SIZE_MAX_CLASS, MIB, 3 * MIB};
  for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
    for (size_t j = 0; j < 5; j++)
      if (borders[i] + j >= 2)
        sizes[size_count++] = borders[i] + j - 2;
  return 0;
}

#define kept_errno() \
  do { \
    assert_int_equal(errno, ERRNO_BEFORE); \
    errno = ERRNO_BEFORE; \
  } while (0)

#define refused(request) \
  do { \
    errno = ERRNO_BEFORE; \
    assert_null(request); \
    assert_int_equal(errno, ENOMEM); \
  } while (0)

static void sizes_and_alignment(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  for (size_t i = 0; i < size_count; i++) {
    void *block = pool_alloc(sizes[i]);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % BLOCK_ALIGNMENT, 0);
    size_t usable = pool_usable_size(block);
    assert_true(usable >= sizes[i]);
    assert_int_equal(usable, pool_good_size(sizes[i]));
    memset(block, 0xa5, usable);
    pool_free(block);
    kept_errno();
  }
  assert_true(check_everything());
}

static void zero_bytes_are_a_block(void **state)
{
  (void)state;
  void *blocks[200];
  for (size_t i = 0; i < 200; i++) {
    blocks[i] = pool_alloc(0);
    assert_non_null(blocks[i]);
    for (size_t j = 0; j < i; j++)
      assert_ptr_not_equal(blocks[i], blocks[j]);
    memset(blocks[i], (int)i, pool_usable_size(blocks[i]));
  }
  pool_free_batch(blocks, 200);
}

static void zeroed(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  for (unsigned turn = 0; turn < 3; turn++)
    for (size_t i = 0; i < size_count; i++) {
      void *block = turn == 1 ? pool_calloc(1, sizes[i]) : turn ? pool_calloc(sizes[i], 1) : pool_zalloc(sizes[i]);
      assert_non_null(block);
      size_t usable = pool_usable_size(block);
      assert_true(usable >= sizes[i] && all_zero(block, usable));
      memset(block, 0xa5, usable);
      pool_free(block);
      kept_errno();
    }
}

static void aligned(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2)
    for (size_t i = 0; i < size_count; i++) {
      void *block = pool_aligned_alloc(alignment, sizes[i]);
      assert_non_null(block);
      assert_int_equal((uintptr_t)block % max_size(alignment, 16), 0);
      assert_true(pool_usable_size(block) >= sizes[i]);
      memset(block, 0xa5, sizes[i]);
      pool_free(block);
      kept_errno();
    }
  for (size_t shift = 23; shift <= 34 && shift < ADDRESS_BITS - 1; shift += 3) {
    char *block = pool_aligned_alloc(opaque((size_t)1 << shift), 100);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % ((size_t)1 << shift), 0);
    block[99] = 1;
    pool_free(block);
  }
  assert_true(check_everything());
}

static void bad_alignment(void **state)
{
  (void)state;
  static const size_t bad[] = {0, 3, 24, 48, SIZE_MAX, ((size_t)1 << (ADDRESS_BITS - 24)) + 16};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    errno = ERRNO_BEFORE;
    assert_null(pool_aligned_alloc(opaque(bad[i]), 100));
    assert_int_equal(errno, EINVAL);
  }
}

/* A program gets addresses of up to 47 bits on x86-64, 48 on arm64, and at most 53 on s390x. */
#if defined __x86_64__
enum { FIRST_SHIFT = 47 };
#else
enum { FIRST_SHIFT = ADDRESS_BITS == 64 ? 53 : 31 };
#endif

static void more_than_there_can_be(void **state)
{
  (void)state;
  void *block = pool_alloc(100);
  memset(block, 7, 100);
  for (size_t k = 0; k < 1 << 15; k += 1000) {
    size_t huge = opaque(SIZE_MAX - k), half = opaque((size_t)PTRDIFF_MAX + 1 + k);
    refused(pool_alloc(huge));
    refused(pool_zalloc(half));
    refused(pool_calloc(half, 2));
    refused(pool_calloc(2, half));
    refused(pool_calloc(huge, huge));
    refused(pool_realloc(block, huge));
    refused(pool_realloc(block, half));
    refused(pool_realloc(NULL, half));
    for (size_t alignment = 1; alignment; alignment *= 2) {
      refused(pool_aligned_alloc(opaque(alignment), huge));
      refused(pool_aligned_alloc(opaque(alignment), half));
    }
    assert_false(pool_resize_in_place(block, huge));
  }
  for (size_t shift = FIRST_SHIFT; shift < ADDRESS_BITS; shift++) {
    refused(pool_aligned_alloc(opaque((size_t)1 << shift), 100));
    refused(pool_alloc(opaque((size_t)1 << shift)));
  }
  void *got[4];
  errno = ERRNO_BEFORE;
  assert_int_equal(pool_alloc_batch(opaque(SIZE_MAX / 2), got, 4), 0);
  assert_int_equal(errno, ENOMEM);
  for (size_t i = 0; i < 100; i++)
    assert_int_equal(((char *)block)[i], 7);
  pool_free(block);
}

static void reallocation_keeps_contents(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  for (size_t i = 0; i < size_count; i++)
    for (size_t j = 0; j < size_count; j++) {
      void *block = pool_alloc(sizes[i]);
      pattern_write(block, sizes[i], i * 1000 + j);
      block = pool_realloc(block, sizes[j] + 1);
      assert_non_null(block);
      assert_true(pool_usable_size(block) >= sizes[j] + 1);
      assert_true(pattern_kept(block, min_size(sizes[i], sizes[j] + 1), sizes[i], i * 1000 + j));
      memset(block, 1, sizes[j] + 1);
      pool_free(block);
    }
  kept_errno();
  assert_true(check_everything());
}

static void reallocation_in_place(void **state)
{
  (void)state;
  for (size_t i = 0; i < size_count; i++) {
    void *block = pool_alloc(sizes[i]);
    size_t usable = pool_usable_size(block);
    assert_ptr_equal(pool_realloc(block, usable), block);
    assert_ptr_equal(pool_realloc(block, usable / 2 + 1), block);
    for (size_t size = 1; usable == BLOCK_ALIGNMENT && size <= usable; size++) /* no class is smaller */
      assert_ptr_equal(pool_realloc(block, size), block);
    pool_free(block);
  }
}

/* Larger than an arena gives. */
static void huge_blocks_in_place(void **state)
{
  (void)state;
  size_t size = 300 * MIB;
  char *block = pool_alloc(size);
  assert_non_null(block);
  block[0] = block[size - 1] = 3;
  assert_ptr_equal(pool_realloc(block, pool_usable_size(block)), block);
  assert_ptr_equal(pool_realloc(block, size - MIB), block);
  char *half = pool_realloc(block, size / 2 + MIB);
  assert_ptr_equal(half, block);
  assert_int_equal(half[0], 3);
  pool_free(half);
  assert_true(check_everything());
}

static void reallocation_at_the_ends(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  void *block = pool_realloc(NULL, 100);
  assert_non_null(block);
  assert_null(pool_realloc(block, 0));
  kept_errno();
  assert_false(pool_in_use(block));
  block = pool_realloc(NULL, 0);
  assert_non_null(block);
  pool_free(block);
  kept_errno();
}

static void resizing_in_place(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  for (size_t i = 0; i < size_count; i++)
    for (size_t j = 0; j < size_count; j++) {
      void *block = pool_alloc(sizes[i]);
      pattern_write(block, sizes[i], 9);
      size_t usable = pool_usable_size(block);
      bool done = pool_resize_in_place(block, sizes[j]);
      assert_true(done || sizes[j] > usable || sizes[j] < usable);
      assert_true(!done || pool_usable_size(block) >= sizes[j]);
      assert_true(done || pool_usable_size(block) == usable);
      assert_true(pattern_kept(block, min_size(sizes[i], done ? sizes[j] : sizes[i]), sizes[i], 9));
      pool_free(block);
    }
  assert_false(pool_resize_in_place(NULL, 10));
  kept_errno();
}

static void batches(void **state)
{
  (void)state;
  static void *blocks[3000];
  errno = ERRNO_BEFORE;
  for (size_t i = 0; i < size_count; i += 3) {
    size_t count = sizes[i] > UNIT ? 20 : 3000;
    assert_int_equal(pool_alloc_batch(sizes[i], blocks, count), count);
    for (size_t j = 0; j < count; j++)
      pattern_write(blocks[j], sizes[i], j);
    for (size_t j = 0; j < count; j++)
      assert_true(pattern_holds(blocks[j], sizes[i], j));
    blocks[count / 2] = (pool_free(blocks[count / 2]), NULL);
    pool_free_batch(blocks, count);
    kept_errno();
  }
  assert_int_equal(pool_alloc_batch(10, blocks, 0), 0);
  pool_free_batch(blocks, 0);
  kept_errno();
  assert_true(check_everything());
}

static void null_is_fine(void **state)
{
  (void)state;
  void *nothing[3] = {0};
  errno = ERRNO_BEFORE;
  pool_free(NULL);
  pool_free_sized(NULL, 10);
  pool_free_batch(nothing, 3);
  assert_int_equal(pool_usable_size(NULL), 0);
  assert_false(pool_in_use(NULL));
  assert_null(pool_block_start(NULL, NULL));
  assert_null(pool_heap_of(NULL));
  kept_errno();
}

static void sizes_that_are_good(void **state)
{
  (void)state;
  for (size_t i = 0; i < size_count; i++) {
    assert_true(pool_good_size(sizes[i]) >= sizes[i]);
    assert_int_equal(pool_good_size(pool_good_size(sizes[i])), pool_good_size(sizes[i]));
  }
  assert_int_equal(pool_good_size(SIZE_MAX), SIZE_MAX);
}

/* ---- questions ---- */

static void ask_all_around(char *block, size_t usable)
{
  size_t size = 0, step = usable > 10000 ? usable / 1000 : 1;
  for (size_t i = 0; i < usable; i += step) {
    assert_true(pool_in_use(block + i));
    assert_ptr_equal(pool_block_start(block + i, &size), block);
    assert_int_equal(size, usable);
    assert_ptr_equal(pool_heap_of(block + i), pool_heap_default());
  }
  assert_true(pool_in_use(block + usable - 1));
  assert_ptr_not_equal(pool_block_start(block + usable, NULL), block);
}

static void questions_about_live_blocks(void **state)
{
  (void)state;
  errno = ERRNO_BEFORE;
  for (size_t i = 0; i < size_count; i += 2) {
    char *block = pool_alloc(sizes[i]);
    ask_all_around(block, pool_usable_size(block));
    pool_free(block);
    assert_false(pool_in_use(block));
    assert_null(pool_block_start(block, NULL));
  }
  kept_errno();
}

static int in_data;

static void questions_about_anything(void **state)
{
  (void)state;
  int on_stack;
  void *of_libc = malloc(10);
  const void *strange[] = {&on_stack,
                           &in_data,
                           of_libc,
                           (void *)(uintptr_t)&find_sizes,
                           (void *)1,
                           (void *)UINTPTR_MAX,
                           (void *)((uintptr_t)1 << (ADDRESS_BITS - 17)),
                           (void *)((uintptr_t)1 << (ADDRESS_BITS - 1))};
  errno = ERRNO_BEFORE;
  for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
    assert_false(pool_in_use(strange[i]));
    assert_null(pool_block_start(strange[i], NULL));
    assert_null(pool_heap_of(strange[i]));
  }
  dice_t dice = {3};
  for (size_t i = 0; i < 3000; i++)
    pool_in_use((void *)(uintptr_t)(dice_roll(&dice) >> dice_below(&dice, 64)));
  kept_errno();
  free(of_libc);
}

/* Blocks in another thread's magazine, in the depot, in the bitmap: all not in use. */
static void *free_all(void *argument)
{
  pool_free_batch(argument, 500);
  return NULL;
}

static void freed_blocks_are_not_in_use(void **state)
{
  (void)state;
  void *blocks[500];
  pthread_t thread;
  assert_int_equal(pool_alloc_batch(64, blocks, 500), 500);
  for (size_t i = 0; i < 500; i++)
    assert_true(pool_in_use(blocks[i]));
  assert_int_equal(pthread_create(&thread, NULL, free_all, blocks), 0);
  pthread_join(thread, NULL);
  for (size_t i = 0; i < 500; i++)
    assert_false(pool_in_use((char *)blocks[i] + 63));
  assert_true(check_everything());
}

static void trimming(void **state)
{
  (void)state;
  static void *blocks[4000];
  assert_int_equal(pool_alloc_batch(4096, blocks, 4000), 4000);
  for (size_t i = 0; i < 4000; i++)
    memset(blocks[i], 1, 4096);
  pool_free_batch(blocks, 4000);
  errno = ERRNO_BEFORE;
  pool_trim(0);
  assert_int_equal(pool_trim(0), 0);
  kept_errno();
  assert_int_equal(space_of_process.dirty_units, 0);
  assert_true(check_everything());
}

static void names(void **state)
{
  (void)state;
  assert_non_null(pool_heap_default());
  assert_string_equal(pool_heap_name(pool_heap_default()), "default");
  assert_null(pool_heap_name(NULL));
  assert_false(pool_option_set("checked", "1")); /* too late */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sizes_and_alignment),
    cmocka_unit_test(zero_bytes_are_a_block),
    cmocka_unit_test(zeroed),
    cmocka_unit_test(aligned),
    cmocka_unit_test(bad_alignment),
    cmocka_unit_test(more_than_there_can_be),
    cmocka_unit_test(reallocation_keeps_contents),
    cmocka_unit_test(reallocation_in_place),
    cmocka_unit_test(huge_blocks_in_place),
    cmocka_unit_test(reallocation_at_the_ends),
    cmocka_unit_test(resizing_in_place),
    cmocka_unit_test(batches),
    cmocka_unit_test(null_is_fine),
    cmocka_unit_test(sizes_that_are_good),
    cmocka_unit_test(questions_about_live_blocks),
    cmocka_unit_test(questions_about_anything),
    cmocka_unit_test(freed_blocks_are_not_in_use),
    cmocka_unit_test(trimming),
    cmocka_unit_test(names),
  };
  return cmocka_run_group_tests_name("pool.h", tests, find_sizes, NULL);
}
