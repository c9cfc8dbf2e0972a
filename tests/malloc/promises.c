/* SPDX-License-Identifier: MIT
 *
 * What a process asks of the system before it needs it: addresses, and with mlockall() the memory behind them. */
#include "ours.h"
#include "testing.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum { NOBODY = 65534 };
#define LOCK_LIMIT     (64 * MIB)
#define LOCK_LEAST     (3 * MIB) /* for anything at all to be seen */
#define ADDRESSES_MOST (256 * MIB)

static size_t address_bytes(void) { return figure_of("/proc/self/status", "\nVmSize:"); }

/* What this program has without the library, started anew. */
static size_t address_bytes_without(void)
{
  int ends[2];
  size_t bytes = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    unsetenv("LD_PRELOAD");
    setenv("ANY_MALLOC", "1", 1);
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "promises", "addresses", (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &bytes, sizeof bytes), sizeof bytes);
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return bytes;
}

static int say_addresses(void)
{
  free(malloc(opaque(100)));
  size_t bytes = address_bytes();
  return write(STDOUT_FILENO, &bytes, sizeof bytes) == sizeof bytes ? 0 : 1;
}

/* Whatever counts addresses counts these: a limit, mlockall(), a core file. */
static void test_few_addresses(void **state)
{
  (void)state;
  free(malloc(opaque(100)));
  size_t with = address_bytes(), without = address_bytes_without();
  if (with > without + ADDRESSES_MOST)
    fail_msg("%zu MiB of addresses, %zu without the library", with / MIB, without / MIB);
}

/* Locks all memory, now and later, within LOCK_LIMIT or what the process may have, and not as root, who has no limit. Returns
 * what is left of it; 0: the system does not let it. */
static size_t lock_all(void)
{
  struct rlimit lock;
  getrlimit(RLIMIT_MEMLOCK, &lock);
  size_t most = lock.rlim_max < LOCK_LIMIT ? lock.rlim_max : LOCK_LIMIT;
  if (geteuid() == 0 && setuid(NOBODY) != 0)
    return 0;
  lock = (struct rlimit){most, most};
  if (setrlimit(RLIMIT_MEMLOCK, &lock) != 0 || most < address_bytes_without() + LOCK_LEAST)
    return 0;
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
    _exit(4);
  return most - address_bytes();
}

static bool locked_pages_can_go(void)
{
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool can = page != MAP_FAILED && mlock(page, 4096) == 0 && madvise(page, 4096, MADV_DONTNEED_LOCKED) == 0;
  munmap(page, 4096);
  return can;
}

/* Runs it in a child; skips the test if that says so. */
enum { SKIPPED = 77 };
static void in_child(int (*run)(void))
{
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(run());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
    skip();
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int use_locked_memory(void)
{
  static char *blocks[2000];
  size_t room = lock_all();
  if (!room)
    return SKIPPED;
  for (size_t round = 0; round < 3; round++) {
    size_t count = 0;
    for (size_t total = 0; total < room / 4 && count < COUNT_OF(blocks); count++) {
      size_t size = count % 100 ? count % 2000 : 100000 + count * 100;
      if (!(blocks[count] = malloc(size)))
        return 1;
      memset(blocks[count], 1, size);
      total += size;
    }
    while (count > 0)
      free(blocks[--count]);
  }
  return 0;
}

/* As every program does that must not wait for a page. */
static void test_all_memory_locked(void **state)
{
  (void)state;
  in_child(use_locked_memory);
}

/* What is freed goes, though it is locked. */
static int give_locked_memory_back(void)
{
  enum { SIZE = 80000 };
  static char *blocks[1000];
  size_t count = 0, room = lock_all(), total = 0;
  if (!room || !locked_pages_can_go())
    return SKIPPED;
  size_t before = held_after_trim();
  for (; total < room / 2 && count < COUNT_OF(blocks); total += SIZE)
    if (!(blocks[count++] = malloc(SIZE)))
      return 1;
  if (held_bytes() < before + total)
    return 2;
  while (count > 0)
    free(blocks[--count]);
  return held_after_trim() <= before + total / 4 ? 0 : 3;
}

static void test_locked_memory_goes_back(void **state)
{
  (void)state;
  in_child(give_locked_memory_back);
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], "addresses") == 0)
    return say_addresses();
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_few_addresses),
    cmocka_unit_test(test_all_memory_locked),
    cmocka_unit_test(test_locked_memory_goes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
