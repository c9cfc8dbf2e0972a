/* SPDX-License-Identifier: MIT
 * Caches of threads that get and put, hand objects to each other, and are lost to the child of a fork. */
#include "slots.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CAPACITY = 1000 };

static atomic_bool stop;
static void *get_and_put(void *argument)
{
  object_pool_t *pool = argument;
  dice_t dice = {(uintptr_t)&dice};
  void *held[60] = {NULL};
  while (!atomic_load(&stop)) {
    void **place = &held[dice_below(&dice, 60)];
    if (*place)
      object_pool_put(pool, *place), *place = NULL;
    else
      *place = object_pool_get(pool);
  }
  for (int i = 0; i < 60; i++)
    if (held[i])
      object_pool_put(pool, held[i]);
  return NULL;
}

/* In the child what lost threads had in caches is free, and what they had got is live. */
static int use_in_child(object_pool_t *pool)
{
  alarm(600);
  size_t live = object_pool_live(pool), got = 0;
  must(check_object_pool(pool) && slots_walked(pool) == live && live <= 3 * 60 + 3);
  while (object_pool_get(pool))
    got++;
  must(got + live == CAPACITY);
  object_pool_put_all(pool);
  must(object_pool_live(pool) == 0 && check_object_pool(pool));
  object_pool_destroy(pool);
  return 0;
}

static void fork_at_any_moment(void **state)
{
  (void)state;
  pthread_t threads[3];
  object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
  atomic_store(&stop, false);
  for (int t = 0; t < 3; t++)
    must(pthread_create(&threads[t], NULL, get_and_put, pool) == 0);
  for (int i = 0; i < (int)some_of(300); i++) {
    object_pool_put(pool, object_pool_get(pool));
    slots_fork(pool, use_in_child);
  }
  atomic_store(&stop, true);
  for (int t = 0; t < 3; t++)
    pthread_join(threads[t], NULL);
  slots_agree(pool, 0);
  object_pool_destroy(pool);
}

/* Objects go from thread to thread through a table, and whoever has one writes its name into it. The pool is nearly exhausted,
 * now and then quite. */
enum { TABLE = 300, TURNS = 30000 };
typedef struct party {
  object_pool_t *pool;
  _Atomic(slot_t *) table[TABLE];
  atomic_size_t refused;
} party_t;

static void *take_part(void *argument)
{
  party_t *party = argument;
  dice_t dice = {(uintptr_t)&dice * 7};
  slot_t *mine[20] = {NULL};
  for (int turn = 0; turn < (int)some_of(TURNS); turn++) {
    slot_t **own = &mine[dice_below(&dice, 20)];
    if (!*own)
      *own = object_pool_get(party->pool);
    if (!*own) {
      atomic_fetch_add(&party->refused, 1);
      continue;
    }
    (*own)->owner = (uintptr_t)own;
    if (dice_below(&dice, 3) == 0) {
      must((*own)->owner == (uintptr_t)own);
      *own = atomic_exchange(&party->table[dice_below(&dice, TABLE)], *own);
      if (*own)
        (*own)->owner = (uintptr_t)own;
    }
    if (*own && dice_below(&dice, 2)) {
      must((*own)->owner == (uintptr_t)own);
      object_pool_put(party->pool, *own);
      *own = NULL;
    }
    if (turn % 1000 == 0)
      must(object_pool_live(party->pool) <= CAPACITY);
  }
  for (int i = 0; i < 20; i++)
    if (mine[i])
      object_pool_put(party->pool, mine[i]);
  return NULL;
}

static void hand_around(void **state)
{
  (void)state;
  static const size_t capacities[] = {1, 7, 20, TABLE / 2, TABLE, TABLE + 20, TABLE + THREADS * 20};
  for (size_t k = 0; k < sizeof capacities / sizeof *capacities; k++) {
    static party_t party;
    pthread_t threads[THREADS];
    party.pool = slots_pool(capacities[k], OBJECT_POOL_FAIL);
    atomic_store(&party.refused, 0);
    for (int t = 0; t < THREADS; t++)
      must(pthread_create(&threads[t], NULL, take_part, &party) == 0);
    for (int t = 0; t < THREADS; t++)
      pthread_join(threads[t], NULL);
    size_t left = 0;
    for (size_t i = 0; i < TABLE; i++)
      left += party.table[i] != NULL;
    slots_agree(party.pool, left);
    assert_true(capacities[k] < TABLE + THREADS * 20 || !atomic_load(&party.refused));
    for (size_t i = 0; i < TABLE; i++)
      if (party.table[i])
        object_pool_put(party.pool, atomic_exchange(&party.table[i], NULL));
    slots_agree(party.pool, 0);
    slots_can_be_had(party.pool, capacities[k]);
    object_pool_destroy(party.pool);
  }
}

