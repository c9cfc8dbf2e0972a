/* SPDX-License-Identifier: MIT
 *
 * Little address space or little data: the program limits itself and starts itself anew, so that the library is under the limit
 * from the beginning; or it does so late, when the library already runs.
 *
 * usage: address_space [late] as|data */
#include "ours.h"
#include "testing.h"

#include <sys/resource.h>

enum { THREADS = 9, ROUNDS = 8 };
static const size_t limit = 200 * MIB;

static void limit_to(int resource, size_t bytes)
{
  struct rlimit now = {bytes, bytes};
  assert_int_equal(setrlimit(resource, &now), 0);
}

/* Nine threads with 8 MiB each: a good third of the limit must be usable. */
static void *allocate_eight_mib(void *seed)
{
  enum { BLOCKS = 4096 };
  uint32_t random = 3 + (uint32_t)(uintptr_t)seed;
  for (size_t round = 0; round < ROUNDS; round++) {
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    if (!blocks)
      return "calloc failed";
    size_t count = 0;
    for (size_t total = 0; total < 8 * MIB && count < BLOCKS; count++) {
      uint32_t number = next_random(&random);
      size_t size = number % 16 == 0 ? number % 60000 : number % 4000;
      blocks[count] = malloc(size);
      if (!blocks[count])
        return "malloc failed although most of the limit was free";
      memset(blocks[count], (int)count, size);
      total += size;
    }
    while (count > 0)
      free(blocks[--count]);
    free(blocks);
  }
  return NULL;
}

/* All of them start at once: one that has taken everything would leave no room for the stack of the next. */
static pthread_barrier_t all_started;
static void *(*work)(void *);

static void *work_together(void *seed)
{
  pthread_barrier_wait(&all_started);
  return work(seed);
}

static void run_small_threads(void *(*body)(void *))
{
  work = body;
  pthread_barrier_init(&all_started, NULL, THREADS);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * KIB);
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], &attributes, work_together, (void *)i), 0);
  const char *failure = NULL;
  for (size_t i = 0; i < THREADS; i++) {
    const char *result = join_thread(threads[i]);
    if (result)
      failure = result;
  }
  if (failure)
    fail_msg("in a thread: %s", failure);
}

static void test_nine_threads_find_room(void **state)
{
  (void)state;
  run_small_threads(allocate_eight_mib);
}

/* All of it at once, until there is no more; then everything must be as good as new. */
static void *exhaust(void *unused)
{
  (void)unused;
  enum { SIZE = 40000 };
  void **first = NULL;
  for (;;) {
    errno = 0;
    void **block = malloc(SIZE);
    if (!block)
      break;
    *block = first;
    first = block;
  }
  const char *failure = errno == ENOMEM ? NULL : "malloc failed without ENOMEM";
  while (first) {
    void **next = *first;
    free(first);
    first = next;
  }
  return (void *)failure;
}

static void test_exhaustion_is_not_the_end(void **state)
{
  (void)state;
  run_small_threads(exhaust);
  run_small_threads(exhaust);
  run_small_threads(allocate_eight_mib);
}

static void test_too_large_a_block_is_refused_and_a_smaller_one_served(void **state)
{
  (void)state;
  for (size_t i = 0; i < 10; i++) { /* four of them that leak are more than the limit */
    errno = 0;
    assert_null(malloc(opaque(limit)));
    assert_int_equal(errno, ENOMEM);
    void *block = &block;
    errno = 0;
    assert_int_equal(posix_memalign(&block, 4096, limit), ENOMEM);
    assert_int_equal(errno, ENOMEM);
    assert_ptr_equal(block, &block);
    block = malloc(50 * MIB);
    assert_non_null(block);
    memset(block, 1, 50 * MIB);
    free(block);
  }
}

/* What has been freed is no block's any more, of whatever size it was, and needs no malloc_trim() to be another's. */
static void fill_and_free_small_blocks(size_t bytes)
{
  enum { SMALL = 100 };
  void **first = malloc(SMALL), **last = first; /* the first to come is the first to go */
  assert_non_null(first);
  for (size_t total = 0; total < bytes; total += SMALL) {
    *last = malloc(SMALL);
    assert_non_null(*last);
    last = *last;
  }
  *last = NULL;
  while (first) {
    void **next = *first;
    free(first);
    first = next;
  }
}

static void test_freed_memory_serves_any_size(void **state)
{
  (void)state;
  fill_and_free_small_blocks(limit * 6 / 10);
  char *block = malloc(opaque(limit * 4 / 5));
  assert_non_null(block);
  free(block);
}

static void test_freed_memory_is_grown_into(void **state)
{
  (void)state;
  char *block = malloc(opaque(100 * MIB)), *other = malloc(opaque(50 * MIB));
  assert_true(block && other);
  memset(block, 7, MIB);
  free(other);
  block = realloc(block, opaque(160 * MIB));
  assert_non_null(block);
  assert_true(is_filled(block, 7, MIB));
  free(block);
}

/* Two of them would not fit beside each other, whatever was given back. */
static void test_freed_small_blocks_are_grown_into(void **state)
{
  (void)state;
  char *block = malloc(opaque(limit * 3 / 10));
  assert_non_null(block);
  memset(block, 7, MIB);
  fill_and_free_small_blocks(limit * 35 / 100);
  block = realloc(block, opaque(limit * 3 / 4));
  assert_non_null(block);
  assert_true(is_filled(block, 7, MIB));
  free(block);
}

/* False: it cannot. */
static bool begin(int argc, char **argv)
{
  bool late = strcmp(argv[1], "late") == 0;
  int resource = strcmp(argv[argc - 1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS;
  if (strcmp(argv[argc - 1], "limited") == 0)
    return true;
  if (late)
    free(malloc(opaque(100000)));
  limit_to(resource, limit);
  if (late)
    return true;
  execl("/proc/self/exe", argv[0], argv[1], "limited", (char *)NULL);
  perror("cannot start anew under the limit");
  return false;
}

int main(int argc, char **argv)
{
  assert_true(argc > 1);
  if (!begin(argc, argv))
    return 1;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_too_large_a_block_is_refused_and_a_smaller_one_served),
    cmocka_unit_test(test_freed_memory_serves_any_size),
    cmocka_unit_test(test_freed_memory_is_grown_into),
    cmocka_unit_test(test_freed_small_blocks_are_grown_into),
    cmocka_unit_test(test_nine_threads_find_room),
    cmocka_unit_test(test_exhaustion_is_not_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
