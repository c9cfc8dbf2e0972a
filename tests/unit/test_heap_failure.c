/* SPDX-License-Identifier: MIT
 *
 * As test_os_failure.c does with the default heap, for heaps of each kind and object pools in them: one life of a heap, again
 * and again, each time with another call to the system failing, then with all that follow failing too. What was asked for is
 * had or answered with NULL and ENOMEM, the invariants hold, and at the end nothing is held. */
#include "heap/heap.h"
#include "option.h"
#include "os_fake.h"
#include "unit.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/mman.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/stats.h>

enum { BLOCKS = 200, OBJECTS = 1000 };

static const size_t some_classes[] = {16, 48, 1024, 65536, 262144};
static _Alignas(4096) char buffer[4 << 20];

static const struct kind {
  const char *name;
  pool_heap_options_t options;
} kinds[] = {
  {"of the system", {0}},
  {"of a small budget", {.budget = 2 << 20}},
  {"of a budget", {.budget = 32 << 20}},
  {"with a small reserve", {.reserve = 2 << 20}},
  {"with a reserve", {.reserve = 9 << 20}},
  {"prefaulted", {.reserve = 2 << 20, .flags = POOL_HEAP_PREFAULT}},
  {"locked", {.reserve = 9 << 20, .flags = POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY}},
  {"checked", {.flags = POOL_HEAP_CHECKED}},
  {"with classes", {.size_classes = some_classes, .size_class_count = 5}},
  {"with classes, reserve", {.size_classes = some_classes, .size_class_count = 5, .reserve = 3 << 20}},
  {"single thread", {.flags = POOL_HEAP_SINGLE_THREAD}},
  {"in memory", {.memory = buffer, .memory_size = sizeof buffer}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct report {
  uint64_t calls, refused;
} report_t;
static report_t *report; /* shared with the children */

/* True: it was had. */
static bool had(const void *what)
{
  must(what || errno == ENOMEM);
  report->refused += !what;
  return what != NULL;
}

static bool count_block(const pool_block_t *block, void *count)
{
  must(block->start);
  ++*(size_t *)count;
  return true;
}

static void *use_in_thread(void *heap)
{
  void *blocks[BLOCKS];
  size_t n = 0;
  while (n < BLOCKS && had(blocks[n] = pool_heap_alloc(heap, 40)))
    n++;
  while (n)
    pool_heap_free(heap, blocks[--n]);
  return NULL;
}

static void use_blocks(pool_heap_t *heap)
{
  static const size_t sizes[] = {16, 100, 1000, 9000, 40000, 300 << 10};
  void *blocks[BLOCKS];
  size_t n = 0, counted = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t size = sizes[i % 64 ? i % 4 : i % 6];
    if (had(blocks[n] = pool_heap_alloc(heap, size))) {
      pattern_write(blocks[n], size, n);
      must(pattern_holds(blocks[n], size, n));
      n++;
    }
  }
  for (size_t i = 0; i < n; i += 2)
    pool_heap_free(heap, blocks[i]);
  must(pool_heap_walk(heap, count_block, &counted));
  must(counted == n / 2);
  for (size_t i = 1; i < n; i += 2)
    pool_heap_free(heap, blocks[i]);
}

static bool construct(void *object, void *context)
{
  (void)context;
  *(size_t *)object = 7;
  return true;
}

static void use_objects(const object_pool_options_t *options)
{
  static void *objects[OBJECTS];
  object_pool_t *bin = object_pool_create(options);
  if (!had(bin))
    return;
  size_t n = 0;
  while (n < OBJECTS && had(objects[n] = object_pool_get(bin))) {
    memset(objects[n], 1, options->object_size);
    n++;
  }
  must(object_pool_live(bin) == n);
  for (size_t i = 0; i < n; i += 2)
    object_pool_put(bin, objects[i]);
  object_pool_shrink(bin, 0);
  object_pool_put_all(bin);
  object_pool_destroy(bin);
}

static void live(const struct kind *kind)
{
  errno = 0;
  pool_heap_t *heap = pool_heap_create(&kind->options);
  if (!had(heap))
    return;
  unsigned flags = kind->options.flags & POOL_HEAP_SINGLE_THREAD ? OBJECT_POOL_SINGLE_THREAD : 0;
  use_objects(
    &(object_pool_options_t){.object_size = 24, .capacity = 8, .when_full = OBJECT_POOL_GROW, .heap = heap, .flags = flags});
  use_objects(&(object_pool_options_t){.object_size = 200,
                                       .when_full = OBJECT_POOL_GROW,
                                       .heap = heap,
                                       .flags = OBJECT_POOL_CHECKED | flags,
                                       .construct = construct});
  use_objects(&(object_pool_options_t){
    .object_size = 3000, .capacity = 50, .when_full = OBJECT_POOL_GROW, .heap = heap, .flags = OBJECT_POOL_SINGLE_THREAD});
  use_blocks(heap);
  if (!(kind->options.flags & POOL_HEAP_SINGLE_THREAD)) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, use_in_thread, heap) == 0);
    must(pthread_join(thread, NULL) == 0);
  }
  uint64_t fail_to = os_fake.fail_to;
  os_fake.fail_to = 0; /* the checks need memory of their own */
  must(check_everything());
  os_fake.fail_to = fail_to;
  pool_heap_destroy(heap);
}

