/* SPDX-License-Identifier: MIT
 * os/windows.c before a Windows that refuses on demand. Each call keeps errno and the last error, and a refused call has
 * changed nothing. */
#define KERNEL_ITSELF
#include "kernel.h"
#include <pthread.h>

enum { GRANULARITY = 64 << 10 };

static MEMORY_BASIC_INFORMATION look(const void *address)
{
  MEMORY_BASIC_INFORMATION pages;
  must(VirtualQuery(address, &pages, sizeof pages));
  return pages;
}

static DWORD state_of(const void *address) { return look(address).State; }

/* ---- mappings anywhere ---- */

static void mapped(void **state)
{
  (void)state;
  for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 4) {
    all_new();
    char *p = os_map(3 * PAGE, alignment);
    assert_true(p && (uintptr_t)p % max_size(alignment, PAGE) == 0 && all_zero(p, 3 * PAGE) && errors_are_kept());
    memset(p, 7, 3 * PAGE);
    assert_true(os_unmap(p, 3 * PAGE) && state_of(p) == MEM_FREE && errors_are_kept());
    kernel.reserve = ERROR_NOT_ENOUGH_MEMORY;
    assert_null(os_map(3 * PAGE, alignment));
    assert_true(errors_are_kept());
  }
  all_new();
  assert_null(os_map(SIZE_MAX - PAGE + 1, MIB));
  kernel.commit = ERROR_COMMITMENT_LIMIT;
  assert_null(os_map(PAGE, PAGE));
  assert_true(errors_are_kept());
}

/* Aligned addresses that another thread has taken meanwhile are tried elsewhere, but not for ever. */
static void mapped_beside_others(void **state)
{
  (void)state;
  all_new();
  kernel.reserve_fail = 3;
  char *p = os_map(PAGE, MIB);
  assert_true(p && (uintptr_t)p % MIB == 0 && kernel.reserve_fail == 0 && errors_are_kept());
  assert_true(os_unmap(p, PAGE));
  kernel.reserve_fail = 1000;
  assert_null(os_map(PAGE, MIB));
  assert_true(kernel.reserve_fail > 900 && errors_are_kept());
}

static void unmapped_in_parts(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(SOME, PAGE);
  memset(p, 7, SOME);
  assert_true(os_unmap(p + 2 * PAGE, 3 * PAGE) && state_of(p + 2 * PAGE) == MEM_RESERVE &&
              state_of(p + 5 * PAGE) == MEM_COMMIT);
  assert_true(p[2 * PAGE - 1] == 7 && p[5 * PAGE] == 7);
  assert_true(os_unmap(p, 2 * PAGE) && os_unmap(p + 6 * PAGE, SOME - 6 * PAGE));
  assert_true(p[5 * PAGE] == 7 && kernel.releases == 0);
  kernel.release = ERROR_INVALID_ADDRESS;
  assert_false(os_unmap(p + 5 * PAGE, PAGE));
  assert_int_equal(p[5 * PAGE], 7);
  kernel.release = 0;
  assert_true(os_unmap(p + 5 * PAGE, PAGE) && state_of(p) == MEM_FREE && errors_are_kept());
}

/* Two mappings that follow each other go by one call, with a part of a third. */
static void unmapped_at_once(void **state)
{
  (void)state;
  all_new();
  char *room = os_reserve(3 * GRANULARITY);
  assert_true(room && os_unmap(room, 3 * GRANULARITY) && state_of(room) == MEM_FREE);
  for (size_t i = 0; i < 3; i++)
    assert_ptr_equal(VirtualAlloc(room + i * GRANULARITY, GRANULARITY, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE),
                     room + i * GRANULARITY);
  room[2 * GRANULARITY + PAGE] = 7;
  all_new();
  assert_true(os_unmap(room, 2 * GRANULARITY + PAGE) && errors_are_kept());
  assert_true(state_of(room) == MEM_FREE && state_of(room + GRANULARITY) == MEM_FREE);
  assert_true(state_of(room + 2 * GRANULARITY) == MEM_RESERVE && room[2 * GRANULARITY + PAGE] == 7);
  assert_true(os_unmap(room + 2 * GRANULARITY + PAGE, GRANULARITY - PAGE) && state_of(room + 2 * GRANULARITY) == MEM_FREE);
}

