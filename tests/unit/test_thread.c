/* SPDX-License-Identifier: MIT
 * Threads begin, end, end without telling, go on after their end; what they held is somebody else's then. */
#include "heap/heap.h"
#include "space/metadata.h"
#include "option.h"
#include "os_fake.h"
#include "unit.h"
#include <pthread.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

static size_t records(void)
{
  size_t n = 0;
  for (thread_t *thread = threads_first(); thread; thread = thread->next)
    n++;
  return n;
}

static size_t live_blocks(void)
{
  pool_stats_t stats;
  must(pool_heap_stats(pool_heap_default(), &stats));
  return stats.live_blocks;
}

static void run(void *(*work)(void *), void *argument)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, work, argument) == 0);
  must(pthread_join(thread, NULL) == 0);
}

static void *use(void *argument)
{
  void *blocks[200];
  (void)argument;
  must(pool_alloc_batch(100, blocks, 200) == 200);
  must(thread_is_usable(thread_self) && thread_current() == thread_self);
  pool_free_batch(blocks, 200);
  return NULL;
}

static void *hold_one(void *argument)
{
  void **block = argument;
  use(NULL);
  *block = pool_alloc(100);
  return NULL;
}

/* ---- records ---- */

static void one_for_each_thread(void *argument)
{
  (void)argument;
  os_fake_heal();
  must(records() == 0 && bin_threads == 1);
  use(NULL);
  must(records() == 1 && bin_threads == 1);
  for (size_t i = 0; i < 50; i++) {
    void *block;
    run(hold_one, &block);
    must(records() == 1 && bin_threads == 1);
    must(live_blocks() == 1 && pool_in_use(block));
    pool_free(block);
    must(live_blocks() == 0 && check_everything());
  }
}

static pthread_barrier_t all_there, all_seen;

static void *use_and_wait(void *argument)
{
  use(argument);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  return NULL;
}

static void counted(void *argument)
{
  pthread_t threads[9];
  (void)argument;
  os_fake_heal();
  use(NULL);
  pthread_barrier_init(&all_there, NULL, 10);
  pthread_barrier_init(&all_seen, NULL, 10);
  for (size_t i = 0; i < 9; i++)
    must(pthread_create(&threads[i], NULL, use_and_wait, NULL) == 0);
  pthread_barrier_wait(&all_there);
  must(records() == 10 && bin_threads == 10 && live_blocks() == 0 && check_everything());
  pthread_barrier_wait(&all_seen);
  for (size_t i = 0; i < 9; i++)
    pthread_join(threads[i], NULL);
  must(records() == 1 && bin_threads == 1 && check_everything());
}

/* Records are used again: many threads one after the other leave nothing behind. */
static void no_trace(void *argument)
{
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < 5; i++)
    run(use, NULL);
  size_t mapped = os_fake.mapped_bytes;
  for (size_t i = 0; i < 2000; i++)
    run(use, NULL);
  must(os_fake.mapped_bytes == mapped && live_blocks() == 0 && check_everything());
}

/* ---- ends ---- */

/* The first thread of a process may end before the others. What it does here is too little to come by any bin twice. */
static void *outlive(void *first)
{
  pthread_join(*(const pthread_t *)first, NULL);
  must(records() == 0 && live_blocks() == 0 && check_everything());
  use(NULL);
  must(records() == 1 && check_everything());
  _exit(0);
}

static void first_thread_ends(void *argument)
{
  static pthread_t first;
  pthread_t other;
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(100));
  must(records() == 1);
  first = pthread_self();
  must(pthread_create(&other, NULL, outlive, &first) == 0);
  pthread_exit(NULL);
}

static pthread_key_t late_key;

static void use_after_the_end(void *argument)
{
  (void)argument;
  void *blocks[200];
  must(pool_alloc_batch(100, blocks, 200) == 200);
  pool_free_batch(blocks, 200);
}

