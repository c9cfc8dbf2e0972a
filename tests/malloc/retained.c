/* SPDX-License-Identifier: MIT
 *
 * Free memory stays for the purge delay, and is returned by a later call. Run it with a purge delay of an hour and the argument
 * "stays", or with the default delay and the argument "returns". */
#include "ours.h"
#include "testing.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEAK_MIB = 64 };

/* In a process of its own: each begins with nothing free. */
static void in_child(bool (*holds)(size_t size), size_t size)
{
  pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (!child)
    _exit(holds(size) ? 0 : 1);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static size_t faults(void)
{
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return (size_t)usage.ru_minflt;
}

static char *new_block(size_t size)
{
  char *block = malloc(size);
  assert_non_null(block);
  memset(block, 1, size);
  return block;
}

static char **new_blocks(size_t size, size_t *count)
{
  *count = PEAK_MIB * MIB / size;
  char **blocks = calloc(*count, sizeof *blocks);
  assert_non_null(blocks);
  for (size_t i = 0; i < *count; i++)
    blocks[i] = new_block(size);
  return blocks;
}

/* A pool of buffers: in each round a random half of them is freed and allocated again. */
static bool buffers_fault_once(size_t size)
{
  enum { ROUNDS = 6 };
  uint32_t random = 12345;
  size_t count, touched = 0;
  char **blocks = new_blocks(size, &count);
  size_t before = faults();
  for (size_t round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < count; i++)
      if (next_random(&random) % 2) {
        free(blocks[i]);
        blocks[i] = NULL;
      }
    for (size_t i = 0; i < count; i++)
      if (!blocks[i]) {
        blocks[i] = new_block(size);
        touched += size;
      }
  }
  size_t pages = touched / (size_t)getpagesize(), more = faults() - before;
  print_message("buffers of %zu bytes: %zu faults for %zu pages\n", size, more, pages);
  return more <= pages / 20;
}

static bool nearly_all_stays(size_t size)
{
  size_t count, before = held_bytes();
  char **blocks = new_blocks(size, &count);
  size_t peak = held_bytes() - before;
  for (size_t i = 0; i < count; i++)
    if (i % 8)
      free(blocks[i]);
  for (int i = 0; i < 10; i++)
    allocate_beyond_caches();
  size_t held = held_bytes() - before;
  print_message("blocks of %zu bytes, 7 of 8 freed: %zu of %zu KiB stay\n", size, held / KIB, peak / KIB);
  return held >= peak / 100 * 95;
}

/* A program that idles calls nothing, so nothing is returned meanwhile. Some later calls return all of it. */
static bool goes_after_idling(size_t size)
{
  enum { LOOKS = 200, LOOK_US = 50000, LEFT_MIB = 5 };
  size_t count, before = held_bytes();
  char **blocks = new_blocks(size, &count);
  for (size_t i = 0; i < count; i++)
    free(blocks[i]);
  usleep(4 * LOOK_US);
  size_t held = held_bytes() - before;
  int looks = 0;
  for (; looks < LOOKS && held > LEFT_MIB * MIB; looks++) {
    usleep(LOOK_US);
    allocate_beyond_caches();
    held = held_bytes() - before;
  }
  print_message("blocks of %zu bytes, all freed: %zu KiB stay after %d looks\n", size, held / KIB, looks);
  return held <= LEFT_MIB * MIB;
}

static const size_t sizes[] = {4096, 9000, 20000, 100000, 300000, 2000000, 5000000};

static void each_size(bool (*holds)(size_t size))
{
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    in_child(holds, sizes[i]);
}

static void test_buffers(void **state)
{
  (void)state;
  each_size(buffers_fault_once);
}

static void test_stays(void **state)
{
  (void)state;
  each_size(nearly_all_stays);
}

static void test_returns(void **state)
{
  (void)state;
  each_size(goes_after_idling);
}

int main(int count, char **arguments)
{
  const struct CMUnitTest stays[] = {cmocka_unit_test(test_buffers), cmocka_unit_test(test_stays)};
  const struct CMUnitTest returns[] = {cmocka_unit_test(test_returns)};
  if (count == 2 && !strcmp(arguments[1], "stays"))
    return cmocka_run_group_tests_name("retained: stays", stays, NULL, NULL);
  return cmocka_run_group_tests_name("retained: returns", returns, NULL, NULL);
}
