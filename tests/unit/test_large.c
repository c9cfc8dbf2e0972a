/* SPDX-License-Identifier: MIT
 * Blocks that are a run or a mapping of their own: the spares that a thread keeps of them, and what they are charged, resized
 * and refused. */
#include "find_run.h"
#include "heap/large.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "large_blocks.h"
#include "option.h"
#include "os_fake.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

enum { A_SIZE = 100 << 10 };

static const spares_t *spares(void) { return &thread_self->spares; }

static void run_thread(void *(*work)(void *), void *argument)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, work, argument) == 0);
  must(pthread_join(thread, NULL) == 0);
}

/* ---- what nothing can serve ---- */

/* It takes nothing away from who is served: what is cached, idle and kept stays. */
static void hopeless(void *argument)
{
  static void *blocks[100];
  (void)argument;
  manager_up();
  void *large = pool_alloc(8 << 20);
  for (size_t i = 0; i < 100; i++)
    blocks[i] = pool_alloc(i % 2 ? A_SIZE : 1000);
  for (size_t i = 0; i < 100; i++)
    pool_free(blocks[i]);
  os_memory_most = os_fake.mapped_most = os_fake.mapped_bytes + (8 << 20);
  pool_stats_t before = figures(pool_heap_default());
  size_t units = thread_spare_units(spares());
  for (size_t i = 0; i < 3; i++) {
    must(!pool_alloc(200 << 20) && !pool_realloc(large, 200 << 20) && !pool_aligned_alloc(64, 200 << 20));
    pool_stats_t after = figures(pool_heap_default());
    must(after.cached_bytes == before.cached_bytes && after.idle_bytes == before.idle_bytes &&
         thread_spare_units(spares()) == units);
  }
  must(figures(pool_heap_default()).exhausted_count == before.exhausted_count + 9 && check_everything());
}

/* ---- wiped ---- */

/* From any byte to any other and not beyond, by the system's pages or without. */
static void wiped_to_the_byte(void *argument)
{
  enum { PAGES = 6 };
  static heap_t heap; /* without a region */
  const bool *refused = argument;
  os_fake_heal();
  size_t page = os_page_size(), size = PAGES * page;
  size_t ends[] = {0, 1, page - 1, page, page + 100, 2 * page, 3 * page - 8, 4 * page, 5 * page + 1, size - 1, size};
  char *memory = os_map(size, page), *kept = os_map(size, page);
  must(memory && kept);
  memset(kept, 7, size);
  os_fake.fail_kinds = *refused ? 1 << OS_PURGE : 0;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    for (size_t k = i + 1; k < sizeof ends / sizeof *ends; k++) {
      memset(memory, 7, size);
      large_wipe(&heap, memory + ends[i], ends[k] - ends[i]);
      must(all_zero(memory + ends[i], ends[k] - ends[i]));
      must(!memcmp(memory, kept, ends[i]) && !memcmp(memory + ends[k], kept, size - ends[k]));
    }
}

/* ---- spares ---- */

/* Zeroed, aligned, or grown to: each call takes what the thread has just freed. */
static void taken_by_every_call(void *argument)
{
  (void)argument;
  manager_up();
  char *block = pool_alloc(A_SIZE);
  for (size_t i = 0; i < 3; i++) {
    memset(block, 7, A_SIZE);
    pool_free(block);
    must(pool_zalloc(A_SIZE - 100) == block && all_zero(block, pool_usable_size(block)) && thread_spare_units(spares()) == 0);
    memset(block, 7, A_SIZE);
    pool_free(block);
    must(pool_aligned_alloc((size_t)4096 << i, A_SIZE) == block && thread_spare_units(spares()) == 0 && check_everything());
    char *small = pool_alloc(100);
    memset(small, 5, 100);
    pool_free(block);
    must(pool_realloc(small, A_SIZE) == block && block[99] == 5 && thread_spare_units(spares()) == 0);
    pool_free(block);
    char *aligned = pool_aligned_alloc(2 * UNIT, A_SIZE); /* more than the first address of any run is known to have */
    must((uintptr_t)aligned % (2 * UNIT) == 0 && check_everything());
    pool_free(aligned);
    must((block = pool_alloc(A_SIZE)) == aligned);
    pool_trim(0);
  }
}