/* Called again and again, after the manager's own end of the thread. */
static void late(void *argument)
{
  static _Thread_local unsigned turn;
  void **kept = argument;
  use_after_the_end(NULL);
  /* Atomic for the thread sanitizer, to which a thread has ended before its destructors run. */
  pool_free(__atomic_load_n(kept, __ATOMIC_ACQUIRE));
  __atomic_store_n(kept, pool_alloc(5000), __ATOMIC_RELEASE);
  if (turn++ < 3)
    pthread_setspecific(late_key, kept);
}

static void *with_late_destructor(void *argument)
{
  void **kept = argument;
  *kept = pool_alloc(77);
  pthread_setspecific(late_key, kept);
  return NULL;
}

static void after_the_end(void *argument)
{
  void *kept;
  (void)argument;
  os_fake_heal();
  use(NULL);
  must(pthread_key_create(&late_key, late) == 0);
  for (size_t i = 0; i < 20; i++) {
    run(with_late_destructor, &kept);
    must(records() == 1 && live_blocks() == 1 && check_everything());
    pool_free(__atomic_load_n(&kept, __ATOMIC_ACQUIRE));
    must(live_blocks() == 0);
  }
}

/* A thread that only frees may be one whose destructors have all run, in which the C library frees what it had for others. */
enum { FREED_AT_AN_END = 5000, FREED_BY_A_CONSUMER = 20000 };
static void *given[FREED_BY_A_CONSUMER];

static void *free_given(void *argument)
{
  size_t count = *(const size_t *)argument;
  for (size_t i = 0; i < count; i++)
    pool_free(given[i]);
  must((thread_self->default_magazines.cache != NULL) == (!os_fake.may_be_over || count == FREED_BY_A_CONSUMER));
  return NULL;
}

static void only_frees(void *argument)
{
  size_t counts[] = {1, 100, FREED_AT_AN_END, FREED_BY_A_CONSUMER};
  (void)argument;
  os_fake_heal();
  use(NULL);
  for (size_t n = 0; n < 8; n++)
    for (size_t size = 10; size < 400000; size *= 20) {
      os_fake.may_be_over = n < 4;
      for (size_t i = 0; i < counts[n % 4]; i++)
        must((given[i] = pool_alloc(size)) != NULL);
      run(free_given, &counts[n % 4]);
      must(records() == 1 && live_blocks() == 0 && check_everything());
    }
}

/* Where the system cannot call back at the end of a thread, the thread does without magazines. */
static void *use_without_a_record(void *argument)
{
  use_after_the_end(argument);
  must(!thread_current());
  use_after_the_end(argument);
  return NULL;
}

static void no_call_at_the_end(void *argument)
{
  (void)argument;
  os_fake_heal();
  use(NULL);
  os_fake.fail_kinds = 1 << OS_THREAD_ON_EXIT;
  for (size_t i = 0; i < 10; i++) {
    run(use_without_a_record, NULL);
    must(live_blocks() == 0 && check_everything());
  }
  for (size_t i = 0; i < 1000; i++)               /* the first thread is told of the others while it works */
    use_after_the_end(NULL);
  must(live_blocks() == 0 && check_everything());
}

/* Where there is no way to be called at all: the thread that was there alone keeps its record, nobody else gets one. */
static void no_key(void *argument)
{
  os_fake_heal();
  os_fake.fail_kinds = 1 << OS_THREAD_ON_EXIT;
  size_t alone = os_single_threaded();   /* a sanitizer has a thread of its own */
  (alone ? use : use_without_a_record)(NULL);
  must(records() == alone && os_fake.count[OS_THREAD_ON_EXIT] == 1);
  os_fake_heal();
  for (size_t i = 0; i < 10; i++) {
    run(use_without_a_record, NULL);
    must(records() == alone && live_blocks() == 0 && check_everything());
  }
  for (size_t i = 0; i < 1000; i++)
    use_after_the_end(argument);
  must(records() == alone && live_blocks() == 0 && check_everything());
}

/* No memory for a record: the bins serve the thread, which gets one as soon as there is some. */
static void *use_without_memory(void *argument)
{
  (void)argument;
  os_fake.refuse = true;
  must(!thread_current());
  void *block = pool_alloc(100);
  must(block && !thread_is_usable(thread_self));
  os_fake_heal();
  pool_free(block);
  use(NULL);
  return NULL;
}

