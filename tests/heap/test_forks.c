/* SPDX-License-Identifier: MIT
 * Forks beside threads that have something cached, handlers of others, and threads that somebody cancels. */
#include "check/check.h"
#include "heaps.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200, SIZE = 100, STUCK_SECONDS = 300 };

/* ---- handlers that were registered before main(), as a library's constructor does ---- */

static unsigned handled;

static void use_in_a_handler(void)
{
  void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++)
    must((blocks[i] = pool_alloc(i * 300)) != NULL);
  for (size_t i = 0; i < BLOCKS; i++)
    pool_free(blocks[i]);
  handled++;
}

static bool handlers_are_quiet = true;
static void handler(void)
{
  if (!handlers_are_quiet)
    use_in_a_handler();
}

__attribute__((constructor)) static void register_handlers(void) { pthread_atfork(handler, handler, handler); }

static void *use_a_little(void *unused)
{
  pool_free(pool_alloc(10));
  return unused;
}

static void after_the_handlers(void *unused)
{
  (void)unused;
  must(handled == 2); /* before the fork and in the child */
  use_in_a_handler();
}

/* The process has had another thread, so that a fork takes all locks. */
static void fork_beside_handlers(void *unused)
{
  (void)unused;
  pthread_t thread;
  must(pthread_create(&thread, NULL, use_a_little, NULL) == 0);
  pthread_join(thread, NULL);
  alarm(STUCK_SECONDS);
  handlers_are_quiet = false;
  in_child(after_the_handlers, NULL);
}
IN_CHILD(fork_beside_handlers)

/* ---- what others had cached ---- */

static pool_heap_t *heap;
static void *freed[BLOCKS], *kept;
static pthread_barrier_t done, never;

static void *cache_some(void *unused)
{
  for (size_t i = 0; i < BLOCKS; i++)
    must((freed[i] = pool_heap_alloc(heap, SIZE)) != NULL);
  must((kept = pool_heap_alloc(heap, SIZE)) != NULL);
  for (size_t i = 0; i < BLOCKS; i++)
    pool_heap_free(heap, freed[i]);
  pthread_barrier_wait(&done);
  pthread_barrier_wait(&never);
  return unused;
}

static bool count_block(const pool_block_t *block, void *count)
{
  must(block->start == kept);
  ++*(size_t *)count;
  return true;
}

static void only_one_is_live(void)
{
  pool_stats_t stats;
  size_t visited = 0;
  must(pool_heap_stats(heap, &stats) && stats.live_blocks == 1 && stats.cached_bytes >= BLOCKS * SIZE);
  for (size_t i = 0; i < BLOCKS; i++)
    must(!pool_in_use(freed[i]));
  must(pool_in_use(kept));
  must(pool_heap_walk(heap, count_block, &visited) && visited == 1);
  check_everything();
}

/* A thread that is new may be given the memory of one that is not here. */
static void *fill_another_stack(void *unused)
{
  char block[64 << 10];
  memset(block, 0x5a, sizeof block);
  __asm__ volatile("" : : "r"(block) : "memory");
  return unused;
}

static void look_in_the_child(void *again)
{
  only_one_is_live();
  for (int i = 0; i < 4; i++) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, fill_another_stack, NULL) == 0);
    pthread_join(thread, NULL);
  }
  only_one_is_live();
  if (again) {
    in_child(look_in_the_child, NULL);
    only_one_is_live();
  }
  if (heap != pool_heap_default()) {
    pool_heap_reset(heap);
    pool_stats_t stats;
    must(pool_heap_stats(heap, &stats) && stats.live_blocks == 0 && stats.cached_bytes == 0);
    must((kept = pool_heap_alloc(heap, SIZE)) != NULL && pool_in_use(kept));
    pool_heap_destroy(heap);
    check_everything();
  }
}

static void fork_beside_a_cache(void *options)
{
  pthread_t thread;
  pthread_barrier_init(&done, NULL, 2);
  pthread_barrier_init(&never, NULL, 2);
  heap = options ? heap_with(*(pool_heap_options_t *)options) : pool_heap_default();
  must(pthread_create(&thread, NULL, cache_some, NULL) == 0);
  pthread_barrier_wait(&done);
  in_child(look_in_the_child, &done);
}

static void cached_by_others_is_not_live(void **state)
{
  static pool_heap_options_t options[] = {{.name = "plain"}, {.budget = 20 << 20}, {.reserve = 20 << 20}};
  (void)state;
  in_child(fork_beside_a_cache, NULL);
  for (size_t i = 0; i < COUNT_OF(options); i++)
    in_child(fork_beside_a_cache, &options[i]);
}

/* ---- a thread that is cancelled does not leave in the middle of a call ---- */

static void *first_use_although_cancelled(void *unused)
{
  (void)unused;
  pthread_cancel(pthread_self());
  void *block = pool_alloc(SIZE);
  pool_free(block);
  return block;
}