static void guarded(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(3 * PAGE, PAGE);
  p[PAGE] = 7;
  os_guard(p, PAGE);
  os_guard(p + 2 * PAGE, PAGE);
  assert_true(state_of(p) == MEM_RESERVE && state_of(p + 2 * PAGE) == MEM_RESERVE && p[PAGE] == 7);
  kernel.decommit = ERROR_INVALID_ADDRESS;
  os_guard(p + PAGE, PAGE);
  assert_int_equal(p[PAGE], 7);
  kernel.decommit = 0;
  assert_true(os_unmap(p, 3 * PAGE) && state_of(p) == MEM_FREE && errors_are_kept());
}

static void reserved(void **state)
{
  (void)state;
  all_new();
  char *p = os_reserve(SOME);
  assert_true(p && state_of(p) == MEM_RESERVE && os_open(p, 3 * PAGE) && all_zero(p, 3 * PAGE));
  memset(p, 7, 3 * PAGE);
  kernel.decommit = ERROR_INVALID_ADDRESS;
  assert_false(os_close(p + PAGE, PAGE));
  assert_int_equal(p[PAGE], 7);
  kernel.decommit = 0;
  assert_true(os_close(p + PAGE, PAGE) && state_of(p + PAGE) == MEM_RESERVE && p[2 * PAGE] == 7);
  kernel.commit = ERROR_COMMITMENT_LIMIT;
  assert_false(os_open(p + PAGE, PAGE));
  kernel.commit = 0;
  assert_true(os_open(p + PAGE, PAGE) && all_zero(p + PAGE, PAGE));
  /* The front is still wanted, though it has no page. */
  assert_true(os_close(p, 3 * PAGE) && os_unmap(p + SOME - PAGE, PAGE) && state_of(p) == MEM_RESERVE);
  assert_true(os_open(p, PAGE) && os_unmap(p, SOME) && state_of(p) == MEM_FREE && errors_are_kept());
}

/* ---- mappings in the window ---- */

#define SLOT_BYTES OS_WINDOW_ALIGNMENT

static void mapped_at(void **state)
{
  (void)state;
  size_t size;
  all_new();
  char *base = os_window(0, &size), *p = base + PAGE;
  assert_true(base && size >= 4 * SLOT_BYTES);
  assert_int_equal(os_map_at(p, 3 * PAGE), OS_MAPPED);
  assert_true(all_zero(p, 3 * PAGE) && state_of(base) == MEM_RESERVE && state_of(p + 3 * PAGE) == MEM_RESERVE);
  memset(p, 7, 3 * PAGE);
  assert_int_equal(os_map_at(p + 2 * PAGE, 2 * PAGE), OS_OCCUPIED);
  assert_int_equal(os_map_at(base, 2 * PAGE), OS_OCCUPIED);
  assert_true(p[0] == 7 && p[3 * PAGE - 1] == 7 && state_of(p + 3 * PAGE) == MEM_RESERVE);
  kernel.commit = ERROR_COMMITMENT_LIMIT;
  assert_int_equal(os_map_at(p + 3 * PAGE, PAGE), OS_NO_MEMORY);
  kernel.commit = 0;
  assert_int_equal(os_map_at(p + 3 * PAGE, PAGE), OS_MAPPED);
  assert_true(os_unmap(p + PAGE, PAGE) && state_of(p + PAGE) == MEM_RESERVE && p[0] == 7);
  assert_int_equal(os_map_at(p + PAGE, PAGE), OS_MAPPED);
  assert_true(all_zero(p + PAGE, PAGE) && kernel.releases <= 2 && errors_are_kept()); /* of the page that os_window() maps */
  assert_true(os_unmap(p, 4 * PAGE) && look(p).AllocationBase == base);
}

