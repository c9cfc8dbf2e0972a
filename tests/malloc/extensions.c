/* SPDX-License-Identifier: MIT
 *
 * What the C library has beside the family: figures, malloc_trim, mallopt, and names that only it uses. All come from one
 * library. */
#include "ours.h"
#include "testing.h"

#include <dlfcn.h>

static void test_mallinfo_counts_live_bytes(void **state)
{
  (void)state;
  enum { BLOCKS = 1000, SIZE = 10000 };
  static void *blocks[BLOCKS];
  size_t before = mallinfo2().uordblks;
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(SIZE);
    assert_non_null(blocks[i]);
  }
  size_t full = mallinfo2().uordblks;
  assert_true(full >= before + BLOCKS * SIZE);
  assert_int_equal((unsigned)mallinfo().uordblks, (unsigned)full);
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
  assert_true(mallinfo2().uordblks < before + MIB);
}

static void test_mallinfo_counts_large_blocks(void **state)
{
  (void)state;
  size_t before = mallinfo2().uordblks;
  void *block = malloc(64 * MIB);
  assert_non_null(block);
  assert_true(mallinfo2().uordblks >= before + 64 * MIB);
  free(block);
  assert_true(mallinfo2().uordblks < before + MIB);
}

static void test_malloc_trim_gives_memory_back(void **state)
{
  (void)state;
  enum { BLOCKS = 64 * 1024, SIZE = 1000 };
  static void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(SIZE);
    assert_non_null(blocks[i]);
    memset(blocks[i], 1, SIZE);
  }
  size_t full = held_bytes();
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
  errno = UNTOUCHED;
  /* Pages may have gone back already while the blocks were freed; then there is nothing left for trim to give. */
  int gave = malloc_trim(0);
  assert_int_equal(errno, UNTOUCHED);
  if (figures_count)
    assert_true(gave == 1 || held_bytes() < full / 2);
  HOLDS_AT_MOST(full - 48 * MIB);
  assert_int_equal(malloc_trim(0), 0);
}

static void test_mallopt_refuses_what_it_does_not_know(void **state)
{
  (void)state;
  assert_int_equal(mallopt(-12345, 1), 0);
  assert_int_equal(mallopt(12345, 1), 0);
}

/* Programs that tune glibc give up when it refuses: it has to look as if it worked. */
static void test_mallopt_accepts_what_glibc_knows(void **state)
{
  (void)state;
  static const int parameters[] = {
    M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX,
  };
  for (size_t i = 0; i < COUNT_OF(parameters); i++)
    KEEPS_ERRNO(assert_int_equal(mallopt(parameters[i], 8), 1));
}

static void test_malloc_stats_writes_to_standard_error(void **state)
{
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  malloc_stats();
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  char text[4096];
  assert_true(read(ends[0], text, sizeof text) > 10);
  close(ends[0]);
}

static const char *library_of(void *function)
{
  Dl_info info;
  assert_true(dladdr(function, &info) != 0);
  return info.dli_fname;
}

/* Programs that take malloc from one library and free from another are the ones that crash. */
static void test_all_names_come_from_one_library(void **state)
{
  (void)state;
  static const char *const names[] = {
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "mallinfo",
    "malloc_usable_size",
    "mallinfo2",
    "mallopt",
    "malloc_stats",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "__libc_valloc",
    "__libc_pvalloc",
    "__libc_memalign",
  };
  const char *library = library_of(dlsym(RTLD_DEFAULT, "malloc"));
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    void *function = dlsym(RTLD_DEFAULT, names[i]);
    assert_non_null(function);
    assert_string_equal(library_of(function), library);
  }
}

typedef void *allocate_fn(size_t size);

static void test_libc_aliases_serve_the_same_blocks(void **state)
{
  (void)state;
  allocate_fn *libc_malloc = (allocate_fn *)dlsym(RTLD_DEFAULT, "__libc_malloc");
  void (*libc_free)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "__libc_free");
  void *(*libc_memalign)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "__libc_memalign");
  void *(*libc_realloc)(void *, size_t) = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "__libc_realloc");
  void *(*libc_calloc)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "__libc_calloc");
  free(libc_malloc(100));
  free(libc_memalign(64, 100));
  free(libc_calloc(10, 10));
  libc_free(libc_realloc(malloc(50), 5000));
  libc_free(aligned_alloc(4096, 100));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_mallinfo_counts_live_bytes),
    cmocka_unit_test(test_mallinfo_counts_large_blocks),
    cmocka_unit_test(test_malloc_trim_gives_memory_back),
    cmocka_unit_test(test_mallopt_accepts_what_glibc_knows),
    cmocka_unit_test(test_mallopt_refuses_what_it_does_not_know),
    cmocka_unit_test(test_malloc_stats_writes_to_standard_error),
    cmocka_unit_test(test_all_names_come_from_one_library),
    cmocka_unit_test(test_libc_aliases_serve_the_same_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
