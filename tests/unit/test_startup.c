/* SPDX-License-Identifier: MIT
 * The manager comes up: with nothing to be had at first, and in all threads at once. */
#include "heap/life.h"
#include "heap/tick.h"
#include "os_fake.h"
#include "sleepers.h"
#include "space/metadata.h"
#include <errno.h>
#include <tidepool/stats.h>
#include <unistd.h>

static void refused_at_first(void *argument)
{
  const uint32_t *kinds = argument;
  os_fake_heal();
  os_fake.fail_kinds = *kinds;
  for (size_t i = 0; i < 3; i++) {
    errno = 0;
    must(!pool_alloc(100) && errno == ENOMEM);
    errno = 0;
    must(!pool_calloc(10, 100000) && errno == ENOMEM);
    errno = 0;
    must(!pool_heap_create(NULL) && errno == ENOMEM);
    must(!pool_in_use(argument) && !pool_heap_of(&kinds) && pool_trim(0) == 0);
  }
  os_fake_heal();
  void *block = pool_alloc(100);
  must(block && pool_heap_of(block) == pool_heap_default() && check_everything());
  pool_free(block);
  must(check_everything());
}

static void refused_at_first_test(void **state)
{
  static const uint32_t kinds[] = {UINT32_MAX, 1 << OS_MAP_AT, 1 << OS_MAP_AT | 1 << OS_UNMAP};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    in_child(refused_at_first, (void *)(uintptr_t)&kinds[i]);
}

/* Whatever is left of the manager's own memory goes first, so no bin can have a record of it. */
static void use_up_metadata(void)
{
  for (size_t size = 64 << 10; size >= METADATA_ALIGNMENT; size /= 2)
    while (metadata_take(size, METADATA_ALIGNMENT)) {}
}

/* A first request of a class is served from free units, also if the system has no memory for the record of its bin. */
static void new_classes_in_free_units(void *argument)
{
  enum { LARGE = 16 };
  void *blocks[CLASS_COUNT], *large[LARGE];
  pool_stats_t before, after;
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < LARGE; i++)
    must(large[i] = pool_alloc(MIB));
  for (size_t i = 0; i < LARGE; i++)
    pool_free(large[i]);
  os_fake.fail_kinds = UINT32_MAX;
  use_up_metadata();
  must(pool_heap_stats(pool_heap_default(), &before));
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    errno = 0;
    blocks[c] = pool_calloc(1, size_class_size(c));
    must(blocks[c] && !errno && pool_usable_size(blocks[c]) == size_class_size(c));
  }
  must(pool_heap_stats(pool_heap_default(), &after) && after.metadata_bytes >= before.metadata_bytes + UNIT);
  must(after.held_bytes == after.live_bytes + after.cached_bytes + after.idle_bytes + after.metadata_bytes);
  must(!pool_in_use(default_heap.bins[CLASS_LAST]) && !pool_heap_of(default_heap.bins[CLASS_LAST]));
  os_fake_heal(); /* a check needs memory */
  must(check_everything());
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    pool_free(blocks[c]);
  pool_trim(0);
  must(check_everything());
  must(default_heap.budget.held == default_heap.record_bytes + default_heap.record_run_bytes);
}

IN_CHILD(new_classes_in_free_units)

static void *come_up(void *argument)
{
  void **block = argument;
  pthread_barrier_wait(&all_there);
  *block = pool_alloc(100);
  must(*block && manager_ready());
  return NULL;
}

/* Many threads are the first at once. */
static void all_at_once(void *argument)
{
  pthread_t threads[8];
  void *blocks[8];
  (void)argument;
  os_fake_heal();
  pthread_barrier_init(&all_there, NULL, 8);
  for (size_t i = 0; i < 8; i++)
    must(pthread_create(&threads[i], NULL, come_up, &blocks[i]) == 0);
  for (size_t i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 0; i < 8; i++)
    for (size_t j = 0; j < i; j++)
      must(blocks[i] != blocks[j]);
  must(check_everything());
}

IN_CHILD(all_at_once)

/* Without the thread the program goes on, with a line; asked for it by name it is told. */
static void without_a_thread(void *argument)
{
  int said[2];
  char words[200] = "";
  (void)argument;
  os_fake_heal();
  must(pipe(said) == 0 && dup2(said[1], STDERR_FILENO) == STDERR_FILENO);
  must(pool_option_set("background", "1"));
  void *block = pool_alloc(100);
  must(block && read(said[0], words, sizeof words - 1) > 0);
  must(!strcmp(words, "tidepool: background=1: no thread could be started; memory is returned in calls\n"));
  errno = 0;
  must(!pool_background_start() && errno == EAGAIN);
  pool_background_stop();
  pool_free(block);
}

static size_t starts;

/* The allocation takes a slow path, which looks whether a helper is due. */
static void allocate_in_start(void)
{
  if (++starts < 10)
    heap_look_at_clock(thread_current());
}

/* The child of a fork has a helper due when it starts one itself. */
static void started_while_due(void *argument)
{
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(100));
  helpers_due = HELPER_BACKGROUND;
  os_fake.starting = allocate_in_start;
  must(!pool_background_start() && starts == 1 && !helpers_due);
}

IN_CHILD(without_a_thread)
IN_CHILD(started_while_due)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(refused_at_first_test),  cmocka_unit_test(new_classes_in_free_units_test),
    cmocka_unit_test(all_at_once_test),       cmocka_unit_test(without_a_thread_test),
    cmocka_unit_test(started_while_due_test),
  };
  return cmocka_run_group_tests_name("startup", tests, NULL, NULL);
}