static void cancel_at_the_first_use(void *unused)
{
  (void)unused;
  pthread_t thread;
  void *block;
  setenv("TIDEPOOL_OPTIONS", "there_is_no_such_option=1", 1); /* which it is told, under the lock of the beginning */
  alarm(STUCK_SECONDS);
  must(pthread_create(&thread, NULL, first_use_although_cancelled, NULL) == 0);
  pthread_join(thread, &block);
  must(block && block != PTHREAD_CANCELED);
  pool_free(pool_alloc(SIZE));
}

static void tell_an_option_although_cancelled(void **state)
{
  (void)state;
  in_child(cancel_at_the_first_use, NULL);
}

/* ---- beside a call that changes a block and what is held for it ---- */

enum { FORKS = 40, PAUSE_MOST_US = 300 };
typedef struct in_a_loop {
  size_t size, other;
  pool_heap_options_t options;
} in_a_loop_t;
static pool_heap_t *parent;
static in_a_loop_t looping;
static int loop_ends;

static void *large_blocks(void *unused)
{
  while (!__atomic_load_n(&loop_ends, __ATOMIC_RELAXED)) {
    void *block = pool_heap_alloc(heap, looping.size);
    must(block);
    if (looping.other)
      must((block = pool_heap_realloc(heap, block, looping.other)) != NULL);
    pool_heap_free(heap, block);
  }
  return unused;
}

static void *heaps_that_come_and_go(void *unused)
{
  while (!__atomic_load_n(&loop_ends, __ATOMIC_RELAXED)) {
    pool_heap_t *one = pool_heap_create(&looping.options);
    must(one);
    pool_heap_destroy(one);
  }
  return unused;
}

