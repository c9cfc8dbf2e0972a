/* SPDX-License-Identifier: MIT
 * The flags of a heap: single thread, checked, zero on free, prefault, lock memory; and what a reserve promises. */
#include "heaps.h"
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- SINGLE_THREAD ---- */

static void single_thread(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
  list_t list = {0};
  for (size_t size = 16; size < 5 << 20; size = size * 3 + 7)
    list_take_many(&list, heap, size, 50);
  assert_int_equal(stats_of(heap).live_blocks, list.count);
  list_free(&list, heap);
  pool_heap_reset(heap);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

/* ---- CHECKED ---- */

static pool_heap_t *checked_heap(void) { return heap_with((pool_heap_options_t){.flags = POOL_HEAP_CHECKED}); }

static void new_and_returned_blocks(void **state)
{
  (void)state;
  pool_heap_t *heap = checked_heap();
  for (size_t size = 1; size < 400000; size = size * 7 + 1) {
    unsigned char *block = pool_heap_alloc(heap, opaque(size));
    assert_int_equal(pool_usable_size(block), size);
    for (size_t i = 0; i < size; i++)
      assert_int_equal(block[i], 0xcd);
    assert_int_equal((uintptr_t)block % 16, 0);
    pool_heap_free(heap, block);
    if (size > 256 << 10)
      continue;
    assert_memory_equal(block, "\x0b\xdb\xea\x1d", min_size(size, 4));
    block = pool_heap_zalloc(heap, size);
    assert_true(all_zero(block, size));
    pool_heap_free(heap, block);
  }
  assert_true(stats_of(heap).cached_bytes > 0);
  pool_heap_trim(heap, 0);
  assert_int_equal(stats_of(heap).cached_bytes, 0);
  pool_heap_destroy(heap);
}

typedef struct bug {
  size_t size, offset;
  bool by_pool_free;
} bug_t;

static unsigned char *new_block(pool_heap_t **heap, size_t size)
{
  *heap = checked_heap();
  return pool_heap_alloc(*heap, opaque(size));
}

static void free_it(const bug_t *bug, pool_heap_t *heap, void *block)
{
  if (bug->by_pool_free)
    pool_free(block);
  else
    pool_heap_free(heap, block);
}

static void free_twice(void *argument)
{
  const bug_t *bug = argument;
  pool_heap_t *heap;
  unsigned char *block = new_block(&heap, bug->size);
  void *volatile again = block;
  free_it(bug, heap, block);
  free_it(bug, heap, again);
}

static void write_after_free(void *argument)
{
  const bug_t *bug = argument;
  pool_heap_t *heap;
  unsigned char *block = new_block(&heap, bug->size);
  unsigned char *volatile again = block;
  free_it(bug, heap, block);
  again[bug->offset] ^= 1;
  pool_heap_trim(heap, 0);
}

static void overrun(void *argument)
{
  const bug_t *bug = argument;
  pool_heap_t *heap;
  unsigned char *volatile block = new_block(&heap, bug->size);
  block[bug->size] ^= 1;
  free_it(bug, heap, block);
}

static void overrun_then_realloc(void *argument)
{
  const bug_t *bug = argument;
  pool_heap_t *heap;
  unsigned char *volatile block = new_block(&heap, bug->size);
  block[bug->size] ^= 1;
  block = pool_heap_realloc(heap, block, bug->size * 2);
}

static void findings(void **state)
{
  (void)state;
  char words[100];
  static const size_t sizes[] = {1, 24, 100, 3000, 70000};
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (int by_pool_free = 0; by_pool_free < 2; by_pool_free++) {
      bug_t bug = {sizes[i], sizes[i] / 2, by_pool_free};
      const char *call = by_pool_free ? "tidepool: pool_free(0x" : "tidepool: pool_heap_free(0x";
      aborts_with(free_twice, &bug, "freed twice");
      aborts_with(free_twice, &bug, call);
      snprintf(words, sizeof words, "written past its end at offset %zu of a block of %zu bytes", bug.size, bug.size);
      aborts_with(overrun, &bug, words);
      aborts_with(overrun, &bug, call);
      aborts_with(overrun_then_realloc, &bug, words);
      snprintf(words, sizeof words, "written to after it was freed at offset %zu of", bug.offset);
      aborts_with(write_after_free, &bug, words);
      aborts_with(write_after_free, &bug, "tidepool: pool_heap_trim(0x");
    }
}

static void large_findings(void **state)
{
  (void)state;
  bug_t bug = {3 << 20, 0, false};
  aborts_with(overrun, &bug, "written past its end at offset 3145728 of a block of 3145728 bytes");
}

/* ---- ZERO_ON_FREE ---- */

static bool has_secret(const unsigned char *memory, size_t size) { return memmem(memory, size, "a secret", 8) != NULL; }

static void zero_on_free(void **state)
{
  (void)state;
  static unsigned char buffer[2 << 20];
  pool_heap_t *heap =
    heap_with((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .flags = POOL_HEAP_ZERO_ON_FREE});
  for (size_t size = 32; size < 600000; size = size * 5 + 8) {
    char *block = pool_heap_alloc(heap, size);
    memcpy(block + size - 8, "a secret", 8);
    assert_true(has_secret(buffer, sizeof buffer));
    pool_free(block);
    assert_false(has_secret(buffer, sizeof buffer));
    block = pool_heap_alloc(heap, size);
    memcpy(block, "a secret", 8);
    block = pool_heap_realloc(heap, block, size * 2);
    block = pool_heap_realloc(heap, block, 16);
    assert_memory_equal(block, "a secret", 8);
    pool_heap_free(heap, block);
    assert_false(has_secret(buffer, sizeof buffer));
  }
  pool_heap_destroy(heap);
}

/* A block that shrinks where it is keeps nothing behind its new end. */
static void zero_on_shrink(void **state)
{
  (void)state;
  static unsigned char buffer[4 << 20];
  pool_heap_t *heap =
    heap_with((pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .flags = POOL_HEAP_ZERO_ON_FREE});
  char *block = pool_heap_alloc(heap, 1 << 20);
  memcpy(block + (1 << 20) - 8, "a secret", 8);
  block = pool_heap_realloc(heap, block, 600 << 10);
  assert_non_null(block);
  assert_false(has_secret(buffer, sizeof buffer));
  pool_heap_destroy(heap);
}

/* ---- reserve, PREFAULT, LOCK_MEMORY ---- */

enum { RESERVE = 8 << 20 };

/* Growth up to the reserve cannot fail, whatever the system says. */
/* In place, by whichever call, and for large blocks too: what is behind the new end may not stay. */
static void zero_on_shrink_in_place(void **state)
{
  (void)state;
  static const size_t block_sizes[] = {100, 3000, 100000, 3 << 20, 9 << 20};
  pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  for (size_t i = 0; i < COUNT_OF(block_sizes); i++)
    for (int call = 0; call < 2; call++) {
      size_t size = block_sizes[i], less = size * 3 / 4;
      unsigned char *block = pool_heap_alloc(heap, size);
      assert_non_null(block);
      size_t usable = pool_usable_size(block);
      memset(block, 0xa5, usable);
      if (call == 0)
        assert_true(pool_resize_in_place(block, less));
      else
        assert_ptr_equal(pool_heap_realloc(heap, block, less), block);
      usable = pool_usable_size(block);
      assert_true(usable >= less && block[less - 1] == 0xa5);
      assert_true(all_zero(block + less, usable - less));
      pool_heap_free(heap, block);
    }
  pool_heap_destroy(heap);
}

/* "The old block is untouched." */
static void failed_realloc_wipes_nothing(void **state)
{
  (void)state;
  static const size_t block_sizes[] = {100, 5000, 40000, 200000};
  for (size_t i = 0; i < COUNT_OF(block_sizes); i++) {
    pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 1 << 20, .flags = POOL_HEAP_ZERO_ON_FREE});
    unsigned char *block = pool_heap_alloc(heap, block_sizes[i]);
    assert_non_null(block);
    pattern_write(block, block_sizes[i], i);
    assert_null(pool_heap_realloc(heap, block, opaque(8 << 20)));
    assert_true(pattern_holds(block, block_sizes[i], i));
    pool_heap_free(heap, block);
    pool_heap_destroy(heap);
  }
}

