/* SPDX-License-Identifier: MIT
 * Where os/window.c finds room for the window, wherever a kernel maps. */
#include "any_kernel.h"

/* Address spaces of 39 bits (arm64, riscv64) and more; the thread sanitizer needs most of one itself. */
#ifdef UNDER_SANITIZER
enum { SPACE_LEAST_LOG2 = 46 };
#else
enum { SPACE_LEAST_LOG2 = 39 };
#endif

/* Where the kernel maps downwards from `top`, or upwards from there where that is low. */
static void windows_below(char *top, bool upwards)
{
  char *seen[100], *base;
  size_t size = 0, count = 0, others = 0;
  kernel.next_mapping = top;
  for (; count < 100 && (base = os_window((unsigned)count, &size)) != NULL; count++) {
    uintptr_t from = (uintptr_t)base;
    assert_true(from && from % OS_WINDOW_ALIGNMENT == 0 && size % OS_WINDOW_ALIGNMENT == 0 && size > 0 && from + size > from);
    assert_true(upwards ? base > top : base + size < top);
    assert_true(upwards || (uintptr_t)(top - (base + size)) >= (uintptr_t)top / 4096); /* not next to anything */
    seen[count] = base;
    size_t same = 0;
    while (seen[same] != base)
      same++;
    others += same == count;
  }
  assert_true(count >= 4 && count < 100 && others >= min_size(count, size / OS_WINDOW_ALIGNMENT) / 2 && errno_is_kept());
  assert_int_equal(kernel.mmaps, kernel.munmaps);
}

static void windows(void **state)
{
  (void)state;
  for (unsigned random = 0; random < 2; random++) {
    for (unsigned log2 = SPACE_LEAST_LOG2; log2 <= 48; log2++) {
      all_new();
      kernel.getrandom = random ? 0 : ENOSYS;
      windows_below((char *)(((uintptr_t)1 << log2) - 5 * GIB - PAGE), false);
    }
    all_new();
    kernel.getrandom = random ? 0 : EAGAIN;
    windows_below((char *)(5 * GIB), true);
  }
  all_new();
  kernel.mmap = ENOMEM;
  size_t size;
  assert_null(os_window(0, &size));
  assert_true(errno_is_kept());
}

/* Each process has its window elsewhere: by what the kernel has drawn for it, and where that has nothing, by the time. */
static void a_window_elsewhere(void **state)
{
  enum { PROCESSES = 16 };
  (void)state;
  for (unsigned refused = 0; refused < 2; refused++) {
    char *seen[PROCESSES];
    size_t size = 0, others = 0;
    for (unsigned i = 0; i < PROCESSES; i++) {
      all_new();
      kernel.next_mapping = (char *)(((uintptr_t)1 << 48) - PAGE);
      kernel.getrandom = refused ? EAGAIN : 0;
      kernel.random = (i + 1) * 0x123456789abcdefu;
      kernel.later = i;
      seen[i] = os_window(0, &size);
      assert_true(seen[i] && errno_is_kept());
      size_t same = 0;
      while (seen[same] != seen[i])
        same++;
      others += same == i;
    }
    assert_true(others >= min_size(PROCESSES, size / OS_WINDOW_ALIGNMENT) / 2); /* two may meet */
  }
}

/* Whatever third of the addresses a program has mapped before, some attempt begins outside of it. */
static void a_window_beside_large_mappings(void **state)
{
  enum { PROCESSES = 50, PARTS = 3 };
  (void)state;
  uintptr_t all = (uintptr_t)1 << 47;
  for (unsigned i = 0; i < PROCESSES * PARTS; i++) {
    uintptr_t taken = all / PARTS * (i % PARTS), taken_end = taken + all / PARTS;
    bool outside = false;
    size_t size;
    char *base;
    all_new();
    kernel.next_mapping = (char *)(all - PAGE);
    kernel.random = (i + 1) * 0x123456789abcdefu;
    for (unsigned attempt = 0; !outside && (base = os_window(attempt, &size)) != NULL; attempt++)
      outside = (uintptr_t)base < taken || (uintptr_t)base >= taken_end;
    assert_true(outside);
  }
}

/* With this kernel it can be used. */
static void a_window_of_this_kernel(void **state)
{
  (void)state;
  size_t size, done = 0;
  char *base;
  all_new();
  for (unsigned attempt = 0; attempt < 4 && (base = os_window(attempt, &size)) != NULL; attempt++)
    for (size_t at = 0; at < size; at += round_up(size / 7, OS_WINDOW_ALIGNMENT))
      if (os_map_at(base + at, PAGE) == OS_MAPPED) {
        base[at] = 1;
        done++;
        assert_true(os_unmap(base + at, PAGE));
      }
  assert_true(done > 0 && errno_is_kept());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(windows),
    cmocka_unit_test(a_window_elsewhere),
    cmocka_unit_test(a_window_beside_large_mappings),
    cmocka_unit_test(a_window_of_this_kernel),
  };
  return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