static void fork_beside(void *(*loop)(void *), void (*look)(void *), void *argument)
{
  pthread_t thread;
  dice_t dice = {1};
  alarm(STUCK_SECONDS);
  loop_ends = 0;
  must(pthread_create(&thread, NULL, loop, NULL) == 0);
  for (int i = 0; i < FORKS; i++) {
    usleep((useconds_t)dice_below(&dice, PAUSE_MOST_US));
    in_child(look, argument);
  }
  __atomic_store_n(&loop_ends, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
}

/* After its end no block is live, and what is held is what was held before the first. */
static void nothing_is_lost(void *argument)
{
  size_t held_before = *(const size_t *)argument;
  pool_heap_reset(heap);
  pool_heap_trim(heap, 0);
  pool_stats_t stats = stats_of(heap);
  must(stats.live_blocks == 0 && stats.live_bytes == 0 && stats.held_bytes == held_before);
  must(check_everything());
  must(pool_heap_alloc(heap, looping.size));
  pool_heap_destroy(heap);
  must(stats_of(parent).children_bytes == 0);
  pool_heap_destroy(parent);
}

static void beside_large_blocks(void *argument)
{
  looping = *(const in_a_loop_t *)argument;
  size_t most = looping.size > looping.other ? looping.size : looping.other;
  parent = heap_with_budget(most + (20 << 20));
  looping.options.parent = parent;
  heap = heap_with(looping.options);
  pool_heap_free(heap, pool_heap_alloc(heap, looping.size));
  pool_heap_reset(heap);
  pool_heap_trim(heap, 0);
  size_t held_before = stats_of(heap).held_bytes;
  fork_beside(large_blocks, nothing_is_lost, &held_before);
}

static void forks_beside_large_blocks(void **state)
{
  (void)state;
  static const in_a_loop_t loops[] = {{.size = 300000},
                                      {.size = 8 << 20},
                                      {.size = 64 << 20},
                                      {.size = 300000, .other = 900000},
                                      {.size = 8 << 20, .other = 20 << 20},
                                      {.size = 20 << 20, .other = 6 << 20},
                                      {.size = 300000, .options = {.budget = 2 << 20}},
                                      {.size = 300000, .options = {.reserve = 10 << 20}},
                                      {.size = 300000, .other = 8 << 20}};
  for (size_t i = 0; i < COUNT_OF(loops); i++)
    in_child(beside_large_blocks, (void *)(uintptr_t)&loops[i]);
}

/* The other heap is there, or it is not, and then its parent may end. */
static void whole_or_not(void *argument)
{
  size_t bytes = stats_of(parent).children_bytes;
  must(bytes == 0 || bytes == *(const size_t *)argument);
  must(check_everything());
  if (!bytes)
    pool_heap_destroy(parent);
}

static void beside_heaps(void *argument)
{
  looping = *(const in_a_loop_t *)argument;
  parent = heap_with_budget(100 << 20);
  looping.options.parent = parent;
  heap = heap_with(looping.options);
  size_t bytes = stats_of(parent).children_bytes;
  pool_heap_destroy(heap);
  fork_beside(heaps_that_come_and_go, whole_or_not, &bytes);
}

static void forks_beside_heaps(void **state)
{
  (void)state;
  static const size_t sizes[] = {32, 128};
  static const in_a_loop_t loops[] = {{.options = {0}},
                                      {.options = {.budget = 1 << 20}},
                                      {.options = {.budget = 20 << 20}},
                                      {.options = {.reserve = 1 << 20}},
                                      {.options = {.reserve = 16 << 20}},
                                      {.options = {.size_classes = sizes, .size_class_count = 2}}};
  for (size_t i = 0; i < COUNT_OF(loops); i++)
    in_child(beside_heaps, (void *)(uintptr_t)&loops[i]);
}

/* An object pool, or an array of one, is there or not; and the heap that ends all has what it had before. */
static object_pool_t *growing;
static void *object_pools_that_come_and_go(void *unused)
{
  while (!__atomic_load_n(&loop_ends, __ATOMIC_RELAXED)) {
    object_pool_t *pool =
      object_pool_create(&(object_pool_options_t){.object_size = looping.size, .capacity = looping.other, .heap = heap});
    must(pool);
    object_pool_destroy(pool);
  }
  return unused;
}

static void grow_and_shrink(void)
{
  void *objects[100];
  for (size_t i = 0; i < COUNT_OF(objects); i++)
    must((objects[i] = object_pool_get(growing)) != NULL);
  object_pool_put_batch(growing, objects, COUNT_OF(objects));
  object_pool_shrink(growing, 0);
}

static void *an_object_pool_that_grows_and_shrinks(void *unused)
{
  while (!__atomic_load_n(&loop_ends, __ATOMIC_RELAXED))
    grow_and_shrink();
  return unused;
}

/* A heap keeps the record of each class that it has had blocks of. */
static void once_before(void)
{
  object_pool_options_t options = {.object_size = looping.size, .capacity = looping.other, .heap = heap};
  options.when_full = looping.other ? OBJECT_POOL_FAIL : OBJECT_POOL_GROW;
  growing = object_pool_create(&options);
  if (!looping.other)
    grow_and_shrink();
  object_pool_destroy(growing);
  pool_heap_reset(heap);
  pool_heap_trim(heap, 0);
}

/* All its arrays end with it, also one that was about to come or to leave. */
static void no_array_is_lost(void *argument)
{
  object_pool_destroy(growing);
  must(!growing || stats_of(heap).live_blocks == 0);
  nothing_is_lost(argument);
}

static void beside_object_pools(void *argument)
{
  looping = *(const in_a_loop_t *)argument;
  parent = heap_with_budget(100 << 20);
  looping.options.parent = parent;
  heap = heap_with(looping.options);
  once_before();
  size_t held_before = stats_of(heap).held_bytes;
  growing =
    looping.other
      ? NULL
      : object_pool_create(&(object_pool_options_t){.object_size = looping.size, .when_full = OBJECT_POOL_GROW, .heap = heap});
  fork_beside(growing ? an_object_pool_that_grows_and_shrinks : object_pools_that_come_and_go, no_array_is_lost, &held_before);
}

static void forks_beside_object_pools(void **state)
{
  (void)state;
  static const in_a_loop_t loops[] = {
    {.size = 64, .other = 2000},   {.size = 64, .other = 10},
    {.size = 1000, .other = 9000}, {.size = 64, .other = 2000, .options = {.budget = 8 << 20}},
    {.size = 20000, .other = 0},   {.size = 300000, .other = 0}};
  for (size_t i = 0; i < COUNT_OF(loops); i++)
    in_child(beside_object_pools, (void *)(uintptr_t)&loops[i]);
}

/* ---- what a fork costs beside many heaps ---- */

/* A page that the process writes to after a fork is a fault. There are some 15, and were one for two heaps when a fork took
 * each lock. */
enum { MANY = 2000, FAULTS_MOST = MANY / 8 };

static void *wait_for_ever(void *barrier)
{
  pthread_barrier_wait(barrier);
  while (true)
    pause();
  return barrier;
}

static long faults_so_far(void)
{
  struct rusage usage;
  must(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

/* The child must find every lock open. */
static void beside_many_heaps(void *unused)
{
  static pool_heap_t *heaps[MANY];
  pthread_barrier_t there;
  pthread_t thread;
  int status = -1;
  (void)unused;
  pthread_barrier_init(&there, NULL, 2);
  must(pthread_create(&thread, NULL, wait_for_ever, &there) == 0);
  pthread_barrier_wait(&there);
  for (size_t i = 0; i < MANY; i++)
    must((heaps[i] = pool_heap_create(NULL)) && pool_heap_alloc(heaps[i], SIZE));
  long before = faults_so_far();
  pid_t child = fork();
  long faults = faults_so_far() - before;
  if (child == 0) {
    alarm(STUCK_SECONDS);
    for (size_t i = 0; i < MANY; i++)
      pool_heap_reset(heaps[i]), must(pool_heap_alloc(heaps[i], 10 * SIZE) != NULL);
    _exit(0);
  }
  must(waitpid(child, &status, 0) == child && status == 0);
  must(faults < FAULTS_MOST);
}
IN_CHILD(beside_many_heaps)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tell_an_option_although_cancelled), /* first: nobody has used the library yet */
    cmocka_unit_test(fork_beside_handlers_test),         cmocka_unit_test(cached_by_others_is_not_live),
    cmocka_unit_test(forks_beside_large_blocks),         cmocka_unit_test(forks_beside_heaps),
    cmocka_unit_test(forks_beside_object_pools),         cmocka_unit_test(beside_many_heaps_test),
  };
  return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