static void nothing_is_held(void)
{
  pool_trim(0);
  must(check_everything());
  must(default_heap.budget.held == 0 && space_of_process.used_units == 0 && space_of_process.dirty_units == 0);
}

typedef struct failures {
  const struct kind *kind;
  uint64_t from, to;
} failures_t;

/* What it is asked for here is more than it has. */
static bool is_bounded(const struct kind *kind)
{
  return (kind->options.budget && kind->options.budget < 8 << 20) || kind->options.memory;
}

static void live_with_failures(void *argument)
{
  const failures_t *failures = argument;
  os_fake_heal();
  os_fake.fail_from = failures->from;
  os_fake.fail_to = failures->to;
  live(failures->kind);
  report->calls = os_fake.calls;
  os_fake_heal();
  nothing_is_held();
  uint64_t refused = report->refused;
  live(failures->kind);
  must(is_bounded(failures->kind) || report->refused == refused);
  nothing_is_held();
}

/* `length` calls in a row fail, from each `step`-th on in turn. */
static void fail_everywhere(const struct kind *kind, uint64_t length, uint64_t step)
{
  uint64_t refused = 0, n = 1 - step_of(step);
  do {
    n += step_of(step);
    failures_t failures = {kind, n, n + length < n ? UINT64_MAX : n + length};
    *report = (report_t){0};
    in_child_named(kind->name, live_with_failures, &failures);
    refused += report->refused;
  } while (report->calls >= n);
  print_message("%s: %" PRIu64 " calls, %" PRIu64 " in a row: %" PRIu64 " requests refused\n", kind->name, report->calls,
                length, refused);
}

static void one_call_fails(void **state)
{
  (void)state;
  for (size_t i = 0; i < KINDS; i++)
    fail_everywhere(&kinds[i], 1, 1);
}

static void all_calls_fail_from_here(void **state)
{
  (void)state;
  for (size_t i = 0; i < KINDS; i++)
    fail_everywhere(&kinds[i], UINT64_MAX, 3);
}

/* ---- what fails without a call of the system's ---- */

static void without_a_manager(void *none)
{
  (void)none;
  errno = 0; /* nothing was to be had so far */
  must(!object_pool_create(&(object_pool_options_t){.object_size = 24, .capacity = 8}) && errno == ENOMEM);
  os_fake_heal();
  use_objects(&(object_pool_options_t){.object_size = 24, .when_full = OBJECT_POOL_GROW});
}

/* A heap in the caller's memory is charged what its own records take. */
static void memory_over_a_budget(void *none)
{
  (void)none;
  os_fake_heal();
  errno = 0;
  must(!pool_heap_create(&(pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .budget = 1}) &&
       errno == EINVAL);
  pool_heap_t *parent = pool_heap_create(&(pool_heap_options_t){.budget = 64 << 20});
  must(parent && pool_heap_set_budget(parent, budget_held(&parent->budget)));
  errno = 0;
  must(!pool_heap_create(&(pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .parent = parent}) &&
       errno == ENOMEM);
  must(check_everything());
  pool_heap_destroy(parent);
  nothing_is_held();
}

