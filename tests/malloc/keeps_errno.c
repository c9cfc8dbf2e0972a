/* SPDX-License-Identifier: MIT
 *
 * Success, and every kind of free, leave errno as it was: programs free in their error paths and read errno after. */
#include "ours.h"
#include "testing.h"

#include <sys/mman.h>

static void test_success_keeps_errno(void **state)
{
  (void)state;
  for (size_t size = 0; size < 20 * MIB; size += size / 2 + 1) {
    void *block;
    KEEPS_ERRNO(block = malloc(size));
    assert_non_null(block);
    KEEPS_ERRNO(block = realloc(block, size + 100));
    assert_non_null(block);
    KEEPS_ERRNO(block = realloc(block, size * 2 + 1));
    assert_non_null(block);
    KEEPS_ERRNO(block = realloc(block, size / 4 + 1));
    assert_non_null(block);
    KEEPS_ERRNO(free(block));
    KEEPS_ERRNO(block = calloc(1, size));
    assert_non_null(block);
    KEEPS_ERRNO(free(block));
    KEEPS_ERRNO(block = aligned_alloc(4096, size));
    assert_non_null(block);
    KEEPS_ERRNO(free(block));
    KEEPS_ERRNO(block = memalign(48, size));
    assert_non_null(block);
    KEEPS_ERRNO(free(block));
  }
  KEEPS_ERRNO((void)mallinfo2());
  KEEPS_ERRNO((void)malloc_trim(0));
}

static void *first_allocation_of_a_thread(void *unused)
{
  (void)unused;
  errno = UNTOUCHED;
  void *block = malloc(100);
  free(block);
  return block && errno == UNTOUCHED ? NULL : "the first malloc of a thread changed errno";
}

static void test_first_use_in_a_thread_keeps_errno(void **state)
{
  (void)state;
  run_threads(8, first_allocation_of_a_thread);
}

/* How many mappings a process may have; some systems set no bound that could be reached. */
static size_t mappings_most(void)
{
  size_t most = 0;
  FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
  if (file && fscanf(file, "%zu", &most) != 1)
    most = 0;
  if (file)
    fclose(file);
  return most;
}

/* Maps pages of alternating protection, which the kernel cannot merge, until the process may have no mapping more.
 * Their addresses are those of one reservation: each mprotect splits it once more. */
static void *use_up_all_mappings(size_t *length)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *length = (size_t)1 << 36;
  char *start = mmap(NULL, *length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    return NULL;
  for (size_t at = page; at < *length; at += 2 * page)
    if (mprotect(start + at, page, PROT_READ) != 0)
      return start;
  munmap(start, *length);
  return NULL;
}

/* With no mapping left munmap of a part of one fails, and so does whatever else splits one. */
static void test_free_keeps_errno_when_munmap_fails(void **state)
{
  (void)state;
  if (mappings_most() > 1 << 20)
    skip();
  enum { BLOCKS = 300 };
  static void *blocks[BLOCKS];
  size_t size = 1000;
  for (size_t i = 0; i < BLOCKS; i++, size = size < 8 * MIB ? size + size / 16 : 100000) {
    blocks[i] = malloc(size);
    assert_non_null(blocks[i]);
    memset(blocks[i], 1, size);
  }
  size_t length;
  void *mappings = use_up_all_mappings(&length);
  if (!mappings)
    skip();
  for (size_t i = 0; i < BLOCKS; i += 2)
    KEEPS_ERRNO(free(blocks[i]));
  for (size_t i = 1; i < BLOCKS; i += 2)
    KEEPS_ERRNO(free(blocks[i]));
  KEEPS_ERRNO((void)malloc_trim(0));
  errno = 0;
  void *block = malloc(3 * MIB);
  assert_true(block || errno == ENOMEM);
  KEEPS_ERRNO(free(block));
  munmap(mappings, length);
  block = malloc(30 * MIB);
  assert_non_null(block);
  memset(block, 2, 30 * MIB);
  free(block);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_success_keeps_errno),
    cmocka_unit_test(test_first_use_in_a_thread_keeps_errno),
    cmocka_unit_test(test_free_keeps_errno_when_munmap_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