static void reserve_is_there(void **state)
{
  (void)state;
  static const size_t sizes[] = {100, 5000, 200000};
  static const pool_heap_options_t kinds[] = {{.reserve = RESERVE},
                                              {.reserve = RESERVE, .budget = 64 << 20},
                                              {.reserve = RESERVE / 2, .budget = RESERVE},
                                              {.reserve = RESERVE, .flags = POOL_HEAP_CHECKED}};
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
      pool_heap_t *heap = heap_with(kinds[k]);
      assert_true(stats_of(heap).held_bytes >= kinds[k].reserve);
      list_t list = {0};
      bool before = pool_forbid_system_calls(true);
      list_exhaust(&list, heap, sizes[i]);
      pool_forbid_system_calls(before);
      assert_true(list.count * pool_heap_good_size(heap, sizes[i]) >= kinds[k].reserve / 20 * 17);
      list_free(&list, heap);
      pool_heap_destroy(heap);
    }
  assert_true(check_everything());
}

static void more_than_the_reserve(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.reserve = RESERVE});
  list_t list = {0};
  list_take_many(&list, heap, 10000, 3 * RESERVE / 10000);
  assert_true(stats_of(heap).held_bytes > 2 * RESERVE);
  list_free(&list, heap);
  pool_heap_trim(heap, 0);
  pool_stats_t s = stats_of(heap);
  assert_true(s.held_bytes >= RESERVE && s.held_bytes < RESERVE + RESERVE / 4);
  pool_heap_destroy(heap);
}

