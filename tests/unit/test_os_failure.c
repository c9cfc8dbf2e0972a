/* SPDX-License-Identifier: MIT
 *
 * The same trace of requests again and again, each time with another call to the system failing: the first, the second, ...
 * until the trace is over before its turn comes. Whatever fails, a request is served or answered with NULL and ENOMEM, live
 * blocks keep what is in them, the invariants hold, and with the system well again everything can be had and given back.
 *
 * Each run is a child of its own, so that the manager comes up in it under failures too. */
#include "heap/heap.h"
#include "os_fake.h"
#include "unit.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { SLOTS = 96, STEPS_OF_TRACE = 1000, ERRNO_BEFORE = 77 };

typedef struct slot {
  void *block;
  size_t size;
  uint64_t key;
} slot_t;

typedef struct trace {
  dice_t dice;
  slot_t slots[SLOTS];
  uint64_t refused;
} trace_t;

typedef struct report {
  uint64_t failed;  /* calls of the system */
  uint64_t refused; /* requests */
} report_t;

static report_t *report; /* shared with the children */

static size_t some_size(dice_t *dice)
{
  switch (dice_below(dice, 24)) {
  case 0:
    return 0;
  case 1:
    return dice_below(dice, SIZE_CACHED);
  case 2:
    return SIZE_CACHED + dice_below(dice, SIZE_MAX_CLASS - SIZE_CACHED);
  case 3:
    return SIZE_MAX_CLASS + dice_below(dice, 8 * MIB);
  case 4:
    return dice_below(dice, 40) ? dice_below(dice, 64 * KIB) : 300 * MIB + dice_below(dice, 8 * MIB);
  default:
    return dice_below(dice, 2 * KIB);
  }
}

static void keep(trace_t *trace, slot_t *slot, void *block, size_t size)
{
  must(errno == (block ? ERRNO_BEFORE : ENOMEM));
  trace->refused += !block;
  *slot = (slot_t){block, block ? size : 0, dice_roll(&trace->dice)};
  if (!block)
    return;
  must((uintptr_t)block % BLOCK_ALIGNMENT == 0 && pool_usable_size(block) >= size);
  pattern_write(block, size, slot->key);
}

static void let_go(slot_t *slot)
{
  must(!slot->block || pattern_holds(slot->block, slot->size, slot->key));
  errno = ERRNO_BEFORE;
  pool_free(slot->block);
  must(errno == ERRNO_BEFORE);
  slot->block = NULL;
}

static void step_allocate(trace_t *trace, slot_t *slot)
{
  size_t size = some_size(&trace->dice);
  let_go(slot);
  errno = ERRNO_BEFORE;
  keep(trace, slot, pool_alloc(size), size);
}

static void step_zeroed(trace_t *trace, slot_t *slot)
{
  size_t size = min_size(some_size(&trace->dice), MIB);
  let_go(slot);
  errno = ERRNO_BEFORE;
  void *block = pool_calloc(1, size);
  must(!block || all_zero(block, pool_usable_size(block)));
  keep(trace, slot, block, size);
}

static void step_aligned(trace_t *trace, slot_t *slot)
{
  size_t size = some_size(&trace->dice),
         alignment = (size_t)1 << dice_below(&trace->dice, dice_below(&trace->dice, 30) ? 18 : 31);
  let_go(slot);
  errno = ERRNO_BEFORE;
  void *block = pool_aligned_alloc(alignment, size);
  must((uintptr_t)block % alignment == 0);
  keep(trace, slot, block, size);
}

static void step_reallocate(trace_t *trace, slot_t *slot)
{
  size_t size = some_size(&trace->dice) + 1, kept = min_size(size, slot->size);
  errno = ERRNO_BEFORE;
  void *block = pool_realloc(slot->block, size);
  if (!block) {
    must(errno == ENOMEM);
    must(!slot->block || pattern_holds(slot->block, slot->size, slot->key));
    trace->refused++;
    return;
  }
  must(!slot->block || pattern_kept(block, kept, slot->size, slot->key));
  keep(trace, slot, block, size);
}

