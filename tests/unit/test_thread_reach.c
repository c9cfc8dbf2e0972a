/* SPDX-License-Identifier: MIT
 * What sleeping threads hold of a heap is there for the others, and nobody reaches into a busy one. */
#include "heap/heap.h"
#include "os_fake.h"
#include "threads.h"
#include <tidepool/heap.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { REACHED = 2000, REACHED_SIZE = 1000 };

static pool_heap_t *limited;
static void *limited_blocks[8 * REACHED];
static size_t limited_count;

static size_t fill_limited(void)
{
  size_t count = 0;
  while (count < 8 * REACHED && (limited_blocks[count] = pool_heap_alloc(limited, REACHED_SIZE)) != NULL)
    memset(limited_blocks[count++], 1, REACHED_SIZE);
  return count;
}

static void free_limited(size_t from, size_t to)
{
  for (size_t i = from; i < to; i++)
    pool_heap_free(limited, limited_blocks[i]);
}

static size_t cached_bytes(void)
{
  pool_stats_t stats;
  must(pool_heap_stats(limited, &stats));
  return stats.cached_bytes;
}

/* Frees blocks of the heap into its magazines, and sleeps with them; with *busy as if in the middle of a call. */
static void *hold_magazines(void *busy)
{
  use(NULL); /* so that it has a record */
  free_limited(limited_count / 2, limited_count);
  if (*(bool *)busy)
    thread_set_busy(thread_self);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  thread_leave(thread_self);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  return NULL;
}

/* What a sleeping thread has of a heap with a budget is there for the others; a busy one's is left alone, and so is everybody's
 * where there is no fence. */
typedef struct way {
  bool busy, no_fence, fence_fails;
} way_t;

static void reached(void *argument)
{
  const way_t *way = argument;
  pthread_t holder;
  os_fake_heal();
  os_fake.no_fence = way->no_fence;
  must((limited = pool_heap_create(&(pool_heap_options_t){.budget = 12 << 20})) != NULL);
  must(!!(limited->flags & HEAP_CACHED) == !way->no_fence && threads_can_be_reached == !way->no_fence);
  limited_count = fill_limited();
  must(limited_count > 3000);
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&holder, NULL, hold_magazines, (void *)(uintptr_t)&way->busy) == 0);
  pthread_barrier_wait(&all_there);
  size_t half = limited_count / 2, kept = cached_bytes() / REACHED_SIZE;
  must((kept > 100) == !!(limited->flags & HEAP_CACHED));
  os_fake.fail_kinds = way->fence_fails ? 1 << OS_FENCE : 0;
  bool left_out = way->busy || way->fence_fails;
  void *block;
  size_t got = 0;
  while ((block = pool_heap_alloc(limited, REACHED_SIZE)) != NULL)
    limited_blocks[half + got++] = block;
  must(way->no_fence || (left_out ? got < limited_count - half - 20 : got >= limited_count - half - 4));
  must(check_everything());
  os_fake_heal();
  pthread_barrier_wait(&all_seen);
  pthread_barrier_wait(&all_there);
  while ((block = pool_heap_alloc(limited, REACHED_SIZE)) != NULL) /* it is not busy any more */
    limited_blocks[half + got++] = block;
  must(got >= limited_count - half - 4);
  pthread_barrier_wait(&all_seen);
  pthread_join(holder, NULL);
  must(check_everything());
  free_limited(0, half + got);
  pool_heap_destroy(limited);
  must(check_everything());
}

static void reached_test(void **state)
{
  static const way_t ways[] = {{0}, {.busy = true}, {.no_fence = true}, {.fence_fails = true}};
  (void)state;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    in_child(reached, (void *)(uintptr_t)&ways[i]);
}

static size_t visits;

static void count_visit(magazines_t *magazines, pool_heap_t *heap)
{
  must(heap == limited && magazines != thread_magazines_if_any(thread_self, heap));
  visits++;
  heap_each_cached_bin(magazines, heap, magazines_flush);
}

/* Its own magazines are not among them, nor those of a thread that has none. Where all is taken nobody is asked again, until
 * somebody has used the heap. */
static void only_those_of_others(void *argument)
{
  pthread_t holder;
  static bool busy;
  os_fake_heal();
  must((limited = pool_heap_create(&(pool_heap_options_t){.budget = 12 << 20})) != NULL);
  threads_reach(&limited->reach, count_visit);
  limited_count = fill_limited();
  free_limited(0, 20);
  in_thread(use, argument);
  threads_reach(&limited->reach, count_visit);
  must(visits == 0);
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&holder, NULL, hold_magazines, &busy) == 0);
  pthread_barrier_wait(&all_there);
  os_fake.fail_kinds = 1 << OS_FENCE;
  threads_reach(&limited->reach, count_visit);
  must(visits == 0 && limited->reach.first);
  os_fake_heal();
  threads_reach(&limited->reach, count_visit);
  must(visits == 1);
  threads_reach(&limited->reach, count_visit);
  must(visits == 1 && check_everything());
  pthread_barrier_wait(&all_seen);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  pthread_join(holder, NULL);
  free_limited(20, limited_count / 2);
  pool_heap_destroy(limited);
  must(check_everything());
}