static void no_memory_for_a_record(void *argument)
{
  os_fake_heal();
  use(argument);
  os_fake.refuse = true;   /* metadata is used up to its last bytes, or a record would be had there */
  while (metadata_take(METADATA_ALIGNMENT, METADATA_ALIGNMENT)) {
  }
  os_fake_heal();
  run(use_without_memory, NULL);
  must(records() == 1 && live_blocks() == 0 && check_everything());
}

/* ---- caches of heaps ---- */

static pool_heap_t *heaps[300];

static void *use_all_heaps(void *argument)
{
  (void)argument;
  for (size_t turn = 0; turn < 3; turn++)
    for (size_t i = 0; i < 300; i++) {
      char *block = pool_heap_alloc(heaps[i], 40 + i);
      must(block && pool_heap_of(block) == heaps[i]);
      memset(block, 1, 40 + i);
      pool_heap_free(heaps[i], block);
    }
  return NULL;
}

static size_t caches_of(const thread_t *thread)
{
  size_t n = 0;
  for (heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL;)
    n++;
  return n;
}

/* More heaps than places for them. */
static void many_heaps(void *argument)
{
  os_fake_heal();
  for (size_t i = 0; i < 300; i++)
    must((heaps[i] = pool_heap_create(NULL)) != NULL);
  use_all_heaps(argument);
  must(caches_of(thread_self) == 300 && check_everything());
  run(use_all_heaps, NULL);
  must(check_everything());
  for (size_t i = 0; i < 300; i += 2)
    pool_heap_destroy(heaps[i]);
  must(caches_of(thread_self) == 150 && check_everything());
  for (size_t i = 0; i < 300; i += 2)
    must((heaps[i] = pool_heap_create(NULL)) != NULL);
  use_all_heaps(argument);
  must(caches_of(thread_self) == 300 && check_everything());
}

static size_t longest_chain(const thread_t *thread)
{
  size_t longest = 0;
  for (size_t i = 0; i < (size_t)1 << thread->chains_log2; i++) {
    size_t n = 0;
    for (heap_cache_t *cache = thread->chains[i]; cache; cache = cache->next)
      n++;
    longest = max_size(longest, n);
  }
  return longest;
}

/* Looks at the clock until a whole tick is over; how many that took. */
static size_t looks_of_a_tick(void)
{
  size_t looks = 1;
  os_fake.now_ms += settings.purge_delay_ms;
  for (heap_look_at_clock(thread_self); thread_tick_is_under_way(thread_self); looks++)
    heap_look_at_clock(thread_self);
  return looks;
}

/* What a thread once used costs it nothing any more: it finds a cache at once, and a tick passes over what is empty. */
static void many_idle_heaps(void *argument)
{
  enum { MANY = 5000 };
  static pool_heap_t *many[MANY];
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(1));
  must(!thread_self->chains);
  settings.purge_delay_ms = 1000;
  looks_of_a_tick();
  for (size_t i = 0; i < MANY; i++) {
    must((many[i] = pool_heap_create(NULL)) != NULL);
    pool_heap_free(many[i], pool_heap_alloc(many[i], 50));
  }
  must(thread_self->cache_count == MANY && thread_self->due_count == MANY && longest_chain(thread_self) <= 16);
  must(looks_of_a_tick() >= MANY / 32 && thread_self->due_count == MANY);   /* in use at the first, */
  must(looks_of_a_tick() >= MANY / 32 && thread_self->due_count == 0);      /* idle since */
  must(looks_of_a_tick() == 1);
  for (size_t i = 0; i < MANY; i += 1000)
    pool_heap_free(many[i], pool_heap_alloc(many[i], 50));
  must(thread_self->due_count == MANY / 1000);
  pool_heap_destroy(many[1000]);
  must(thread_self->due_count == MANY / 1000 - 1 && looks_of_a_tick() == 1 && looks_of_a_tick() == 1 && thread_self->due_count == 0);
  for (size_t i = 0; i < MANY; i++)
    if (i != 1000)
      pool_heap_destroy(many[i]);
  must(thread_self->cache_count == 0 && check_everything());
}