/* The thread that freed it has it next, whatever size makes as many units. */
static void taken_by_who_freed_it(void *argument)
{
  (void)argument;
  manager_up();
  for (size_t units = 1; units <= SPARE_UNITS_MOST; units++) {
    size_t most = units * UNIT, least = max_size((units - 1) * UNIT, SIZE_CACHED) + 1;
    char *block = pool_alloc(most);
    pool_free(block);
    must(thread_spare_units(spares()) == units && spares()->count[units - 1] == 1 && check_everything());
    size_t used = space_of_process.used_units;
    for (size_t size = least; size <= most; size += (most - least) / 5) {
      must(pool_alloc(size) == block && thread_spare_units(spares()) == 0);
      must(pool_usable_size(block) == round_up(size, os_page_size()) && figures(pool_heap_default()).live_bytes >= size);
      memset(block, 1, pool_usable_size(block));
      must(check_everything());
      pool_free(block);
    }
    must(space_of_process.used_units == used);
    pool_trim(0);
    must(thread_spare_units(spares()) == 0 && space_of_process.used_units < used);
  }
  void *longer = pool_alloc(SPARE_UNITS_MOST * UNIT + 1);
  pool_free(longer);
  must(thread_spare_units(spares()) == 0 && check_everything());
}

static void zeroed_all_the_same(void *argument)
{
  (void)argument;
  manager_up();
  for (size_t i = 0; i < 5; i++) {
    char *block = pool_alloc(A_SIZE);
    memset(block, 7, pool_usable_size(block));
    pool_free(block);
    block = pool_zalloc(A_SIZE - i);
    must(block && all_zero(block, pool_usable_size(block)));
    memset(block, 7, pool_usable_size(block));
    pool_free(block);
  }
}

/* They are not live, but they are held. */
static void counted(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *heap = pool_heap_default();
  pool_stats_t before = figures(heap), with, after;
  void *block = pool_alloc(A_SIZE);
  with = figures(heap);
  size_t usable = pool_usable_size(block);
  must(with.live_blocks == before.live_blocks + 1 && with.live_bytes == before.live_bytes + usable && usable >= A_SIZE);
  pool_free(block);
  after = figures(heap);
  must(after.live_blocks == before.live_blocks && after.live_bytes == before.live_bytes);
  must(after.held_bytes >= with.held_bytes && after.idle_bytes >= with.idle_bytes + usable);
  must(!pool_in_use(block) && !pool_block_start(block, NULL) && pool_heap_of(block) == heap);
}

/* So many of a length, so much in all, less when there are many threads. */
static void bounded(void *argument)
{
  void *blocks[20];
  (void)argument;
  manager_up();
  for (size_t units = 1; units <= SPARE_UNITS_MOST; units++) {
    for (size_t i = 0; i < 20; i++)
      must((blocks[i] = pool_alloc(units * UNIT)) != NULL);
    for (size_t i = 0; i < 20; i++)
      pool_free(blocks[i]);
    must(spares()->count[units - 1] <= SPARE_DEPTH && thread_self->allowance.left >= 0 && check_everything());
    must(units > 1 || spares()->count[0] == SPARE_DEPTH);
  }
  must(thread_self->allowance.left < SPARE_SIZE_MOST && thread_spare_units(spares()) > SPARE_UNITS_MOST);
}

static pthread_barrier_t all_there, all_seen;

static void *free_many(void *argument)
{
  void *blocks[20];
  pool_free(pool_alloc(1)); /* a thread has spares when it has a record */
  for (size_t i = 0; i < 20; i++)
    must((blocks[i] = pool_alloc((1 + i % SPARE_UNITS_MOST) * UNIT)) != NULL);
  pthread_barrier_wait(&all_there);
  for (size_t i = 0; i < 20; i++)
    pool_free(blocks[i]);
  must(thread_self->allowance.left >= 0 &&
       thread_spare_units(spares()) * UNIT <= CACHE_BYTES_DEFAULT / (size_t)(uintptr_t)argument);
  pthread_barrier_wait(&all_seen);
  pthread_barrier_wait(&all_there);
  return NULL;
}