static void step_resize(trace_t *trace, slot_t *slot)
{
  size_t size = some_size(&trace->dice) + 1;
  errno = ERRNO_BEFORE;
  bool resized = pool_resize_in_place(slot->block, size);
  must(errno == ERRNO_BEFORE);
  if (resized) {
    must(pattern_kept(slot->block, min_size(size, slot->size), slot->size, slot->key));
    keep(trace, slot, slot->block, size);
  }
}

static void step_batch(trace_t *trace, slot_t *slot)
{
  void *blocks[100];
  size_t size = dice_below(&trace->dice, 3000);
  (void)slot;
  errno = ERRNO_BEFORE;
  size_t got = pool_alloc_batch(size, blocks, 100);
  must(errno == (got == 100 ? ERRNO_BEFORE : ENOMEM));
  trace->refused += got != 100;
  for (size_t i = 0; i < got; i++)
    pattern_write(blocks[i], size, i);
  for (size_t i = 0; i < got; i++)
    must(pattern_holds(blocks[i], size, i));
  pool_free_batch(blocks, got);
}

/* Another thread takes the block over, and leaves one behind. */
static void *thread_of_step(void *argument)
{
  slot_t *slot = argument;
  must(!slot->block || pattern_holds(slot->block, slot->size, slot->key));
  pool_free(slot->block);
  void *few[40];
  size_t got = pool_alloc_batch(200, few, 40);
  pool_free_batch(few, got);
  slot->size = 100;
  errno = ERRNO_BEFORE;
  slot->block = pool_alloc(slot->size);
  must(errno == (slot->block ? ERRNO_BEFORE : ENOMEM));
  if (slot->block)
    pattern_write(slot->block, slot->size, slot->key);
  return NULL;
}

static void step_thread(trace_t *trace, slot_t *slot)
{
  pthread_t thread;
  (void)trace;
  must(pthread_create(&thread, NULL, thread_of_step, slot) == 0);
  must(pthread_join(thread, NULL) == 0);
}

static void step_time(trace_t *trace, slot_t *slot)
{
  (void)slot;
  os_fake.now_ms += 60;
  errno = ERRNO_BEFORE;
  if (dice_below(&trace->dice, 3) == 0)
    pool_trim(dice_below(&trace->dice, 2) * MIB);
  must(errno == ERRNO_BEFORE);
}

static void one_step(trace_t *trace)
{
  slot_t *slot = &trace->slots[dice_below(&trace->dice, SLOTS)];
  size_t n = dice_below(&trace->dice, 200);
  if (n < 1)
    step_thread(trace, slot);
  else if (n < 8)
    step_time(trace, slot);
  else if (n < 12)
    step_batch(trace, slot);
  else if (n < 20)
    step_aligned(trace, slot);
  else if (n < 36)
    step_zeroed(trace, slot);
  else if (n < 60)
    step_reallocate(trace, slot);
  else if (n < 70)
    step_resize(trace, slot);
  else if (n < 120)
    let_go(slot);
  else
    step_allocate(trace, slot);
}

static size_t live_slots(const trace_t *trace)
{
  size_t live = 0;
  for (size_t i = 0; i < SLOTS; i++)
    live += trace->slots[i].block != NULL;
  return live;
}

static void run_trace(trace_t *trace)
{
  *trace = (trace_t){.dice = {1}};
  for (size_t i = 0; i < STEPS_OF_TRACE; i++)
    one_step(trace);
}

/* With nothing failing any more. */
static void settle_up(trace_t *trace)
{
  pool_stats_t stats;
  os_fake_heal();
  must(check_everything());
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == live_slots(trace));
  for (size_t i = 0; i < SLOTS; i++) {
    let_go(&trace->slots[i]);
    errno = ERRNO_BEFORE;
    keep(trace, &trace->slots[i], pool_alloc(i * 1000), i * 1000);
    must(trace->slots[i].block);
  }
  for (size_t i = 0; i < SLOTS; i++)
    let_go(&trace->slots[i]);
  pool_trim(0);
  must(check_everything());
  must(default_heap.budget.held == default_heap.record_bytes + default_heap.record_run_bytes);
  must(space_of_process.used_units << UNIT_LOG2 == default_heap.record_run_bytes && space_of_process.dirty_units == 0);
}

static void run_with_failures(uint64_t from, uint64_t to)
{
  static trace_t trace;
  os_fake.refuse = false;
  os_fake.calls = 0;
  os_fake.failed = 0;
  os_fake.fail_from = from;
  os_fake.fail_to = to;
  run_trace(&trace);
  *report = (report_t){os_fake.failed, trace.refused};
  settle_up(&trace);
}