/* Without memory for the chains a heap is used without magazines; without memory for more of them they become longer. */
static void no_memory_for_chains(void *argument)
{
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < 300; i++)
    must((heaps[i] = pool_heap_create(NULL)) != NULL);
  while (metadata_take(64, 64) && metadata_bytes() < MIB) {
  }
  os_fake.refuse = true;
  while (metadata_take(64, 64)) {
  }
  for (size_t i = 0; i < 300; i++)
    pool_heap_free(heaps[i], pool_heap_alloc(heaps[i], 50));
  os_fake_heal();
  must(check_everything());
  use_all_heaps(argument);
  must(caches_of(thread_self) == 300 && check_everything());
}

/* ---- reaching into other threads ---- */

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
  use(NULL);   /* so that it has a record */
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

/* What a sleeping thread has of a heap with a budget is there for the others; a busy one's is left alone, and so is everybody's where
 * there is no fence. */
typedef struct way { bool busy, no_fence, fence_fails; } way_t;

static void reached(void *argument)
{
  const way_t *way = argument;
  pthread_t sleeper;
  os_fake_heal();
  os_fake.no_fence = way->no_fence;
  must((limited = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20})) != NULL);
  must(limited->cached == !way->no_fence && threads_can_be_reached == !way->no_fence);
  limited_count = fill_limited();
  must(limited_count > 3000);
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&sleeper, NULL, hold_magazines, (void *)(uintptr_t)&way->busy) == 0);
  pthread_barrier_wait(&all_there);
  size_t half = limited_count / 2, kept = cached_bytes() / REACHED_SIZE;
  must((kept > 100) == limited->cached);
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
  while ((block = pool_heap_alloc(limited, REACHED_SIZE)) != NULL)   /* it is not busy any more */
    limited_blocks[half + got++] = block;
  must(got >= limited_count - half - 4);
  pthread_barrier_wait(&all_seen);
  pthread_join(sleeper, NULL);
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
  pthread_t sleeper;
  static bool busy;
  os_fake_heal();
  must((limited = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20})) != NULL);
  threads_reach(limited, &limited->reach, count_visit);
  limited_count = fill_limited();
  free_limited(0, 20);
  run(use, argument);
  threads_reach(limited, &limited->reach, count_visit);
  must(visits == 0);
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&sleeper, NULL, hold_magazines, &busy) == 0);
  pthread_barrier_wait(&all_there);
  os_fake.fail_kinds = 1 << OS_FENCE;
  threads_reach(limited, &limited->reach, count_visit);
  must(visits == 0 && limited->reach.first);
  os_fake_heal();
  threads_reach(limited, &limited->reach, count_visit);
  must(visits == 1);
  threads_reach(limited, &limited->reach, count_visit);
  must(visits == 1 && check_everything());
  pthread_barrier_wait(&all_seen);
  pthread_barrier_wait(&all_there);
  pthread_barrier_wait(&all_seen);
  pthread_join(sleeper, NULL);
  free_limited(20, limited_count / 2);
  pool_heap_destroy(limited);
  must(check_everything());
}

/* Who has found its magazines, and is not busy with them yet, when somebody else empties them and takes them off the list of what can be
 * reached: what it puts into them is on the list again. */
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
  threads_reach(limited, &limited->reach, flush);
  __atomic_store_n(&reach_is_over, true, __ATOMIC_RELEASE);
  return unused;
}

static void emptied_when_found(void *argument)
{
  pthread_t reacher;
  (void)argument;
  os_fake_heal();
  must((limited = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20})) != NULL);
  limited_count = fill_limited();
  pthread_barrier_init(&all_there, NULL, 2);
  pthread_barrier_init(&all_seen, NULL, 2);
  must(pthread_create(&finder, NULL, free_twenty_and_one, NULL) == 0);
  pthread_barrier_wait(&all_there);
  threads_reach(limited, &limited->reach, flush);
  free_limited(21, 41);
  must(limited->reach.first && check_everything());
  lock_acquire(&threads_lock);
  pthread_barrier_wait(&all_seen);
  while (__atomic_load_n(&threads_lock.word, __ATOMIC_ACQUIRE) != 2)
    usleep(100);
  os_fake.woken = wait_for_the_other;
  must(pthread_create(&reacher, NULL, reach, NULL) == 0);
  usleep(20000);   /* both sleep now, the finder at the head; if not, this shows nothing, but does not fail */
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

