/* SPDX-License-Identifier: MIT
 * Profiles: what they say of places, and that nothing is left of one that has ended. */
#include "heap/heap.h"
#include "profiles.h"
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

OPAQUE static object_pool_t *pool_here(pool_heap_t *heap)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 100, .capacity = 1000, .heap = heap});
  calls++;
  return pool;
}

/* The sanitizers keep the library's frames, and with 32 bits fewer calls are tail calls: what is known may be a place in there.
 */
enum { KNOWS_PLACES = !SANITIZED && sizeof(void *) > 4 };
static const char *from(const char *function) { return KNOWS_PLACES ? function : NULL; }

/* ---- what it says ---- */

static void of_sites(void **state)
{
  (void)state;
  enum { PAIRS = 1000000, KEPT = 20000, MEAN = 4096 };
  static void *kept[KEPT];
  begin(MEAN);
  for (int i = 0; i < PAIRS; i++)
    pool_free(small_here(i % 2 ? 40 : 100));
  for (int i = 0; i < KEPT; i++)
    must(kept[i] = zeroed_here(700));
  profile_sums_t freed = profile_of(NULL, from("small_here")), live = profile_of(NULL, from("zeroed_here"));
  if (KNOWS_PLACES) {
    assert_near(freed.blocks, PAIRS, PAIRS * 70.0 / MEAN / 2); /* half of the blocks have less than a third of the chance */
    assert_near(freed.bytes, PAIRS * 70.0, PAIRS * 70.0 / MEAN);
    assert_true(freed.live_blocks == 0);
    assert_near(live.bytes, KEPT * 700.0, KEPT * 700.0 / MEAN);
  }
  assert_near(live.live_bytes, KEPT * 700.0, KEPT * 700.0 / MEAN);
  pool_profile_stop();
  assert_true(profile_of(NULL, from("zeroed_here")).in_profile == live.in_profile);
  for (int i = 0; i < KEPT; i++)
    pool_free(kept[i]);
  assert_true(profile_of(NULL, NULL).in_profile == 0);
  assert_true(check_everything());
}

/* Each byte is a sample: nothing is left to chance. */
static void of_every_block(void **state)
{
  (void)state;
  begin(1);
  char *block = small_here(10), *large = small_here(3 << 20), *huge = small_here(80 << 20);
  assert_true(profile_of(NULL, NULL).live_bytes == 10 + (83 << 20));
  large = grown_here(large, 5 << 20);
  huge = grown_here(huge, 100 << 20);
  assert_true(profile_of(NULL, NULL).live_bytes == 10 + (105 << 20));
  block = grown_here(block, 30);
  profile_sums_t sums = profile_of(NULL, NULL);
  assert_true(sums.live_bytes == 30 + (105 << 20) && sums.in_profile == 3);
  if (KNOWS_PLACES)
    assert_true(profile_of(NULL, "grown_here").in_profile == 3);
  huge = grown_here(huge, 90 << 20);
  assert_true(pool_resize_in_place(huge, 70 << 20));
  assert_true(profile_of(NULL, NULL).live_bytes == 30 + (75 << 20));
  pool_free(block);
  pool_free(large);
  pool_free(huge);
  assert_true(profile_of(NULL, NULL).in_profile == 0);
  pool_profile_stop();
}

static void of_heaps(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "profiled"}), *before = heap_with((pool_heap_options_t){0});
  of_heap_here(before, 50);
  begin(1);
  pool_heap_t *after = heap_with((pool_heap_options_t){.name = "after", .budget = 64 << 20});
  for (int i = 0; i < 100; i++)
    must(of_heap_here(heap, 100) && of_heap_here(after, 1000));
  void *own = small_here(1);
  assert_true(profile_of(heap, NULL).live_bytes == 10000 && profile_of(after, NULL).live_bytes == 100000);
  assert_true(profile_of(before, NULL).lines == 0 && profile_of(NULL, NULL).live_bytes == 110001);
  assert_true(profile_of(pool_heap_default(), NULL).live_bytes == 1);
  object_pool_t *pool = pool_here(heap);
  assert_true(profile_of(heap, from("pool_here")).live_bytes >= (KNOWS_PLACES ? 100000 : 110000));
  object_pool_destroy(pool);
  pool_heap_reset(heap);
  assert_true(profile_of(heap, NULL).in_profile == 0 && profile_of(heap, NULL).bytes >= 10000);
  pool_heap_destroy(heap);
  pool_heap_destroy(after);
  pool_heap_destroy(before);
  pool_free(own);
  assert_true(profile_of(NULL, NULL).in_profile == 0);
  pool_profile_stop();
  assert_true(check_everything());
}