/* Who has found its magazines, and is not busy with them yet, when somebody else empties them and takes them off the list of
 * what can be reached: what it puts into them is on the list again. */
static pthread_t finder;
static bool reach_is_over;

static void wait_for_the_other(const uint32_t *word)
{
  if (word == &threads_lock.word && pthread_equal(pthread_self(), finder))
    while (!__atomic_load_n(&reach_is_over, __ATOMIC_ACQUIRE))
      usleep(100);
}

static void *free_twenty_and_one(void *unused)
{
  use(NULL);
  free_limited(0, 20);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  free_limited(20, 21);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  return unused;
}

static void flush(magazines_t *magazines, pool_heap_t *heap) { heap_each_cached_bin(magazines, heap, magazines_flush); }

static void *reach(void *unused)
{
  threads_reach(&limited->reach, flush);
  __atomic_store_n(&reach_is_over, true, __ATOMIC_RELEASE);
  return unused;
}

static void emptied_when_found(void *argument)
{
  pthread_t reacher;
  (void)argument;
  os_fake_heal();
  must((limited = pool_heap_create(&(pool_heap_options_t){.budget = 12 << 20})) != NULL);
  limited_count = fill_limited();
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&finder, NULL, free_twenty_and_one, NULL) == 0);
  pthread_barrier_wait(&all_there);
  threads_reach(&limited->reach, flush);
  free_limited(21, 41);
  must(limited->reach.first && check_everything());
  lock_acquire(&threads_lock);
  pthread_barrier_wait(&all_seen);
  while (__atomic_load_n(&threads_lock.word, __ATOMIC_ACQUIRE) != 2)
    usleep(100);
  os_fake.woken = wait_for_the_other;
  must(pthread_create(&reacher, NULL, reach, NULL) == 0);
  usleep(20000); /* both sleep now, the finder at the head; if not, this shows nothing, but does not fail */
  lock_release(&threads_lock);
  must(pthread_join(reacher, NULL) == 0);
  pthread_barrier_wait(&all_there);
  must(check_everything());
  pthread_barrier_wait(&all_seen);
  must(pthread_join(finder, NULL) == 0);
  os_fake.woken = NULL;
  free_limited(41, limited_count);
  pool_heap_destroy(limited);
  must(check_everything());
}

/* All at it at once: blocks go through magazines that are emptied at any moment, and each is with one thread. One alone asks
 * for more than there is: others may have ended, or not begun. */
static void *fight(void *argument)
{
  enum { MINE = 4500 };
  static _Thread_local void *mine[MINE];
  dice_t dice = {(uintptr_t)argument};
  size_t count = 0;
  for (size_t i = 0; i < some_of(60000); i++) {
    size_t size = 16 + dice_below(&dice, 130) * 40;
    if (count < MINE && dice_below(&dice, 100) < (i / 5000 % 2 ? 10 : 90)) {
      void *block = pool_heap_alloc(limited, size);
      if (!block)
        continue;
      *(uint64_t *)block = (uint64_t)(uintptr_t)block ^ (uint64_t)(uintptr_t)argument;
      mine[count++] = block;
    } else if (count) {
      size_t at = dice_below(&dice, count);
      must(*(uint64_t *)mine[at] == ((uint64_t)(uintptr_t)mine[at] ^ (uint64_t)(uintptr_t)argument));
      pool_heap_free(limited, mine[at]);
      mine[at] = mine[--count];
    }
  }
  while (count)
    pool_heap_free(limited, mine[--count]);
  return NULL;
}

static void fought_over(void *argument)
{
  pthread_t threads[5];
  (void)argument;
  os_fake_heal();
  for (unsigned placed = 0; placed < 2; placed++) {
    static const size_t classes[] = {64, 256, 1024, 2048};
    pool_heap_options_t options = {.budget = (8 << 20) + UNIT};
    if (!placed) {
      options.size_classes = classes;
      options.size_class_count = 4;
    }
    must((limited = pool_heap_create(&options)) != NULL && heap_has_cache_slot(limited) == placed);
    for (uintptr_t i = 0; i < 5; i++)
      must(pthread_create(&threads[i], NULL, fight, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < 5; i++)
      pthread_join(threads[i], NULL);
    pool_stats_t stats;
    must(pool_heap_stats(limited, &stats) && stats.live_blocks == 0 && stats.peak_held_bytes <= stats.budget &&
         stats.exhausted_count > 0);
    must(check_everything());
    pool_heap_destroy(limited);
  }
}

IN_CHILD(only_those_of_others)
IN_CHILD(emptied_when_found)
IN_CHILD(fought_over)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reached_test),
    cmocka_unit_test(only_those_of_others_test),
    cmocka_unit_test(emptied_when_found_test),
    cmocka_unit_test(fought_over_test),
  };
  return cmocka_run_group_tests_name("thread_reach", tests, NULL, NULL);
}
