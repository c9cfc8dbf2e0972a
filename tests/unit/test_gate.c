/* SPDX-License-Identifier: MIT
 * Who is inside the gate keeps a fork waiting, and who comes while it is closed waits for the fork. */
#include "heap/heap.h"
#include "heap/life.h"
#include "os/lock.h"
#include "os_fake.h"
#include "unit.h"
#include <pthread.h>
#include <tidepool/pool.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 4000 };

/* Two words that agree but for somebody who is inside. */
static size_t begun[THREADS], ended[THREADS];
static bool stop;

static void *go_in_and_out(void *argument)
{
  size_t i = (size_t)(uintptr_t)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    lock_t *gate = gate_enter(GATE_LARGE);
    __atomic_store_n(&begun[i], begun[i] + 1, __ATOMIC_RELAXED);
    if (begun[i] % 16 == 0)
      sched_yield();
    __atomic_store_n(&ended[i], begun[i], __ATOMIC_RELAXED);
    gate_leave(gate);
  }
  return NULL;
}

static void nobody_is_inside(void)
{
  for (size_t i = 0; i < THREADS; i++)
    must(__atomic_load_n(&begun[i], __ATOMIC_RELAXED) == __atomic_load_n(&ended[i], __ATOMIC_RELAXED));
}

static void closed_and_opened(void *argument)
{
  pthread_t threads[THREADS];
  (void)argument;
  os_fake_heal();
  for (uintptr_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, go_in_and_out, (void *)i) == 0);
  for (size_t turn = 0; turn < ROUNDS / 4; turn++) {
    gate_close(GATE_LARGE);
    nobody_is_inside();
    if (turn % 16 == 0)
      sched_yield();
    nobody_is_inside();
    gate_open(GATE_LARGE, lock_release);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* ---- a fork that waits ---- */

static bool inside, may_leave, closed;

static void *stay_inside(void *unused)
{
  lock_t *gate = gate_enter(GATE_LARGE);
  __atomic_store_n(&inside, true, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&may_leave, __ATOMIC_ACQUIRE))
    usleep(100);
  gate_leave(gate);
  return unused;
}

static void *close_and_open(void *unused)
{
  gate_close(GATE_LARGE);
  nobody_is_inside();
  __atomic_store_n(&closed, true, __ATOMIC_RELEASE);
  gate_open(GATE_LARGE, lock_release);
  return unused;
}

static lock_t *first_lock;
static void note_first(lock_t *lock) { first_lock = first_lock ? first_lock : lock; }

static size_t sum_of_begun(void)
{
  size_t sum = 0;
  for (size_t i = 0; i < THREADS; i++)
    sum += __atomic_load_n(&begun[i], __ATOMIC_RELAXED);
  return sum;
}

/* It waits for the one who stays. Of those who come again and again each comes in once more at most; where they all came in, a
 * fork met them at each of its gates and took seconds. */
static void nobody_overtakes_a_fork(void *argument)
{
  pthread_t threads[THREADS], stays, forks;
  (void)argument;
  os_fake_heal();
  must(pthread_create(&stays, NULL, stay_inside, NULL) == 0);
  while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
    usleep(100);
  for (uintptr_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, go_in_and_out, (void *)i) == 0);
  while (sum_of_begun() < 1000)
    usleep(100);
  must(pthread_create(&forks, NULL, close_and_open, NULL) == 0);
  gate_each(GATE_LARGE, note_first);
  while (!__atomic_load_n(&first_lock->word, __ATOMIC_ACQUIRE))
    usleep(100);
  size_t before = sum_of_begun();
  usleep(50000);
  must(sum_of_begun() <= before + THREADS);
  must(!__atomic_load_n(&closed, __ATOMIC_ACQUIRE));
  __atomic_store_n(&may_leave, true, __ATOMIC_RELEASE);
  must(pthread_join(forks, NULL) == 0 && pthread_join(stays, NULL) == 0);
  while (sum_of_begun() <= before + 100 * THREADS)
    usleep(100);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static lock_t *locks_seen[16], *still_held;
static size_t locks_count;
static void note_lock(lock_t *lock) { locks_seen[locks_count++] = lock; }

static void open_but_one(lock_t *lock)
{
  if (lock != still_held)
    lock_release(lock);
}

/* Nor one that waits for another fork: this one is over, that one closes the gates, and waits for somebody inside the first. */
static void nobody_overtakes_the_second(void *argument)
{
  pthread_t threads[THREADS], second;
  (void)argument;
  os_fake_heal();
  gate_each(GATE_LARGE, note_lock);
  lock_t *queue = locks_seen[0];
  still_held = locks_seen[1];
  gate_close(GATE_LARGE);
  must(pthread_create(&second, NULL, close_and_open, NULL) == 0);
  while (__atomic_load_n(&queue->word, __ATOMIC_ACQUIRE) != 2)
    usleep(100);
  gate_open(GATE_LARGE, open_but_one);
  while (__atomic_load_n(&still_held->word, __ATOMIC_ACQUIRE) != 2)
    usleep(100);
  for (uintptr_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, go_in_and_out, (void *)i) == 0);
  usleep(50000);
  must(sum_of_begun() == 0 && !__atomic_load_n(&closed, __ATOMIC_ACQUIRE));
  lock_release(still_held);
  must(pthread_join(second, NULL) == 0);
  while (sum_of_begun() < 1000)
    usleep(100);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void *take_eight(void *unused)
{
  lock_t *gates[8];
  for (size_t i = 0; i < 8; i++) {
    gates[i] = gate_enter_beside_others(GATE_LIFE);
    for (size_t j = 0; j < i; j++)
      must(gates[j] != gates[i]);
  }
  for (size_t i = 0; i < 8; i++)
    gate_leave(gates[i]);
  return unused;
}

