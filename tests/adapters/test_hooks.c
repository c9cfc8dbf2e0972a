/* SPDX-License-Identifier: MIT
 * The functions that POOL_HOOKS makes, for a library that is not there: glibc's answers to sizes of 0, blocks that stay in
 * their heap, forks, and what a program ends with whose heap came too late or went too early. */
#include "trials.h"
#include <sys/wait.h>
#include <tidepool/hooks.h>
#include <unistd.h>

POOL_HOOKS(frob)
POOL_HOOKS(other)

static void answers_as_glibc(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_frob_heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_CHECKED});
  void *blocks[] = {pool_frob_malloc(0),    pool_frob_malloc(0),        pool_frob_calloc(0, 8),
                    pool_frob_calloc(8, 0), pool_frob_realloc(NULL, 0), pool_frob_malloc(1)};
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    assert_ptr_equal(pool_heap_of(blocks[i]), heap);
    assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
    for (size_t j = 0; j < i; j++)
      assert_ptr_not_equal(blocks[i], blocks[j]);
  }
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    assert_null(pool_frob_realloc(blocks[i], 0));
  assert_int_equal(stats_of(heap).live_blocks, 0);
  errno = UNTOUCHED;
  pool_frob_free(NULL);
  unsigned char *zeros = pool_frob_calloc(3, 100);
  assert_true(all_zero(zeros, 300));
  zeros = pool_frob_realloc(zeros, 100000);
  assert_true(all_zero(zeros, 300));
  pool_frob_free(zeros);
  char *copy = pool_frob_strdup("text"), *empty = pool_frob_strdup("");
  assert_string_equal(copy, "text");
  assert_string_equal(empty, "");
  pool_frob_free(copy);
  pool_frob_free(empty);
  assert_int_equal(errno, UNTOUCHED);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  pool_heap_destroy(heap);
}

static void refuses_with_enomem(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_frob_heap = heap_with_budget(64 << 10);
  char *block = pool_frob_strdup("text");
  for (unsigned i = 0; i < 5; i++) {
    errno = UNTOUCHED;
    void *none = i == 0   ? pool_frob_malloc(opaque(SIZE_MAX))
                 : i == 1 ? pool_frob_calloc(opaque(SIZE_MAX / 2), 3)
                 : i == 2 ? pool_frob_realloc(block, opaque(1 << 20))
                 : i == 3 ? pool_frob_malloc(1 << 20)
                          : pool_frob_calloc(1 << 10, 1 << 10);
    assert_null(none);
    assert_int_equal(errno, ENOMEM);
    assert_string_equal(block, "text");
  }
  pool_frob_heap = NULL;
  assert_null(pool_frob_malloc(1));
  assert_null(pool_frob_calloc(1, 1));
  assert_null(pool_frob_realloc(NULL, 1));
  assert_null(pool_frob_strdup(""));
  pool_frob_free(block);
  pool_heap_destroy(heap);
}

/* Of two libraries, and of one whose heap is replaced; whoever frees. */
static void blocks_stay_in_their_heap(void **state)
{
  (void)state;
  pool_heap_t *heaps[] = {heap_with((pool_heap_options_t){0}), heap_with_budget(1 << 20), heap_with_budget(64 << 20)};
  void *blocks[COUNT_OF(heaps)];
  for (size_t i = 0; i < COUNT_OF(heaps); i++) {
    pool_frob_heap = heaps[i];
    blocks[i] = pool_frob_malloc(100);
  }
  pool_other_heap = heaps[0];
  for (size_t i = 0; i < COUNT_OF(heaps); i++) {
    blocks[i] = pool_other_realloc(blocks[i], 10000);
    assert_ptr_equal(pool_heap_of(blocks[i]), heaps[i]);
    pool_other_free(blocks[i]);
    assert_int_equal(stats_of(heaps[i]).live_blocks, 0);
    pool_heap_destroy(heaps[i]);
  }
  assert_true(check_everything());
}

static void use_until_it_stops(size_t index, void *stop)
{
  for (dice_t dice = {index}; !*(atomic_bool *)stop;) {
    char *block = pool_frob_strdup("of a thread");
    must((block = pool_frob_realloc(block, 12 + dice_below(&dice, 5000))) != NULL && !strcmp(block, "of a thread"));
    pool_frob_free(block);
  }
}

static void fork_meanwhile(size_t index, void *stop)
{
  if (index > 0) {
    use_until_it_stops(index, stop);
    return;
  }
  char *block = pool_frob_strdup("of the parent");
  for (unsigned i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      atomic_bool at_once = true;
      must(!strcmp(block, "of the parent"));
      pool_frob_free(block);
      if (!SANITIZED) /* whose own locks a fork may leave closed */
        run_threads(2, use_until_it_stops, &at_once);
      must(pool_frob_malloc(100000));
      _exit(0);
    }
    int status = -1;
    must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  pool_frob_free(block);
  *(atomic_bool *)stop = true;
}

static void threads_and_forks(void **state)
{
  (void)state;
  atomic_bool stop = false;
  pool_heap_t *heap = pool_frob_heap = heap_with_budget(8 << 20);
  run_threads(4, fork_meanwhile, &stop);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

static void free_one_of_libc(void *unused)
{
  (void)unused;
  pool_frob_free(strdup("from before"));
}

static void resize_one_of_libc(void *unused)
{
  (void)unused;
  must(pool_frob_realloc(strdup("from before"), 100));
}

static void allocate_from_what_is_gone(void *unused)
{
  (void)unused;
  pool_frob_heap = heap_with((pool_heap_options_t){0});
  pool_heap_destroy(pool_frob_heap);
  must(pool_frob_malloc(1));
}

static void free_to_what_is_gone(void *unused)
{
  (void)unused;
  pool_frob_heap = heap_with_budget(1 << 20);
  void *block = pool_frob_malloc(100);
  pool_heap_destroy(pool_frob_heap);
  pool_frob_free(block);
}

static void too_late_or_gone(void **state)
{
  (void)state;
  aborts_with(free_one_of_libc, NULL, "not a block of any heap");
  aborts_with(resize_one_of_libc, NULL, "not a block of any heap");
  aborts_with(allocate_from_what_is_gone, NULL, "tidepool: pool_heap_alloc(");
  aborts_with(free_to_what_is_gone, NULL, "not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(answers_as_glibc),  cmocka_unit_test(refuses_with_enomem), cmocka_unit_test(blocks_stay_in_their_heap),
    cmocka_unit_test(threads_and_forks), cmocka_unit_test(too_late_or_gone),
  };
  return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