/* ---- beginning and end ---- */

/* The fast path finds the magazines again, and what they had. */
static void ended(void **state)
{
  (void)state;
  static void *kept[500];
  for (size_t i = 0; i < COUNT_OF(kept); i++)
    must(kept[i] = pool_alloc(64));
  for (size_t i = 0; i < COUNT_OF(kept); i++)
    pool_free(kept[i]);
  size_t cached = stats_of(pool_heap_default()).cached_bytes;
  assert_true(thread_is_ready(thread_self));
  for (int round = 0; round < 3; round++) {
    begin(0);
    assert_false(thread_is_ready(thread_self));
    assert_int_equal(stats_of(pool_heap_default()).cached_bytes, cached);
    void *block = pool_alloc(64);
    pool_free(block);
    pool_profile_stop();
    for (int i = 0; i < 1000 && !thread_is_ready(thread_self); i++)
      must(kept[i % 500] = pool_alloc(64)), pool_free(kept[i % 500]);
    if (!thread_is_ready(thread_self)) /* one that its magazines cannot serve */
      pool_free(pool_alloc(100000));
    for (size_t i = 0; i < COUNT_OF(kept); i++)
      must(kept[i] = pool_alloc(64));
    for (size_t i = 0; i < COUNT_OF(kept); i++)
      pool_free(kept[i]);
    assert_true(thread_is_ready(thread_self));
    assert_true(check_everything());
  }
}

/* What is live of a profile that has ended is in none of the next, and its end takes nothing from it. */
static void one_after_the_other(void **state)
{
  (void)state;
  void *old[100], *young[100];
  for (int round = 0; round < 5; round++) {
    begin(1);
    for (int i = 0; i < 100; i++)
      old[i] = small_here(100);
    pool_profile_stop();
    begin(1);
    for (int i = 0; i < 100; i++)
      young[i] = small_here(100);
    for (int i = 0; i < 100; i++)
      pool_free(old[i]);
    assert_true(profile_of(NULL, NULL).in_profile == 100);
    for (int i = 0; i < 100; i++)
      pool_free(young[i]);
    assert_true(profile_of(NULL, NULL).in_profile == 0);
    pool_profile_stop();
  }
}

static void wrong_arguments(void **state)
{
  (void)state;
  pool_profile_stop();
  errno = 0;
  assert_false(pool_profile_start(((uint64_t)1 << 31) + 1));
  assert_int_equal(errno, EINVAL);
  assert_string_equal(pool_error(), "sample_bytes is 2147483649, more than 2147483648");
  errno = UNTOUCHED;
  begin((uint64_t)1 << 31);
  assert_int_equal(errno, UNTOUCHED);
  assert_false(pool_profile_start(0));
  assert_int_equal(errno, EBUSY);
  assert_false(pool_profile_write(NULL, -1));
  assert_int_equal(errno, EBADF);
  pool_profile_stop();
  pool_profile_stop();
}

/* The memory of pages goes back, and counts as held until then. */
static void memory_goes_back(void **state)
{
  (void)state;
  static void *blocks[5000];
  pool_trim(0);
  size_t held = stats_of(pool_heap_default()).held_bytes;
  begin(1);
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    must(blocks[i] = memset(small_here(4000), 1, 4000));
  assert_true(stats_of(pool_heap_default()).held_bytes >= held + 5000 * 4096);
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    pool_free(blocks[i]);
  pool_profile_stop();
  pool_trim(0);
  assert_true(stats_of(pool_heap_default()).held_bytes <= held + (2 << 20));
}

/* ---- threads and forks ---- */

static void *handed[64];