static void in_the_child(void *argument)
{
  size_t used = *(const size_t *)argument;
  must(check_everything());
  must(space_of_process.used_units < used && space_of_process.used_units <= 20);
  for (size_t i = 0; i < 50; i++)
    must(pool_alloc((1 + i % SPARE_UNITS_MOST) * UNIT));
  must(check_everything());
}

/* When a thread ends its spares go back; and a child of a fork gets those of threads that it has not. */
static void gone_with_their_thread(void *argument)
{
  enum { THREADS = 10 };
  pthread_t threads[THREADS];
  (void)argument;
  manager_up();
  pool_trim(0);
  size_t before = space_of_process.used_units;
  pthread_barrier_init(&all_there, NULL, THREADS + 1);
  pthread_barrier_init(&all_seen, NULL, THREADS + 1);
  for (size_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, free_many, (void *)(uintptr_t)(THREADS + 1)) == 0);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  size_t used = space_of_process.used_units;
  must(used > before + THREADS && check_everything());
  in_child(in_the_child, &used);
  pthread_barrier_wait(&all_there);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pool_trim(0);
  must(space_of_process.used_units == before && check_everything());
}

static thread_t *ending;

static void *keep_a_spare(void *argument)
{
  pool_free(pool_alloc(A_SIZE));
  ending = thread_self;
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  return argument;
}

/* A block that one thread took and another freed is in the figures of both until they end, and may be seen in one of them
 * alone. No figure is below nothing. And an ending thread's share is added to the heap's under the lock of who adds them up. */
static void figures_of_threads_that_end(void *argument)
{
  pthread_t thread;
  (void)argument;
  manager_up();
  pool_free(pool_alloc(A_SIZE));
  size_t counted = default_heap.large_blocks;
  must(counted && heap_large_figures(&default_heap).live_blocks == 0);
  default_heap.large_blocks--;
  default_heap.large_bytes--;
  large_figures_t f = heap_large_figures(&default_heap);
  must(f.live_blocks == 0 && f.live_bytes == 0);
  default_heap.large_blocks++;
  default_heap.large_bytes++;
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&thread, NULL, keep_a_spare, NULL) == 0);
  pthread_barrier_wait(&all_there);
  lock_acquire(&threads_lock);
  pthread_barrier_wait(&all_seen);
  counted = default_heap.large_blocks + ending->spares.live_blocks;
  while (thread_spare_units(&ending->spares))
    usleep(1000);
  usleep(5000); /* it is at the lock now, or about to be */
  must(default_heap.large_blocks + ending->spares.live_blocks == counted && ending->spares.live_blocks != 0);
  lock_release(&threads_lock);
  pthread_join(thread, NULL);
  must(heap_large_figures(&default_heap).live_blocks == 0 && check_everything());
}

/* What was not needed since the last tick goes. */
static void ticked(void *argument)
{
  void *blocks[4];
  (void)argument;
  manager_up();
  settings.purge_delay_ms = PURGE_NEVER;
  for (size_t i = 0; i < 4; i++)
    must((blocks[i] = pool_alloc(A_SIZE)) != NULL);
  for (size_t i = 0; i < 4; i++)
    pool_free(blocks[i]);
  must(thread_spare_units(spares()) == 8);
  for (size_t turn = 0; turn < 6; turn++) {
    void *a = pool_alloc(A_SIZE), *b = pool_alloc(A_SIZE);
    pool_free(a);
    pool_free(b);
    large_tick_spares(thread_self);
    must(thread_spare_units(spares()) == (turn ? 4 : 8) && check_everything());
  }
  large_tick_spares(thread_self);
  must(thread_spare_units(spares()) == 0 && check_everything());
  /* By the clock, in the course of other calls. */
  settings.purge_delay_ms = 100;
  pool_free(pool_alloc(A_SIZE));
  for (size_t i = 0; i < 5 * SLOW_PATHS_PER_LOOK; i++) {
    pool_free(pool_alloc(2 * A_SIZE));
    os_fake.now_ms += 30;
  }
  must(spares()->count[1] == 0);
}

