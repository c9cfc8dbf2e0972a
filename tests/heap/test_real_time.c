/* SPDX-License-Identifier: MIT
 * A prefaulted, locked heap in steady state: no system call, no page fault; and a thread that may not ask the system gets
 * a counted failure instead. */
#include "../unit/json.h"
#include "heaps.h"
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* HUGE: a mapping of its own, and no more than any machine has. */
enum { RESERVE = 4 << 20, HUGE = 40 << 20, SLOTS = 512, MOVES = 20000, PURGE_MS = 20, EPOCHS = 20, TRIES = 5 };

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

/* By the clock that the library looks at, which is no system call on any machine. */
static uint64_t coarse_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Steps in so many epochs, in each of which idle memory is looked for. */
static void steps_of_many_epochs(pool_heap_t *heap)
{
  uint64_t last = 0;
  for (size_t epochs = 0, seed = 1; epochs < EPOCHS; seed++) {
    steps(heap, seed);
    uint64_t now = coarse_ms();
    if (now - last >= PURGE_MS) {
      epochs++;
      last = now;
    }
  }
}

typedef struct plan {
  pool_heap_options_t options;
  bool forbid;
} plan_t;

/* Memory that others have freed and that is due to be given back: not by this thread. */
static void leave_idle_memory(void)
{
  list_t list = {0};
  list_take_many(&list, pool_heap_default(), 100, 200000);
  list_free(&list, pool_heap_default());
}

/* The caller's memory is the caller's to touch. */
static pool_heap_t *new_heap(const plan_t *plan)
{
  if (plan->options.memory)
    memset(plan->options.memory, 1, plan->options.memory_size);
  pool_heap_t *heap = pool_heap_create(&plan->options);
  must(heap);
  if (plan->forbid)
    leave_idle_memory();
  must(!pool_forbid_system_calls(plan->forbid));
  return heap;
}

/* From the first call on. What is not given back cannot be missing later, so this is also why there are no page faults. */
static void without_system_calls(void *argument)
{
  pool_heap_t *heap = new_heap(argument);
  must(stats_of(heap).exhausted_count == 0);
  no_more_system_calls();
  steps_of_many_epochs(heap);
  must(stats_of(heap).exhausted_count == 0);
}

static long faults(void)
{
  struct rusage usage;
  must(getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_minflt + usage.ru_majflt;
}

static long *least_faults; /* shared with the children */

/* The code itself is mapped by its first use, which is in another heap. */
static void count_faults(void *argument)
{
  const plan_t *plan = argument,
               before_it = {.options = {.reserve = RESERVE, .flags = plan->options.flags & POOL_HEAP_SINGLE_THREAD}};
  steps(new_heap(&before_it), 1);
  pool_heap_t *heap = new_heap(plan);
  if (plan->options.flags & POOL_HEAP_PREFAULT)
    pool_free(pool_alloc(1)); /* the default heap has not been used by this thread before */
  long before = faults();
  steps(heap, 1);
  long count = faults() - before;
  *least_faults = count < *least_faults ? count : *least_faults;
}

/* The kernel takes pages away to move them, or to make huge ones of them, and their next use is a fault that is not the heap's.
 * What is the heap's comes every time. */
static void try_faults(plan_t *plan)
{
  *least_faults = LONG_MAX;
  for (unsigned i = 0; i<TRIES && * least_faults> 0; i++)
    in_child(count_faults, plan);
  assert_int_equal(*least_faults, 0);
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
  for (size_t i = 0; i < COUNT_OF(plans); i++) {
    plan_t plan = plans[i];
    if (plan.options.flags & POOL_HEAP_LOCK_MEMORY && !may_lock(2 * RESERVE))
      continue;
    print_message("plan %zu\n", i);
    in_sealed_child(without_system_calls, &plan);
    try_faults(&plan);
  }
}

/* ---- pool_forbid_system_calls ---- */

static void forbidden_growth_fails(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.reserve = 1 << 20});
  assert_false(pool_forbid_system_calls(true));
  assert_true(pool_forbid_system_calls(true));
  list_t list = {0};
  while (list.count < 1000000 && list_take(&list, heap, 4000)) {}
  void *huge = pool_heap_alloc(heap, opaque(HUGE));
  assert_true(pool_forbid_system_calls(false));
  assert_false(pool_forbid_system_calls(false));
  assert_null(huge);
  assert_true(stats_of(heap).exhausted_count >= 1);
  assert_true(list.count * 4096 >= (1 << 20) * 9 / 10);
  list_free(&list, heap);
  huge = pool_heap_alloc(heap, opaque(HUGE));
  assert_non_null(huge);
  pool_heap_free(heap, huge);
  pool_heap_destroy(heap);
  assert_true(check_everything());
}

static uint64_t refused(void)
{
  json_read_process();
  return json_number("refused_system_calls");
}

static void refusals_are_counted(void **state)
{
  (void)state;
  pool_heap_t *heap;
  json_needed();
  uint64_t before = refused();
  assert_non_null(heap = heap_with((pool_heap_options_t){.reserve = 1 << 20}));
  assert_int_equal(refused(), before);
  assert_false(pool_forbid_system_calls(true));
  list_t list = {0};
  list_exhaust(&list, heap, 4000);
  void *huge = pool_heap_alloc(heap, opaque(HUGE));
  assert_true(pool_forbid_system_calls(false));
  assert_null(huge);
  assert_true(refused() >= before + 2);
  pool_heap_destroy(heap);
}

static void other_threads_may(size_t index, void *heap)
{
  (void)index;
  must(!pool_forbid_system_calls(false));
  void *block = pool_heap_alloc(heap, opaque(HUGE));
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

static bool is_gone(void *page)
{
  unsigned char in_memory;
  return mincore(page, 1, &in_memory) != 0 || !(in_memory & 1);
}

/* What is freed meanwhile is kept, and goes when it may: it is not lost. */
static void forbidden_free_is_made_up_for(void **state)
{
  (void)state;
  enum { BLOCKS = 8 };
  void *blocks[BLOCKS];
  pool_trim(0);
  size_t held = stats_of(pool_heap_default()).held_bytes;
  for (size_t i = 0; i < BLOCKS; i++)
    assert_non_null(blocks[i] = pool_alloc(opaque(HUGE)));
  pool_forbid_system_calls(true);
  for (size_t i = 0; i < BLOCKS; i++)
    pool_free(blocks[i]);
  pool_forbid_system_calls(false);
  for (size_t i = 0; i < BLOCKS; i++)
    assert_false(pool_in_use(blocks[i]));
  pool_trim(0);
  for (size_t i = 0; i < BLOCKS; i++)
    assert_true(is_gone(blocks[i]));
  assert_in_range(stats_of(pool_heap_default()).held_bytes, 0, held + (64 << 10)); /* records stay */
  assert_true(check_everything());
}

int main(void)
{
  least_faults = mmap(NULL, sizeof *least_faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(least_faults != MAP_FAILED && pool_option_set("purge_delay_ms", "20"));
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_call_and_no_fault),         cmocka_unit_test(forbidden_growth_fails),
    cmocka_unit_test(refusals_are_counted),         cmocka_unit_test(only_the_calling_thread),
    cmocka_unit_test(forbidden_trim_gives_nothing), cmocka_unit_test(forbidden_free_is_made_up_for),
  };
  return cmocka_run_group_tests_name("real_time", tests, NULL, NULL);
}