typedef struct failures {
  uint64_t from, to;
} failures_t;

static void run_in_child(void *argument)
{
  const failures_t *failures = argument;
  run_with_failures(failures->from, failures->to);
}

enum { A_FEW = 7 };

/* `length` calls in a row fail, from each call on in turn. */
static void fail_everywhere(uint64_t length, uint64_t step)
{
  uint64_t refused = 0, n = 1;
  for (bool touched = true; touched; n += step_of(step)) {
    failures_t failures = {n, n + length < n ? UINT64_MAX : n + length};
    *report = (report_t){0};
    in_child(run_in_child, &failures);
    touched = report->failed > 0;
    refused += report->refused;
  }
  print_message("%" PRIu64 " calls in a row, %" PRIu64 " calls in all: %" PRIu64 " requests refused\n", length, n - 1, refused);
  assert_true(n > 20);
  assert_true(refused > 0 || length <= A_FEW); /* a few are made up for: memory is looked for in more than one place */
}

static void one_call_fails(void **state)
{
  (void)state;
  fail_everywhere(1, 1);
}

static void some_calls_fail(void **state)
{
  (void)state;
  fail_everywhere(A_FEW, 3);
  fail_everywhere(10 * A_FEW, 7);
}

static void all_calls_fail_from_here(void **state)
{
  (void)state;
  fail_everywhere(UINT64_MAX, 3);
}

static void run_with_a_kind_failing(void *argument)
{
  static trace_t trace;
  os_fake.refuse = false;
  os_fake.fail_kinds = *(const uint32_t *)argument;
  run_trace(&trace);
  settle_up(&trace);
}

/* Some kinds of call may fail always: a system without mremap, a limit on mappings, a thread that cannot be told of its end. */
static void a_kind_of_call_fails(void **state)
{
  (void)state;
  for (uint32_t kind = 0; kind < OS_CALLS; kind++) {
    uint32_t kinds = (uint32_t)1 << kind;
    in_child(run_with_a_kind_failing, &kinds);
  }
}

static void run_with_pages(void *argument)
{
  os_fake.page_size = *(const size_t *)argument;
  run_with_failures(0, 0);
}

static void other_page_sizes(void **state)
{
  (void)state;
  for (size_t size = 16 * KIB; size <= 64 * KIB; size *= 2)
    in_child(run_with_pages, &size);
}

static void run_with_a_limit(void *argument)
{
  os_fake.memory_limit = *(const size_t *)argument;
  run_with_failures(0, 0);
  must(space_is_short);
  run_with_failures(40, 60);
}

static void little_memory(void **state)
{
  (void)state;
  for (size_t limit = 16 * MIB; limit < 256 * MIB; limit *= 3)
    in_child(run_with_a_limit, &limit);
}

/* With nothing left, a block of a larger class serves: zeroed to its own end, not to that of the class asked for. */
static void zeroed_though_borrowed(void *argument)
{
  enum { FEW = 40 };
  char *volatile blocks[FEW];
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < FEW; i++)
    blocks[i] = memset(pool_alloc(1024), 7, 1024);
  for (size_t i = 1; i < FEW; i++)
    pool_free(blocks[i]);
  pool_trim(SIZE_MAX);
  os_fake.refuse = true;
  while (pool_alloc(UNIT)) { /* what is mapped already */
  }
  for (size_t size = 700; size < 1000; size += 100) {
    char *block = pool_zalloc(size);
    must(block && pool_usable_size(block) == 1024 && all_zero(block, 1024));
    pattern_write(blocks[0] = block, 1024, 7);
  }
}

static void zeroed_though_borrowed_test(void **state)
{
  (void)state;
  in_child(zeroed_though_borrowed, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_call_fails),
    cmocka_unit_test(some_calls_fail),
    cmocka_unit_test(all_calls_fail_from_here),
    cmocka_unit_test(a_kind_of_call_fails),
    cmocka_unit_test(other_page_sizes),
    cmocka_unit_test(little_memory),
    cmocka_unit_test(zeroed_though_borrowed_test),
  };
  report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return cmocka_run_group_tests_name("failures of the system", tests, NULL, NULL);
}