/* However large a request is, it is not served by something smaller. */
static void impossible_sizes(void *argument)
{
  (void)argument;
  manager_up();
  for (size_t units = 1; units <= SPARE_UNITS_MOST; units++) {
    for (unsigned log2 = ADDRESS_BITS == 64 ? 40 : 31; log2 < ADDRESS_BITS; log2++)
      for (ptrdiff_t off = -2; off <= 2; off++) {
        size_t size = ((size_t)1 << log2) + (size_t)off + (units - 1) * UNIT;
        pool_free(pool_alloc(units * UNIT));
        must(spares()->count[units - 1] == 1);
        errno = 0;
        char *block = pool_alloc(size);
        must(block ? !space_find(block) && pool_usable_size(block) >= size : errno == ENOMEM);
        pool_free(block);
        must(spares()->count[units - 1] <= 1);
      }
    for (volatile size_t off = 0; off <= units * UNIT; off += UNIT / 2)
      must(!pool_alloc(SIZE_MAX - off));
    pool_trim(0);
  }
}

/* ---- freed twice ---- */

static void free_again(void *block) { pool_free(block); }

static void *free_of_another_thread(void *block)
{
  pool_free(block);
  return NULL;
}

static void free_in_a_thread(void *block) { run_thread(free_of_another_thread, block); }

static void free_after_a_flush(void *block)
{
  pool_trim(0);
  pool_free(block);
}

static void free_when_there_are_many(void *block)
{
  void *blocks[SPARE_DEPTH];
  for (size_t i = 0; i < SPARE_DEPTH; i++)
    blocks[i] = pool_alloc(A_SIZE + UNIT);
  for (size_t i = 0; i < SPARE_DEPTH; i++)
    pool_free(blocks[i]);
  pool_free(block);
}

static void resize_freed(void *block) { block = pool_realloc(block, 10); }
static void ask_size_of_freed(void *block) { must(pool_usable_size(block) == 0); }
static void free_inside(void *block) { pool_free((char *)block + UNIT); }
static void free_inside_odd(void *block) { pool_free((char *)block + 16); }

static void freed_twice(void *argument)
{
  static void (*const ways[])(void *) = {free_again, free_in_a_thread, free_after_a_flush, free_when_there_are_many};
  (void)argument;
  manager_up();
  void *block = pool_alloc(A_SIZE), *behind = pool_alloc(A_SIZE), *huge = pool_alloc(6 * MIB);
  aborts_with(free_inside, block, "not a block of any heap");
  aborts_with(free_inside_odd, block, "not a block of any heap");
  aborts_with(free_inside, huge, "not a block of any heap");
  pool_free(block);
  pool_free(huge);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    aborts_with(ways[i], block, "freed twice");
  aborts_with(resize_freed, block, "already freed");
  aborts_with(ask_size_of_freed, block, "already freed");
  must(pool_in_use(behind));
  aborts_with(free_again, huge, "freed twice"); /* a run on 32-bit machines, too: nothing is known of a freed mapping */
}

/* ---- any heap, against a model ---- */

IN_CHILD(hopeless)
WITH(wiped_to_the_byte, bool, false, true)
IN_CHILD(taken_by_every_call)
IN_CHILD(taken_by_who_freed_it)
IN_CHILD(zeroed_all_the_same)
IN_CHILD(counted)
IN_CHILD(bounded)
IN_CHILD(gone_with_their_thread)
IN_CHILD(figures_of_threads_that_end)
IN_CHILD(ticked)
IN_CHILD(impossible_sizes)
IN_CHILD(freed_twice)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(hopeless_test),
    cmocka_unit_test(wiped_to_the_byte_test),
    cmocka_unit_test(taken_by_every_call_test),
    cmocka_unit_test(taken_by_who_freed_it_test),
    cmocka_unit_test(zeroed_all_the_same_test),
    cmocka_unit_test(counted_test),
    cmocka_unit_test(bounded_test),
    cmocka_unit_test(gone_with_their_thread_test),
    cmocka_unit_test(figures_of_threads_that_end_test),
    cmocka_unit_test(ticked_test),
    cmocka_unit_test(impossible_sizes_test),
    cmocka_unit_test(freed_twice_test),
  };
  return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
