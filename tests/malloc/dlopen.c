/* SPDX-License-Identifier: MIT
 *
 * The library itself as something that a program loads late: its thread-local data must fit into what the loader keeps
 * spare for such libraries, and threads that used it may outlive the handle.
 *
 * usage: dlopen libtidepool.so greedy.so */
#include "testing.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *library_file, *greedy_file;

static struct {
  void *(*alloc)(size_t size);
  void (*free)(void *block);
} library;

static void *load(void)
{
  void *handle = dlopen(library_file, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    fail_msg("%s", dlerror());
  library.alloc = (void *(*)(size_t))dlsym(handle, "tidepool_alloc");
  library.free = (void (*)(void *))dlsym(handle, "tidepool_free");
  assert_non_null(library.alloc);
  assert_non_null(library.free);
  return handle;
}

static const char *use_library(void)
{
  void *blocks[300];
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    blocks[i] = library.alloc(i * 100);
    if (!blocks[i])
      return "pool_alloc failed";
    memset(blocks[i], (int)i, i * 100);
  }
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    if (!is_filled(blocks[i], (int)i, i * 100))
      return "a block changed";
    library.free(blocks[i]);
  }
  return NULL;
}

static pthread_barrier_t loaded, closed;

/* Older than the library, and still there when its last handle is closed. */
static void *outlive_the_handle(void *unused)
{
  (void)unused;
  pthread_barrier_wait(&loaded);
  const char *failure = use_library();
  pthread_barrier_wait(&closed);
  pthread_barrier_wait(&closed);
  return (void *)failure;
}

static void test_threads_older_than_the_library_use_and_outlive_it(void **state)
{
  (void)state;
  enum { THREADS = 4 };
  for (size_t round = 0; round < 20; round++) {
    pthread_barrier_init(&loaded, NULL, THREADS + 1);
    pthread_barrier_init(&closed, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
      start_thread(&threads[i], outlive_the_handle, NULL);
    void *handle = load();
    assert_null(use_library());
    pthread_barrier_wait(&loaded);
    pthread_barrier_wait(&closed);
    assert_int_equal(dlclose(handle), 0);
    pthread_barrier_wait(&closed);
    for (size_t i = 0; i < THREADS; i++)
      assert_null(join_thread(threads[i]));
    pthread_barrier_destroy(&loaded);
    pthread_barrier_destroy(&closed);
  }
}

static void test_loading_again_and_again_leaves_nothing(void **state)
{
  (void)state;
  size_t held = 0;
  for (size_t round = 0; round < 200; round++) {
    void *handle = load();
    assert_null(use_library());
    assert_int_equal(dlclose(handle), 0);
    if (round == 10)
      held = held_bytes();
  }
  HOLDS_AT_MOST(held + MIB);
}

/* 0: both can be opened, in this order. Each try is a process of its own, since what the loader has given to a library stays
 * given. */
static int open_both(const char *first, const char *second)
{
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child)
    _exit((first && !dlopen(first, RTLD_NOW)) || !dlopen(second, RTLD_NOW));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

/* One that needs most of what the loader has for all libraries that are opened late, 1 KiB. */
static void test_a_greedy_library_finds_room_beside_it(void **state)
{
  (void)state;
  if (open_both(NULL, greedy_file) != 0)
    skip(); /* this loader has not even that */
  assert_int_equal(open_both(library_file, greedy_file), 0);
  assert_int_equal(open_both(greedy_file, library_file), 0);
}

/* Its malloc stays the C library's: linking or loading libtidepool never replaces it. */
static void test_malloc_is_not_replaced(void **state)
{
  (void)state;
  void *before = dlsym(RTLD_DEFAULT, "malloc");
  void *handle = dlopen(library_file, RTLD_NOW | RTLD_GLOBAL);
  assert_non_null(handle);
  assert_ptr_equal(dlsym(RTLD_DEFAULT, "malloc"), before);
  assert_null(dlsym(handle, "free_aligned_sized"));
  assert_int_equal(dlclose(handle), 0);
}

int main(int argc, char **argv)
{
  assert_true(argc > 2);
  library_file = argv[1];
  greedy_file = argv[2];
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_greedy_library_finds_room_beside_it), /* first: the library stays loaded */
    cmocka_unit_test(test_threads_older_than_the_library_use_and_outlive_it),
    cmocka_unit_test(test_loading_again_and_again_leaves_nothing),
    cmocka_unit_test(test_malloc_is_not_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