/* A piece of two slots. If the second is refused, the first is as it was. */
static void mapped_across_slots(void **state)
{
  (void)state;
  size_t size;
  all_new();
  char *base = os_window(1, &size), *p = base + SLOT_BYTES - PAGE;
  assert_non_null(base);
  void *foreign = VirtualAlloc(base + SLOT_BYTES + MIB, PAGE, MEM_RESERVE, PAGE_NOACCESS);
  assert_ptr_equal(foreign, base + SLOT_BYTES + MIB);
  all_new();
  assert_int_equal(os_map_at(p, 2 * PAGE), OS_OCCUPIED);
  assert_true(state_of(p) == MEM_RESERVE && errors_are_kept());
  assert_true(VirtualFree(foreign, 0, MEM_RELEASE));
  all_new();
  kernel.reserve = ERROR_NOT_ENOUGH_MEMORY;
  assert_int_equal(os_map_at(p, 2 * PAGE), OS_NO_MEMORY);
  assert_int_equal(state_of(p), MEM_RESERVE);
  kernel.reserve = 0;
  assert_int_equal(os_map_at(p, 2 * PAGE), OS_MAPPED);
  assert_true(all_zero(p, 2 * PAGE));
  memset(p, 7, 2 * PAGE);
  assert_true(os_purge(p, 2 * PAGE) && all_zero(p, 2 * PAGE) && errors_are_kept());
  assert_true(os_unmap(p, 2 * PAGE) && look(p).AllocationBase == base && look(p + PAGE).AllocationBase == p + PAGE);
}

/* The window is chosen once more if the first is in use: its addresses are free again. */
static void mapped_elsewhere(void **state)
{
  (void)state;
  size_t size;
  all_new();
  char *first = os_window(2, &size);
  assert_int_equal(os_map_at(first, PAGE), OS_MAPPED);
  assert_int_equal(os_map_at(first + 3 * SLOT_BYTES, PAGE), OS_MAPPED);
  assert_true(os_unmap(first, PAGE) && os_unmap(first + 3 * SLOT_BYTES, PAGE));
  char *second = os_window(12, &size);
  assert_true(second && second != first);
  assert_int_equal(os_map_at(second, PAGE), OS_MAPPED);
  assert_true(state_of(first) == MEM_FREE && state_of(first + 3 * SLOT_BYTES) == MEM_FREE && errors_are_kept());
  assert_true(os_unmap(second, PAGE));
}

/* ---- purging ---- */

typedef struct reader {
  const char *memory;
  uint32_t ends, has_read;
} reader_t;

