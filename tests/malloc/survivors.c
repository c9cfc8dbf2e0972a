/* SPDX-License-Identifier: MIT
 *
 * After a phase with 200 MiB live, all of it freed but one block in twenty: what stays held. */
#include "ours.h"
#include "testing.h"

#include <sys/wait.h>
#include <unistd.h>

enum { PEAK_MIB = 200, ONE_OF = 20 };

typedef enum survivors { THE_LAST, SCATTERED } survivors_t;

static bool survives(survivors_t which, size_t i, size_t count)
{
  return which == SCATTERED ? i % ONE_OF == 0 : i >= count - count / ONE_OF;
}

/* What was free a moment ago may wait to be used again, until a call finds that it was not for a while: how much that is
 * depends on how long the phase took. So it is looked at until it is little enough, or has had time. Calls come seldom, and
 * make bins of many classes due: each of them takes a part of the system calls that a while allows. */
static size_t held_in_the_end(size_t before, size_t most)
{
  enum { LOOKS = 60, LOOK_US = 100000 };
  size_t held = held_bytes() - before;
  for (int look = 0; look < LOOKS && held > most; look++) {
    usleep(LOOK_US);
    allocate_beyond_caches();
    held = held_bytes() - before;
  }
  return held;
}

/* Bytes that are held to those that are live, in hundredths. */
static size_t held_to_live(size_t size, survivors_t which, size_t most)
{
  size_t before = held_bytes(), count = PEAK_MIB * MIB / size, live = count * sizeof(char *);
  char **blocks = malloc(live);
  assert_non_null(blocks);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(size);
    assert_non_null(blocks[i]);
    memset(blocks[i], (int)i | 1, size);
  }
  for (size_t i = 0; i < count; i++)
    if (survives(which, i, count))
      live += size;
    else
      free(blocks[i]);
  size_t ratio = held_in_the_end(before, live * most / 100) * 100 / live;
  for (size_t i = 0; i < count; i++)
    if (survives(which, i, count))
      assert_true(is_filled(blocks[i], (int)(unsigned char)(i | 1), size));
  return ratio; /* and nothing is freed: the process ends */
}

/* Pages longer than 4 KiB add half of one at either end of a scattered block, and a large block is whole pages. */
static size_t for_longer_pages(size_t size, survivors_t which)
{
  enum { LARGE = 32 << 10 };
  size_t longer = (size_t)sysconf(_SC_PAGESIZE) - 4096;
  return which == SCATTERED || size > LARGE ? 100 * longer / size : 0;
}

/* In a process of its own: what an earlier phase used again would be kept for the next. */
static void at_most(size_t size, survivors_t which, size_t most)
{
  most += for_longer_pages(size, which);
  pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (!child) {
    size_t ratio = held_to_live(size, which, most);
    print_message("%zu bytes, %s: held %zu.%02zu of live\n", size, which == SCATTERED ? "one in twenty stays" : "the last stay",
                  ratio / 100, ratio % 100);
    _exit(ratio > 90 && ratio <= most ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_the_last_stay(void **state)
{
  (void)state;
  for (size_t size = 100; size <= 1000000; size *= 10)
    at_most(size, THE_LAST, 150);
  at_most(20000, THE_LAST, 150);
}

/* Blocks of several pages are worth giving back one by one. Half a page at either end of each stays, and what the thread has
 * in its magazines. */
static void test_survivors_are_scattered(void **state)
{
  (void)state;
  at_most(20000, SCATTERED, 220);
  at_most(30000, SCATTERED, 220);
  at_most(100000, SCATTERED, 150);
  at_most(1000000, SCATTERED, 150);
  if (sysconf(_SC_PAGESIZE) == 4096) /* of ten pages one has a block that stays */
    at_most(2000, SCATTERED, 260);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_last_stay),
    cmocka_unit_test(test_survivors_are_scattered),
  };
  return cmocka_run_group_tests_name("survivors", tests, NULL, NULL);
}
