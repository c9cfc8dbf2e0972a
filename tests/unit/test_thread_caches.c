/* SPDX-License-Identifier: MIT
 * What a thread caches of many heaps: it finds each, looks at some in a tick, and does without when there is no memory. */
#include "heap/tick.h"
#include "option.h"
#include "os_fake.h"
#include "space/metadata.h"
#include "threads.h"
#include <tidepool/heap.h>

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
  in_thread(use_all_heaps, NULL);
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
  must(looks_of_a_tick() >= MANY / 32 && thread_self->due_count == MANY); /* in use at the first, */
  must(looks_of_a_tick() >= MANY / 32 && thread_self->due_count == 0);    /* idle since */
  must(looks_of_a_tick() == 1);
  for (size_t i = 0; i < MANY; i += 1000)
    pool_heap_free(many[i], pool_heap_alloc(many[i], 50));
  must(thread_self->due_count == MANY / 1000);
  pool_heap_destroy(many[1000]);
  must(thread_self->due_count == MANY / 1000 - 1 && looks_of_a_tick() == 1 && looks_of_a_tick() == 1 &&
       thread_self->due_count == 0);
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
  while (metadata_take(64, 64) && metadata_bytes() < MIB) {}
  os_fake.refuse = true;
  while (metadata_take(64, 64)) {}
  for (size_t i = 0; i < 300; i++)
    pool_heap_free(heaps[i], pool_heap_alloc(heaps[i], 50));
  os_fake_heal();
  must(check_everything());
  use_all_heaps(argument);
  must(caches_of(thread_self) == 300 && check_everything());
}

IN_CHILD(many_heaps)
IN_CHILD(many_idle_heaps)
IN_CHILD(no_memory_for_chains)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(many_heaps_test),
    cmocka_unit_test(many_idle_heaps_test),
    cmocka_unit_test(no_memory_for_chains_test),
  };
  return cmocka_run_group_tests_name("thread_caches", tests, NULL, NULL);
}