static void *read_meanwhile(void *argument)
{
  reader_t *reader = argument;
  while (!__atomic_load_n(&reader->ends, __ATOMIC_ACQUIRE)) {
    for (size_t i = 0; i < SOME_PAGES; i++) {
      char byte = *(const volatile char *)(reader->memory + i * PAGE);
      must(byte == 0 || byte == 7);
    }
    __atomic_store_n(&reader->has_read, 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void purged(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(SOME, PAGE);
  memset(p, 7, SOME);
  assert_true(os_purge(p + PAGE, 2 * PAGE) && p[PAGE - 1] == 7 && all_zero(p + PAGE, 2 * PAGE) && p[3 * PAGE] == 7);
  p[PAGE] = 1; /* it can be written again */
  kernel.reset = ERROR_INVALID_PARAMETER;
  assert_false(os_purge(p + 3 * PAGE, PAGE));
  kernel.reset = 0;
  assert_true(p[PAGE] == 1 && errors_are_kept());
  assert_true(os_unmap(p + 5 * PAGE, PAGE));
  assert_false(os_purge(p + 4 * PAGE, 3 * PAGE));
  assert_int_equal(p[6 * PAGE], 7);
  assert_true(os_unmap(p, SOME) && errors_are_kept());
}

/* Another thread reads at every instant what was there, or zero, and does not fault. */
static void purged_beside_a_reader(void **state)
{
  enum { ROUNDS = 500 };
  (void)state;
  all_new();
  pthread_t thread;
  reader_t reader = {.memory = os_map(SOME, PAGE)};
  assert_int_equal(pthread_create(&thread, NULL, read_meanwhile, &reader), 0);
  while (!__atomic_load_n(&reader.has_read, __ATOMIC_ACQUIRE))
    SwitchToThread();
  for (unsigned i = 0; i < ROUNDS; i++) {
    memset((char *)(uintptr_t)reader.memory, 7, SOME);
    must(os_purge((void *)(uintptr_t)reader.memory, SOME) && all_zero(reader.memory, SOME));
  }
  __atomic_store_n(&reader.ends, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  assert_true(os_unmap((void *)(uintptr_t)reader.memory, SOME));
}

static void resized(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(SOME, PAGE);
  memset(p, 7, SOME);
  assert_null(os_remap(p, SOME, 2 * SOME, true));
  assert_int_equal(os_remap_to(p, PAGE, p + PAGE, PAGE), OS_OCCUPIED);
  kernel.decommit = ERROR_INVALID_ADDRESS;
  assert_null(os_remap(p, SOME, PAGE, false));
  assert_true(p[0] == 7 && p[SOME - 1] == 7);
  kernel.decommit = 0;
  assert_ptr_equal(os_remap(p, SOME, PAGE, false), p);
  assert_true(p[0] == 7 && state_of(p + PAGE) == MEM_RESERVE && errors_are_kept());
  assert_true(os_unmap(p, PAGE) && state_of(p) == MEM_FREE);
}

static void forbidden(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(SOME, PAGE), *room = os_reserve(SOME);
  memset(p, 7, SOME);
  uint64_t before = os_forbidden_count();
  os_forbid(true);
  kernel.reserves = kernel.commits = 0;
  assert_true(!os_map(PAGE, PAGE) && !os_map(PAGE, MIB) && !os_reserve(PAGE) && !os_open(room, PAGE) && !os_close(room, PAGE));
  assert_true(!os_unmap(p, SOME) && !os_purge(p, SOME) && !os_remap(p, SOME, PAGE, true) && !os_prefault(p, SOME));
  assert_int_equal(os_map_at(room, PAGE), OS_NO_MEMORY);
  os_forbid(false);
  assert_true(p[0] == 7 && p[SOME - 1] == 7 && kernel.reserves == 0 && kernel.commits == 0);
  assert_int_equal(os_forbidden_count() - before, 10);
  assert_true(os_prefault(p, SOME) && p[5] == 7 && os_unmap(p, SOME) && os_unmap(room, SOME) && errors_are_kept());
}

static void locked(void **state)
{
  (void)state;
  all_new();
  char *p = os_map(PAGE, PAGE);
  kernel.lock = ERROR_WORKING_SET_QUOTA;
  assert_false(os_lock_memory(p, PAGE));
  kernel.lock = 0;
  assert_true(os_lock_memory(p, PAGE) && os_unlock_memory(p, PAGE) && os_unmap(p, PAGE) && errors_are_kept());
}

static void limits(void **state)
{
  (void)state;
  all_new();
  os_read_limits();
  assert_true(os_memory_limit == SIZE_MAX && os_memory_most >= GIB && os_memory_most < SIZE_MAX / 2);
  kernel.limit = 100 * MIB;
  os_read_limits();
  assert_true(os_memory_limit == 100 * MIB && os_memory_most == 100 * MIB);
  kernel.job = ERROR_ACCESS_DENIED;
  os_read_limits();
  assert_true(os_memory_limit == SIZE_MAX && errors_are_kept());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mapped),
    cmocka_unit_test(mapped_beside_others),
    cmocka_unit_test(unmapped_in_parts),
    cmocka_unit_test(unmapped_at_once),
    cmocka_unit_test(guarded),
    cmocka_unit_test(reserved),
    cmocka_unit_test(mapped_at),
    cmocka_unit_test(mapped_across_slots),
    cmocka_unit_test(mapped_elsewhere),
    cmocka_unit_test(purged),
    cmocka_unit_test(purged_beside_a_reader),
    cmocka_unit_test(resized),
    cmocka_unit_test(forbidden),
    cmocka_unit_test(locked),
    cmocka_unit_test(limits),
  };
  return cmocka_run_group_tests_name("Windows, memory", tests, NULL, NULL);
}