/* As eight threads would, whatever their stacks. */
static void whoever_finds_one_taken_takes_another(void *argument)
{
  pthread_t thread;
  (void)argument;
  os_fake_heal();
  must(pthread_create(&thread, NULL, take_eight, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void *nothing(void *unused) { return unused; }

/* One after the other. There is none where nobody else can fork. */
static void of_one_thread(void *argument)
{
  pthread_t thread;
  (void)argument;
  os_fake_heal();
  must(!os_single_threaded() || !gate_enter(GATE_LARGE));
  must(pthread_create(&thread, NULL, nothing, NULL) == 0);
  pthread_join(thread, NULL);
  for (size_t i = 0; i < 1000; i++) {
    lock_t *gate = gate_enter_beside_others((gate_kind_t)(i % GATE_KINDS));
    must(os_single_threaded() || gate->word == 1);
    gate_leave(gate);
    must(gate->word == 0);
  }
  gate_close(GATE_LARGE);
  gate_open(GATE_LARGE, lock_reset);
  gate_leave(gate_enter(GATE_LARGE));
}

static void in_the_child(void *argument)
{
  (void)argument;
  nobody_is_inside();
  gate_leave(gate_enter(GATE_LARGE));
  gate_close(GATE_LARGE);
  gate_open(GATE_LARGE, lock_release);
}

static void forks(void *argument)
{
  pthread_t threads[THREADS];
  (void)argument;
  os_fake_heal();
  must(manager_ready());
  for (uintptr_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, go_in_and_out, (void *)i) == 0);
  for (size_t turn = 0; turn < 60; turn++)
    in_child(in_the_child, NULL);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* ---- what it is for: mappings that are in nobody's list for a moment ---- */

static void *map_and_unmap(void *argument)
{
  dice_t dice = {(uintptr_t)argument};
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    size_t size = 5 * MIB + dice_below(&dice, 4 * MIB);
    char *block = pool_alloc(size);
    must(block);
    block[0] = block[size - 1] = 1;
    block = pool_realloc(block, size + 3 * MIB);
    must(block && block[0] == 1 && block[size - 1] == 1);
    pool_free(block);
    pool_free(pool_alloc(50 * KIB + dice_below(&dice, MIB)));
    if (dice_below(&dice, 8) == 0)
      pool_trim(0);
  }
  return NULL;
}

static size_t huge_bytes_of(const void *owner)
{
  size_t bytes = 0;
  const char *from = NULL;
  for (huge_t *huge; (huge = huge_next(owner, from)) != NULL; from = huge_start(huge) + huge_size(huge))
    bytes += huge_size(huge);
  return bytes;
}

/* What is in a list or an arena. */
static size_t known_bytes(void)
{
  size_t bytes = huge_bytes_of(&default_heap) + huge_bytes_of(NULL) + window_slots_open() * 2 * (SLOT / UNIT);
  for (size_t slot = 0; slot < window_slots_open(); slot++) {
    const arena_t *arena = space_arena_at(slot);
    if (arena)
      bytes += (arena->committed - bits_count(arena->holes, 0, HUGE_PAGES_MOST) * HUGE_PAGE_UNITS) * UNIT +
               (size_t)(arena->runs_end - (const char *)arena) +
               (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps);
  }
  return bytes;
}

/* All that the other threads had is known in the child, and what was free can be used there. What is not known is metadata. */
static void everything_is_there(void *argument)
{
  (void)argument;
  must(known_bytes() <= os_fake.mapped_bytes && os_fake.mapped_bytes - known_bytes() <= MIB);
  void *blocks[10];
  for (size_t i = 0; i < 10; i++)
    must((blocks[i] = pool_alloc(6 * MIB)) != NULL);
  for (size_t i = 0; i < 10; i++)
    pool_free(blocks[i]);
  pool_trim(0);
  must(huge_left_bytes() == 0 && space_of_process.dirty_units == 0);
  must(known_bytes() <= os_fake.mapped_bytes && os_fake.mapped_bytes - known_bytes() <= MIB);
}

static void forks_beside_mappings(void *argument)
{
  pthread_t threads[3];
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(100));
  for (uintptr_t i = 0; i < 3; i++)
    must(pthread_create(&threads[i], NULL, map_and_unmap, (void *)(i + 1)) == 0);
  for (size_t turn = 0; turn < 100; turn++)
    in_child(everything_is_there, NULL);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
}

IN_CHILD(of_one_thread)
IN_CHILD(closed_and_opened)
IN_CHILD(nobody_overtakes_a_fork)
IN_CHILD(nobody_overtakes_the_second)
IN_CHILD(whoever_finds_one_taken_takes_another)
IN_CHILD(forks)
IN_CHILD(forks_beside_mappings)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_one_thread_test),
    cmocka_unit_test(closed_and_opened_test),
    cmocka_unit_test(nobody_overtakes_a_fork_test),
    cmocka_unit_test(nobody_overtakes_the_second_test),
    cmocka_unit_test(whoever_finds_one_taken_takes_another_test),
    cmocka_unit_test(forks_test),
    cmocka_unit_test(forks_beside_mappings_test),
  };
  return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