static void work(size_t index, void *unused)
{
  dice_t dice = {index};
  (void)unused;
  for (int i = 0; i < 30000; i++) {
    void *block = small_here(1 + dice_below(&dice, 2000));
    must(block);
    pool_free(__atomic_exchange_n(&handed[dice_below(&dice, 64)], block, __ATOMIC_ACQ_REL));
  }
}

/* Blocks are freed by other threads than took them, while profiles come and go and are written. */
static void switch_while_others_work(size_t index, void *unused)
{
  if (index) {
    work(index, unused);
    return;
  }
  for (int i = 0; i < 40; i++) {
    must(pool_profile_start(i % 3 ? 2000 : 1));
    profile_of(NULL, NULL);
    usleep(2000);
    profile_of(pool_heap_default(), NULL);
    pool_profile_stop();
    usleep(1000);
  }
}

static void threads(void **state)
{
  (void)state;
  run_threads(4, switch_while_others_work, NULL);
  for (size_t i = 0; i < COUNT_OF(handed); i++) {
    pool_free(handed[i]);
    handed[i] = NULL;
  }
  assert_true(profile_of(NULL, NULL).in_profile == 0);
  assert_true(check_everything());
}

/* The child has the profile of its parent, and goes on with it. */
static void forks(void **state)
{
  (void)state;
  begin(1);
  void *both = small_here(100);
  pid_t child = fork();
  if (child == 0) {
    void *own = small_here(50);
    bool right = profile_of(NULL, NULL).live_bytes == 150;
    pool_free(own);
    pool_free(both);
    _exit(right && profile_of(NULL, NULL).in_profile == 0 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(profile_of(NULL, NULL).in_profile == 1);
  pool_free(both);
  pool_profile_stop();
}

/* A thread that frees and takes the same large block, and nothing else. */
static void *turn_spares(void *stopped)
{
  int turns = 0;
  while (!__atomic_load_n((int *)stopped, __ATOMIC_ACQUIRE)) {
    pool_free(small_here(100000));
    if (++turns == 100)
      __atomic_store_n(&handed[0], handed, __ATOMIC_RELEASE);
  }
  return NULL;
}

/* A profile that begins beside the thread counts it. */
static void count_beside(void *(*run)(void *))
{
  int stopped = 0;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, &stopped), 0);
  while (!__atomic_load_n(&handed[0], __ATOMIC_ACQUIRE))
    usleep(100);
  assert_true(pool_profile_start(1000));
  for (int i = 0; i < 10000 && profile_of(NULL, NULL).blocks < 100; i++)
    usleep(1000);
  assert_true(profile_of(NULL, NULL).blocks >= 100);
  pool_profile_stop();
  __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
  assert_int_equal(pthread_join(thread, NULL), 0);
  handed[0] = NULL;
}

static void nothing_but_spares(void **state)
{
  (void)state;
  count_beside(turn_spares);
}

/* A thread that takes all of its blocks by realloc(), and of those more than its magazines have. */
static void *grow_blocks(void *stopped)
{
  static void *kept[3000];
  for (size_t i = 0; i < COUNT_OF(kept); i++)
    must(kept[i] = pool_alloc(16));
  for (int round = 0; !__atomic_load_n((int *)stopped, __ATOMIC_ACQUIRE); round++)
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
      must(kept[i] = pool_realloc(kept[i], round % 2 ? 16 : 5000));
      if (round == 1)
        __atomic_store_n(&handed[0], handed, __ATOMIC_RELEASE);
    }
  for (size_t i = 0; i < COUNT_OF(kept); i++)
    pool_free(kept[i]);
  return NULL;
}

static void nothing_but_realloc(void **state)
{
  (void)state;
  count_beside(grow_blocks);
}

static int load(void **state)
{
  (void)state;
  pool_free(pool_alloc(1));
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(wrong_arguments),
    cmocka_unit_test(of_sites),
    cmocka_unit_test(of_every_block),
    cmocka_unit_test(of_heaps),

    cmocka_unit_test(ended),
    cmocka_unit_test(one_after_the_other),
    cmocka_unit_test(threads),
    cmocka_unit_test(memory_goes_back),
    cmocka_unit_test(forks),

    cmocka_unit_test(nothing_but_spares),
    cmocka_unit_test(nothing_but_realloc),
  };
  return cmocka_run_group_tests_name("profile", tests, load, NULL);
}