static bool stop_at(const pool_block_t *block, void *start) { return block->start != start; }

static void walk_that_stops(void *none)
{
  static const size_t sizes[] = {16, 40000, 300 << 10, 300 << 20};
  (void)none;
  os_fake_heal();
  pool_heap_t *heap = pool_heap_create(NULL);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *block = pool_heap_alloc(heap, sizes[i]);
    must(block && !pool_heap_walk(heap, stop_at, block));
  }
  must(pool_heap_walk(heap, stop_at, NULL));
  pool_heap_destroy(heap);
}

/* The system has nothing left, but the process has: units that were freed, and what the default heap has cached. A block that
 * grows needs only what it does not have yet, of its budget too. */
typedef struct grown {
  size_t budget, freed_size;
} grown_t;

static void grow_where_the_system_has_nothing_left(void *argument)
{
  enum { FREED = 30 * MIB };
  static void *freed[FREED / 500];
  const grown_t *grown = argument;
  os_fake_heal();
  pool_free(pool_alloc(1));
  os_memory_limit = GIB; /* so the block is a mapping */
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = grown->budget});
  void *block = pool_heap_alloc(heap, 60 * MIB);
  size_t count = FREED / grown->freed_size;
  for (size_t i = 0; i < count; i++)
    must((freed[i] = pool_alloc(grown->freed_size)) != NULL);
  settings.purge_delay_ms = space_of_process.purge_delay_ms = PURGE_NEVER;
  for (size_t i = 0; i < count; i++)
    pool_free(freed[i]);
  os_fake.mapped_most = os_fake.mapped_bytes + 2 * MIB;
  must((block = pool_heap_realloc(heap, block, 80 * MIB)) != NULL);
  pool_heap_free(heap, block);
  pool_heap_destroy(heap);
}

/* Where a budget refuses, nobody else's memory is given back for it. */
static void refused_by_a_budget(void *argument)
{
  enum { LARGE = 16 };
  static void *blocks[LARGE];
  (void)argument;
  os_fake_heal();
  settings.purge_delay_ms = space_of_process.purge_delay_ms = PURGE_NEVER;
  pool_free(pool_alloc(48 * MIB));
  pool_free(pool_alloc(2 * MIB));
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = LARGE * MIB});
  size_t count = 0;
  while (count < LARGE && (blocks[count] = pool_heap_alloc(heap, MIB)) != NULL)
    count++;
  pool_heap_free(heap, blocks[3]);
  pool_heap_free(heap, blocks[6]);
  pool_stats_t before, after;
  pool_heap_stats(pool_heap_default(), &before);
  must(before.idle_bytes >= 24 * MIB);
  for (int i = 0; i < 3; i++)
    must(!pool_heap_realloc(heap, blocks[0], 4 * MIB + 1) && !pool_heap_alloc(heap, 4 * MIB + 1));
  pool_heap_stats(pool_heap_default(), &after);
  must(after.purged_bytes == before.purged_bytes && after.idle_bytes == before.idle_bytes);
  pool_heap_destroy(heap);
}

static void in_children(void **state)
{
  (void)state;
  in_child_named("without a manager", without_a_manager, NULL);
  in_child_named("memory over a budget", memory_over_a_budget, NULL);
  in_child_named("a walk that stops", walk_that_stops, NULL);
  in_child_named("refused by a budget", refused_by_a_budget, NULL);
  static const grown_t grown[] = {{0, 2 << 20}, {100 << 20, 2 << 20}, {139 << 20, 2 << 20},
                                  {0, 500},     {100 << 20, 500},     {100 << 20, 20000}};
  for (size_t i = 0; i < sizeof grown / sizeof *grown; i++)
    in_child_named("growth", grow_where_the_system_has_nothing_left, (void *)(uintptr_t)&grown[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_call_fails),
    cmocka_unit_test(all_calls_fail_from_here),
    cmocka_unit_test(in_children),
  };
  report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return cmocka_run_group_tests_name("failures of the system, heaps", tests, NULL, NULL);
}
