/* SPDX-License-Identifier: MIT
 * The depots of the default heap: how many there are, and what a fork leaves of them to the child. */
#include "bin/bin.h"
#include "check/check.h"
#include "heap/heap.h"
#include "os_fake.h"
#include "sleepers.h"
#include "space/metadata.h"
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

static void take_and_give(const bin_t *of)
{
  enum { BLOCKS = 20000 }; /* more than a thread keeps */
  static void *blocks[BLOCKS];
  size_t count = 0;
  while (count < BLOCKS && (blocks[count] = pool_alloc(of->block_size)) != NULL)
    count++;
  must(count > 0);
  while (count)
    pool_free(blocks[--count]);
}

enum { SHARD = 1, PROCESSORS = 20, SHARDS = 32, MANY = DEPOT_SHARDS + 1 };

/* With many depots the count of all follows in steps: hand-overs at one depot do not change it. It is exact where all are
 * empty. */
static void counted_in_steps(void)
{
  enum { FIRST = 8, FILLED = 3, THIEF = FIRST + FILLED, PER_DEPOT = DEPOT_STEP - 1 }; /* of which nobody needs anything */
  bin_t *of = heap_bin(&default_heap, size_class_of(100));
  unsigned k = of->magazine_capacity;
  void **tops[FILLED * PER_DEPOT];
  pool_trim(0);
  must(of->depots.count == 0);
  for (unsigned i = 0; i < FILLED * PER_DEPOT; i++)
    must((tops[i] = bin_exchange_empty(of, NULL, k, THIEF)) != NULL);
  size_t blocks = 0;
  for (unsigned i = 0; i < FILLED * PER_DEPOT; i++) {
    blocks += magazine_entries(tops[i]);
    depots_push(&of->depots, FIRST + i % FILLED, tops[i]);
  }
  must(of->depots.count == 0 && bin_figures(of, 0).cached_blocks == blocks);
  for (unsigned i = 0; i < FILLED * PER_DEPOT; i++)
    must(bin_depot_holds(of, *tops[i]));
  depots_push(&of->depots, FIRST, bin_exchange_empty(of, NULL, k, THIEF));
  must(of->depots.count == DEPOT_STEP);
  for (unsigned i = 0; i < 2 * DEPOT_STEP; i++) {
    void **top = depots_steal(&of->depots, THIEF, NULL, false);
    must(top && of->depots.count == DEPOT_STEP);
    depots_push(&of->depots, FIRST, top);
    must(of->depots.count == DEPOT_STEP);
  }
  bin_become_due(of);
  must(check_everything());
  pool_trim(0);
  must(of->depots.count == 0 && check_everything());
}

/* A magazine that was there before the depots were many is counted by itself, not by a step; one that came later, not at all.
 * Ticks take both away, and then have nothing to do with the bin any more. */
static void the_count_ends_at_nothing(void *argument)
{
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(16)); /* the manager is up */
  heap_size_depots(PROCESSORS);
  bin_t *of = heap_bin(&default_heap, size_class_of(100));
  must(of);
  unsigned k = of->magazine_capacity;
  void **first = bin_exchange_empty(of, NULL, k, SHARD), **top = bin_exchange_empty(of, NULL, k, SHARD);
  must(top && first && magazine_entries(first) == k);
  bin_give_magazine(of, first, SHARD);
  must(of->depots.count == 1);
  depots_add(&of->depots);
  must(of->depots.shards == SHARDS);
  depots_push(&of->depots, SHARDS - 1, top);
  must(of->depots.count == 1);
  for (int i = 0; i < 100 && of->due; i++) {
    bins_begin_tick();
    bins_tick(UINT_MAX, 1, (uint64_t)i * 1000);
  }
  must(!of->due && of->depots.count == 0 && of->outstanding == 0 && check_everything());
}