/* All at it at once: blocks go through magazines that are emptied at any moment, and each is with one thread. One alone asks for more
 * than there is: others may have ended, or not begun. */
static void *fight(void *argument)
{
  enum { MINE = 4500 };
  static _Thread_local void *mine[MINE];
  dice_t dice = {(uintptr_t)argument};
  size_t count = 0;
  for (size_t i = 0; i < 60000; i++) {
    size_t size = 16 + dice_below(&dice, 30) * 40;
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
    pool_heap_options_t options = {.budget = 2 << 20};
    if (!placed) {
      options.size_classes = classes;
      options.size_class_count = 4;
    }
    must((limited = pool_heap_create(&options)) != NULL && limited->has_cache_slot == placed);
    for (uintptr_t i = 0; i < 5; i++)
      must(pthread_create(&threads[i], NULL, fight, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < 5; i++)
      pthread_join(threads[i], NULL);
    pool_stats_t stats;
    must(pool_heap_stats(limited, &stats) && stats.live_blocks == 0 && stats.peak_held_bytes <= stats.budget && stats.exhausted_count > 0);
    must(check_everything());
    pool_heap_destroy(limited);
  }
}

/* ---- fork ---- */

static void in_the_child(void *argument)
{
  (void)argument;
  must(records() <= 1);
  use(NULL);
  must(records() == 1 && check_everything());
}

static void fork_alone(void *argument)
{
  (void)argument;
  os_fake_heal();
  in_child(in_the_child, NULL);
  use(NULL);
  in_child(in_the_child, NULL);
  run(use, NULL);
  in_child(in_the_child, NULL);
}

static void fork_among_threads(void *argument)
{
  pthread_t threads[4];
  (void)argument;
  os_fake_heal();
  use(NULL);
  pthread_barrier_init(&all_there, NULL, 5);
  pthread_barrier_init(&all_seen, NULL, 5);
  for (size_t i = 0; i < 4; i++)
    must(pthread_create(&threads[i], NULL, use_and_wait, NULL) == 0);
  pthread_barrier_wait(&all_there);
  in_child(in_the_child, NULL);
  pthread_barrier_wait(&all_seen);
  for (size_t i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}

IN_CHILD(one_for_each_thread)
IN_CHILD(counted)
IN_CHILD(no_trace)
IN_CHILD(after_the_end)
IN_CHILD(only_frees)
IN_CHILD(no_call_at_the_end)
IN_CHILD(no_key)
IN_CHILD(no_memory_for_a_record)
IN_CHILD(many_heaps)
IN_CHILD(many_idle_heaps)
IN_CHILD(no_memory_for_chains)
IN_CHILD(only_those_of_others)
IN_CHILD(emptied_when_found)
IN_CHILD(fought_over)
IN_CHILD(fork_alone)
IN_CHILD(fork_among_threads)

/* The thread sanitizer cannot join the first thread. */
static void first_thread_ends_test(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  in_child(first_thread_ends, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_for_each_thread_test),
    cmocka_unit_test(counted_test),
    cmocka_unit_test(no_trace_test),
    cmocka_unit_test(first_thread_ends_test),
    cmocka_unit_test(after_the_end_test),
    cmocka_unit_test(only_frees_test),
    cmocka_unit_test(no_call_at_the_end_test),
    cmocka_unit_test(no_key_test),
    cmocka_unit_test(no_memory_for_a_record_test),
    cmocka_unit_test(many_heaps_test),
    cmocka_unit_test(many_idle_heaps_test),
    cmocka_unit_test(no_memory_for_chains_test),
    cmocka_unit_test(reached_test),
    cmocka_unit_test(only_those_of_others_test),
    cmocka_unit_test(emptied_when_found_test),
    cmocka_unit_test(fought_over_test),
    cmocka_unit_test(fork_alone_test),
    cmocka_unit_test(fork_among_threads_test),
  };
  return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
