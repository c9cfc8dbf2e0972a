/* SPDX-License-Identifier: MIT
 * A prefaulted, locked heap in steady state: no system call, no page fault; and a thread that may not ask the system gets
 * a counted failure instead. */
#include "heaps.h"
#include <sys/resource.h>
#include <unistd.h>

enum { RESERVE = 4 << 20, SLOTS = 512, MOVES = 200000, PAUSE_MS = 300 };

static long faults(void)
{
  struct rusage usage;
  must(getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_minflt + usage.ru_majflt;
}

/* What a real-time thread may do: blocks of many sizes come and go within the reserve. */
static void steps(pool_heap_t *heap, uint64_t seed)
{
  static const size_t sizes[] = {16, 64, 200, 500, 1500, 4000, 20000};
  static void *slots[SLOTS];
  dice_t dice = {seed};
  for (size_t i = 0; i < MOVES; i++) {
    size_t at = dice_below(&dice, SLOTS);
    pool_heap_free(heap, slots[at]);
    must(slots[at] = pool_heap_alloc(heap, sizes[dice_below(&dice, COUNT_OF(sizes))]));
    *(volatile char *)slots[at] = 1;
  }
  for (size_t i = 0; i < SLOTS; i++) {
    pool_heap_free(heap, slots[i]);
    slots[i] = NULL;
  }
}

typedef struct plan {
  pool_heap_options_t options;
  bool                forbid;
} plan_t;

/* Memory that others have freed and that is due to be given back: not by this thread. */
static void leave_idle_memory(void)
{
  list_t list = {0};
  list_take_many(&list, pool_heap_default(), 100, 200000);
  list_free(&list, pool_heap_default());
}

static void wait_busily(pool_heap_t *heap, unsigned ms)
{
  uint64_t seed = ms;
  for (uint64_t end = now_ns() + ms * 1000000ull; now_ns() < end; seed++)
    steps(heap, seed);
}

/* The caller's memory is the caller's to touch. */
static pool_heap_t *new_heap(const plan_t *plan)
{
  if (plan->options.memory)
    memset(plan->options.memory, 1, plan->options.memory_size);
  pool_heap_t *heap = pool_heap_create(&plan->options);
  must(heap);
  return heap;
}

static void steady_state(void *argument)
{
  const plan_t *plan = argument;
  pool_heap_t *heap = new_heap(plan);
  if (plan->forbid)
    leave_idle_memory();
  pool_forbid_system_calls(false);
  wait_busily(heap, 1);           /* the clock and this code are mapped by their first use, too */
  long before = faults();
  must(!pool_forbid_system_calls(plan->forbid));
  wait_busily(heap, PAUSE_MS);
  if (faults() != before)
    fprintf(stderr, "%ld page faults\n", faults() - before);
  must(faults() == before);
  must(stats_of(heap).exhausted_count == 0);
  no_more_system_calls();
  steps(heap, 3);
}

/* Without the pause, and from the first call on under the filter. */
static void sealed(void *argument)
{
  const plan_t *plan = argument;
  pool_heap_t *heap = new_heap(plan);
  if (plan->forbid)
    leave_idle_memory();
  steps(heap, 1);
  pool_forbid_system_calls(plan->forbid);
  no_more_system_calls();
  for (uint64_t i = 0; i < 10; i++)
    steps(heap, i);
}

static void no_call_and_no_fault(void **state)
{
  (void)state;
  static char buffer[2 * RESERVE];
  const plan_t plans[] = {
    {{.reserve = RESERVE, .flags = POOL_HEAP_PREFAULT}, false},
    {{.reserve = RESERVE, .flags = POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY}, false},
    {{.reserve = RESERVE, .flags = POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_SINGLE_THREAD}, false},
    {{.reserve = RESERVE, .budget = 2 * RESERVE, .flags = POOL_HEAP_PREFAULT}, false},
    {{.reserve = RESERVE, .flags = POOL_HEAP_PREFAULT}, true},
    {{.reserve = RESERVE, .flags = POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_SINGLE_THREAD}, true},
    {{.memory = buffer, .memory_size = sizeof buffer}, false},
  };
  struct rlimit limit;
  getrlimit(RLIMIT_MEMLOCK, &limit);
  for (size_t i = 0; i < COUNT_OF(plans); i++) {
    if (plans[i].options.flags & POOL_HEAP_LOCK_MEMORY && limit.rlim_cur < 2 * RESERVE && geteuid() != 0)
      continue;
    print_message("plan %zu\n", i);
    plan_t plan = plans[i];
    in_sealed_child(steady_state, &plan);
    in_sealed_child(sealed, &plan);
  }
}

/* ---- pool_forbid_system_calls ---- */

static unsigned long refused(void)
{
  static char text[64 << 10];
  pool_stats_json(text, sizeof text);
  const char *count = strstr(text, "\"refused_system_calls\":");
  must(count);
  return strtoul(strchr(count, ':') + 1, NULL, 10);
}

static void forbidden_growth_fails(void **state)
{
  (void)state;
  unsigned long refused_before = refused();
  pool_heap_t *heap = heap_with((pool_heap_options_t){.reserve = 1 << 20});
  assert_false(pool_forbid_system_calls(true));
  assert_true(pool_forbid_system_calls(true));
  list_t list = {0};
  while (list.count < 1000000 && list_take(&list, heap, 4000)) {
  }
  void *huge = pool_heap_alloc(heap, opaque((size_t)8 << 30));
  assert_true(pool_forbid_system_calls(false));
  assert_false(pool_forbid_system_calls(false));
  assert_null(huge);
  assert_true(stats_of(heap).exhausted_count >= 1);
  assert_true(refused() >= refused_before + 2);
  assert_true(list.count * 4096 >= (1 << 20) * 9 / 10);
  list_free(&list, heap);
  huge = pool_heap_alloc(heap, opaque((size_t)8 << 30));
  assert_non_null(huge);
  pool_heap_free(heap, huge);
  pool_heap_destroy(heap);
  assert_true(check_everything());
}

static void other_threads_may(size_t index, void *heap)
{
  (void)index;
  must(!pool_forbid_system_calls(false));
  void *block = pool_heap_alloc(heap, opaque((size_t)4 << 30));
  must(block);
  pool_heap_free(heap, block);
}

static void only_the_calling_thread(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  pool_forbid_system_calls(true);
  run_threads(2, other_threads_may, heap);
  assert_true(pool_forbid_system_calls(false));
  pool_heap_destroy(heap);
}

/* Giving back is refused as well; nothing is lost by it. */
static void forbidden_trim_gives_nothing(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 32 << 20});
  list_t list = {0};
  list_take_many(&list, heap, 1000, 10000);
  list_free(&list, heap);
  pool_forbid_system_calls(true);
  assert_int_equal(pool_heap_trim(heap, 0), 0);
  pool_forbid_system_calls(false);
  assert_true(check_everything());
  pool_heap_destroy(heap);
  pool_trim(0);
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_call_and_no_fault),
    cmocka_unit_test(forbidden_growth_fails),
    cmocka_unit_test(only_the_calling_thread),
    cmocka_unit_test(forbidden_trim_gives_nothing),
  };
  return cmocka_run_group_tests_name("real_time", tests, NULL, NULL);
}