/* A magazine that the count of all does not have is found where no other block can be had. */
static void none_is_overlooked(void)
{
  enum { FIRST = 8, MOST = 20000 };
  static void **tops[MOST];
  bin_t *of = heap_bin(&default_heap, size_class_of(100));
  unsigned k = of->magazine_capacity, count = 0;
  void **hidden = bin_exchange_empty(of, NULL, k, 0);
  bool found = false;
  must(hidden && os_fake.processor % SHARDS != FIRST);
  depots_push(&of->depots, FIRST, hidden);
  must(!depots_seem_filled(&of->depots));
  os_fake.fail_kinds = UINT32_MAX;
  for (; count < MOST && (tops[count] = bin_exchange_empty(of, NULL, k, 0)) != NULL; count++)
    found |= tops[count] == hidden;
  os_fake_heal();
  must(found && count < MOST);
  while (count)
    bin_give_magazine(of, tops[--count], 0);
  must(check_everything());
}

/* With many processors the default heap has a depot for each, once there are more threads than depots; and with too little
 * memory for them those of the record. */
static void as_many_as_processors(void *argument)
{
  pthread_t thread;
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(16)); /* the manager is up */
  heap_size_depots(PROCESSORS);
  bin_t *many = heap_bin(&default_heap, size_class_of(100));
  must(many);
  take_and_give(many);
  must(many->depots.shards == DEPOT_SHARDS);
  pthread_barrier_init(&all_there, NULL, 2);
  for (unsigned i = 1; i < MANY; i++) {
    must(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
    pthread_barrier_wait(&all_there);
  }
  os_fake.fail_kinds = UINT32_MAX;
  while (metadata_take(METADATA_ALIGNMENT, METADATA_ALIGNMENT)) {}
  take_and_give(many);
  must(many->depots.shards == DEPOT_SHARDS);
  os_fake_heal();
  for (os_fake.processor = 0; os_fake.processor < PROCESSORS; os_fake.processor += 7) {
    take_and_give(many);
    must(many->depots.shards == SHARDS && depot_at(&many->depots, os_fake.processor)->count > 0);
    must(check_everything());
    pool_trim(0);
  }
  counted_in_steps();
  none_is_overlooked();
  pool_heap_t *other = pool_heap_create(NULL);
  must(other && pool_heap_alloc(other, 100));
  bin_t *few = heap_bin(other, size_class_of(100));
  must(few->depots.shards == 0);
  bin_give_magazine(few, bin_exchange_empty(few, NULL, few->magazine_capacity, 0), 0);
  must(few->depots.shards == DEPOT_SHARDS && bins_with_depots == few);
  pool_heap_destroy(other);
  must(check_everything());
}

/* At a fork, another thread had put a magazine into a depot, but had not made the bin due yet. */
static void the_child_makes_it_due(void *argument)
{
  pthread_t thread;
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(16)); /* the manager is up */
  pthread_barrier_init(&all_there, NULL, 2);
  must(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
  pthread_barrier_wait(&all_there);
  bin_t *of = heap_bin(&default_heap, size_class_of(100));
  must(of);
  unsigned k = of->magazine_capacity;
  void **top = bin_exchange_empty(of, NULL, k, SHARD);
  must(top && top == magazine_floor(magazine_of(top), k) + k);
  for (int i = 0; i < 100 && of->due; i++) {
    bins_begin_tick();
    bins_tick(UINT_MAX, 1, (uint64_t)i * 1000);
  }
  must(!of->due);
  depots_begin(of);
  depots_push(&of->depots, SHARD, top);
  int status = -1;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0)
    _exit(of->due && of->depots.count == 1 && check_everything() ? 0 : 1);
  must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

IN_CHILD(as_many_as_processors)
IN_CHILD(the_child_makes_it_due)
IN_CHILD(the_count_ends_at_nothing)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(as_many_as_processors_test),
    cmocka_unit_test(the_child_makes_it_due_test),
    cmocka_unit_test(the_count_ends_at_nothing_test),
  };
  return cmocka_run_group_tests_name("many_depots", tests, NULL, NULL);
}