/* Threads that together never hold more than there is are never refused, however they are interrupted: with many on few
 * processors most are, and somewhere in the middle. */
enum { GUESTS = 24, ROUNDS_OF_A_GUEST = 100000 };
typedef struct guest {
  object_pool_t *pool;
  size_t most;
  uint64_t seed;
} guest_t;

static void *stay_within(void *argument)
{
  const guest_t *guest = argument;
  slot_t *mine[40] = {NULL};
  dice_t dice = {guest->seed};
  for (int round = 0; round < (int)some_of(ROUNDS_OF_A_GUEST); round++) {
    slot_t **own = &mine[dice_below(&dice, guest->most)];
    if (*own) {
      must((*own)->owner == guest->seed);
      object_pool_put(guest->pool, *own);
      *own = NULL;
    } else {
      must((*own = object_pool_get(guest->pool)) != NULL);
      (*own)->owner = guest->seed;
    }
  }
  for (size_t i = 0; i < guest->most; i++)
    if (mine[i])
      object_pool_put(guest->pool, mine[i]);
  return NULL;
}

static void never_refused_within_the_capacity(void **state)
{
  (void)state;
  static const struct {
    size_t threads, most;
  } kinds[] = {{2, 1}, {3, 3}, {8, 1}, {GUESTS, 2}, {GUESTS, 5}, {8, 40}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    pthread_t threads[GUESTS];
    guest_t guests[GUESTS];
    object_pool_t *pool = slots_pool(kinds[k].threads * kinds[k].most, k % 2 ? OBJECT_POOL_GROW : OBJECT_POOL_FAIL);
    for (size_t t = 0; t < kinds[k].threads; t++) {
      guests[t] = (guest_t){pool, kinds[k].most, t + 1};
      must(pthread_create(&threads[t], NULL, stay_within, &guests[t]) == 0);
    }
    for (size_t t = 0; t < kinds[k].threads; t++)
      pthread_join(threads[t], NULL);
    assert_int_equal(object_pool_capacity(pool), kinds[k].threads * kinds[k].most);
    slots_agree(pool, 0);
    if (k % 2 == 0)
      slots_can_be_had(pool, kinds[k].threads * kinds[k].most);
    object_pool_destroy(pool);
  }
}

/* A thread that ends moves its cached objects to the array, after its last call. They are free all the time. */
static atomic_bool has_put;
static void *put_and_end(void *argument)
{
  object_pool_t *pool = argument;
  void *held[HELD];
  for (size_t i = 0; i < HELD; i++)
    must((held[i] = object_pool_get(pool)) != NULL);
  for (size_t i = 0; i < HELD; i++)
    object_pool_put(pool, held[i]);
  atomic_store(&has_put, true);
  return NULL;
}

static void none_is_live_while_a_thread_ends(void **state)
{
  (void)state;
  object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
  size_t most = 0;
  for (int round = 0; round < 500; round++) {
    pthread_t thread;
    atomic_store(&has_put, false);
    must(pthread_create(&thread, NULL, put_and_end, pool) == 0);
    while (!atomic_load(&has_put))
      sched_yield();
    for (int look = 0; look < 300; look++) {
      size_t live = object_pool_live(pool);
      most = live > most ? live : most;
    }
    must(pthread_join(thread, NULL) == 0);
  }
  assert_int_equal(most, 0);
  object_pool_destroy(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fork_at_any_moment),
    cmocka_unit_test(hand_around),
    cmocka_unit_test(never_refused_within_the_capacity),
    cmocka_unit_test(none_is_live_while_a_thread_ends),
  };
  return cmocka_run_group_tests_name("object_pool cache_races", tests, NULL, NULL);
}