/* Before it is touched, and still after a trim. */
static void prefaulted(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  static const pool_heap_options_t kinds[] = {{.reserve = RESERVE},
                                              {.reserve = RESERVE, .budget = RESERVE},
                                              {.reserve = RESERVE / 2, .budget = RESERVE},
                                              {.reserve = RESERVE, .budget = 64 << 20}};
  for (size_t k = 0; k < COUNT_OF(kinds); k++) {
    pool_heap_options_t options = kinds[k];
    options.flags = POOL_HEAP_PREFAULT;
    pool_heap_t *heap = heap_with(options);
    size_t size = options.reserve * 3 / 4;
    char *block = pool_heap_alloc(heap, size);
    assert_non_null(block);
    assert_true(is_resident(block, size));
    pool_heap_free(heap, block);
    assert_int_equal(pool_heap_trim(heap, 0), 0);
    block = pool_heap_alloc(heap, size);
    assert_non_null(block);
    assert_true(is_resident(block, size));
    pool_heap_destroy(heap);
  }
}

static size_t locked_bytes(void)
{
  char line[256];
  size_t kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmLck: %zu", &kib) == 1)
      break;
  if (file)
    fclose(file);
  return kib << 10;
}

enum { LOCKED = 1 << 20 };

static void locked(void **state)
{
  (void)state;
  static char buffer[LOCKED + 1];
  if (SANITIZED || !may_lock(2 * LOCKED))
    skip();
  size_t before = locked_bytes();
  pool_heap_t *heap = heap_with((pool_heap_options_t){.reserve = LOCKED, .flags = POOL_HEAP_LOCK_MEMORY | POOL_HEAP_PREFAULT});
  assert_true(locked_bytes() >= before + LOCKED);
  void *block = pool_heap_alloc(heap, LOCKED / 2);
  assert_non_null(block);
  pool_heap_free(heap, block);
  pool_heap_destroy(heap);
  assert_int_equal(locked_bytes(), before);
  heap = heap_with((pool_heap_options_t){.memory = buffer + 1, .memory_size = LOCKED, .flags = POOL_HEAP_LOCK_MEMORY});
  assert_true(locked_bytes() >= before + LOCKED);
  pool_heap_destroy(heap);
  assert_int_equal(locked_bytes(), before);
}

/* Root may lock, whatever the limit, by a capability; not being root needs another user, and not every container has one. */
static void give_up_capabilities(void)
{
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
  must(syscall(SYS_capset, &head, none) == 0);
}

static void without_a_right_to_lock(void *unused)
{
  (void)unused;
  const struct rlimit nothing = {0};
  must(setrlimit(RLIMIT_MEMLOCK, &nothing) == 0);
  give_up_capabilities();
  must(!may_lock(LOCKED));
  size_t held = stats_of(pool_heap_default()).held_bytes;
  errno = UNTOUCHED;
  must(!pool_heap_create(&(pool_heap_options_t){.reserve = LOCKED, .flags = POOL_HEAP_LOCK_MEMORY}));
  must(errno == ENOMEM);
  must(stats_of(pool_heap_default()).held_bytes <= held + 4 * LOCKED);
  must(check_everything());
}

static void may_not_lock(void **state)
{
  (void)state;
  if (SANITIZED) /* which make mlock() do nothing */
    skip();
  in_child(without_a_right_to_lock, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(single_thread),
    cmocka_unit_test(new_and_returned_blocks),
    cmocka_unit_test(findings),
    cmocka_unit_test(large_findings),
    cmocka_unit_test(zero_on_free),
    cmocka_unit_test(zero_on_shrink),
    cmocka_unit_test(zero_on_shrink_in_place),
    cmocka_unit_test(failed_realloc_wipes_nothing),
    cmocka_unit_test(reserve_is_there),
    cmocka_unit_test(more_than_the_reserve),
    cmocka_unit_test(prefaulted),
    cmocka_unit_test(locked),
    cmocka_unit_test(may_not_lock),
  };
  return cmocka_run_group_tests_name("flags", tests, NULL, NULL);
}
