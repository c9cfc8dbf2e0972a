/* SPDX-License-Identifier: MIT
 * One pool, many threads. Built with -Db_sanitize=thread, this is where races show. */
#include "check_object_pool.h"
#include "unit.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 4000, HELD = 40 };

typedef struct slot { uint64_t owner, pad[3]; } slot_t;

typedef struct player {
  object_pool_t *pool, *overflow;
  uint64_t id;
  size_t got, refused;
} player_t;

static bool construct(void *object, void *context) { return (void)context, ((slot_t *)object)->owner = 0, true; }
static void reset(void *object, void *context) { (void)context, ((slot_t *)object)->owner = 0; }

/* What is held belongs to nobody else, and handles of what was put are over. */
static void *live_and_let_live(void *argument)
{
  player_t *player = argument;
  slot_t *held[HELD] = {NULL};
  dice_t dice = {player->id};
  for (int round = 0; round < ROUNDS; round++) {
    size_t i = dice_below(&dice, HELD);
    if (held[i]) {
      must(held[i]->owner == (player->id << 32 | i));
      object_pool_handle_t handle = object_pool_handle(player->pool, held[i]);
      must(object_pool_in_use(player->pool, held[i]) || (player->overflow && object_pool_in_use(player->overflow, held[i])));
      must(object_pool_resolve(player->pool, handle) == held[i]);
      object_pool_put(player->pool, held[i]);
      must(object_pool_resolve(player->pool, handle) == NULL);
      held[i] = NULL;
    } else if ((held[i] = object_pool_get(player->pool)) != NULL) {
      player->got++;
      held[i]->owner = player->id << 32 | i;
    } else {
      player->refused++;
    }
    if (round % 500 == 0) {
      size_t seen = 0;
      for (void *object = NULL; (object = object_pool_next(player->pool, object)) != NULL;)
        seen++;
      must(seen <= THREADS * HELD);
    }
  }
  for (size_t i = 0; i < HELD; i++)
    if (held[i])
      object_pool_put(player->pool, held[i]);
  return NULL;
}

static void all_together(object_pool_options_t o, bool may_refuse)
{
  pthread_t threads[THREADS];
  player_t players[THREADS];
  size_t refused = 0;
  o.object_size = sizeof(slot_t);
  object_pool_t *pool = object_pool_create(&o);
  assert_non_null(pool);
  for (uint64_t t = 0; t < THREADS; t++) {
    players[t] = (player_t){.pool = pool, .overflow = o.overflow, .id = t + 1};
    assert_int_equal(pthread_create(&threads[t], NULL, live_and_let_live, &players[t]), 0);
  }
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
    refused += players[t].refused;
  }
  assert_true(may_refuse || !refused);
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), 0);
  object_pool_destroy(pool);
}

static void fixed(void **state)
{
  (void)state;
  all_together((object_pool_options_t){.capacity = THREADS * HELD}, 0);
  all_together((object_pool_options_t){.capacity = HELD}, 1);
}

static void growing(void **state)
{
  (void)state;
  all_together((object_pool_options_t){.capacity = 1, .max_capacity = THREADS * HELD, .when_full = OBJECT_POOL_GROW}, 0);
}

static void with_hooks(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 4; kind++)
    all_together((object_pool_options_t){.capacity = 10, .when_full = OBJECT_POOL_GROW, .construct = construct, .reset = reset,
      .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET, .flags = kind & 2 ? OBJECT_POOL_CHECKED : 0}, 0);
}

static void overflowing(void **state)
{
  (void)state;
  object_pool_t *last = object_pool_create(&(object_pool_options_t){.object_size = sizeof(slot_t), .capacity = THREADS * HELD});
  all_together((object_pool_options_t){.capacity = HELD, .when_full = OBJECT_POOL_OVERFLOW, .overflow = last}, 0);
  object_pool_destroy(last);
}

/* Shrinking by itself, with a delay so short that arrays come and go all the time. */
static void *in_waves(void *argument)
{
  player_t *player = argument;
  void *held[400];
  for (int round = 0; round < 200; round++) {
    size_t got = object_pool_get_batch(player->pool, held, 1 + (size_t)round * 7 % 400);
    for (size_t i = 0; i < got; i++)
      *(uint64_t *)held[i] = player->id;
    for (size_t i = 0; i < got; i++)
      must(*(uint64_t *)held[i] == player->id);
    object_pool_put_batch(player->pool, held, got);
    must(object_pool_capacity(player->pool) >= 10);
    if (round % 50 == 0)
      object_pool_shrink(player->pool, 100);
  }
  return NULL;
}

static void growing_and_shrinking(void **state)
{
  (void)state;
  pthread_t threads[THREADS];
  player_t players[THREADS];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 2 << 20, .purge_delay_ms = 1});
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 64, .capacity = 10, .when_full = OBJECT_POOL_GROW, .heap = heap});
  for (uint64_t t = 0; t < THREADS; t++) {
    players[t] = (player_t){.pool = pool, .id = t + 1};
    assert_int_equal(pthread_create(&threads[t], NULL, in_waves, &players[t]), 0);
  }
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), 0);
  assert_int_equal(object_pool_shrink(pool, 0), 10);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

static atomic_bool stop;

static void *get_and_put(void *argument)
{
  while (!atomic_load(&stop)) {
    object_pool_t *pool = argument;
    slot_t *held[HELD];
    for (int i = 0; i < HELD; i++)
      must(held[i] = object_pool_get(pool));
    for (int i = 0; i < HELD; i++)
      object_pool_put(pool, held[i]);
    object_pool_shrink(pool, 0);
  }
  return NULL;
}

/* A child that waits for a thread which is not in it would be ended by the alarm. */
static int use_in_child(object_pool_t *pool)
{
  slot_t *held[HELD];
  alarm(600);
  for (int i = 0; i < HELD; i++)
    if (!(held[i] = object_pool_get(pool)))
      return 1;
  for (int i = 0; i < HELD; i++)
    object_pool_put(pool, held[i]);
  object_pool_destroy(pool);
  return 0;
}

static void fork_at_any_moment(void **state)
{
  (void)state;
  enum { FORKS = 300 };
  pthread_t threads[THREADS];
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.object_size = sizeof(slot_t), .capacity = 4, .when_full = OBJECT_POOL_GROW});
  assert_non_null(pool);
  atomic_store(&stop, false);
  for (int t = 0; t < THREADS; t++)
    must(pthread_create(&threads[t], NULL, get_and_put, pool) == 0);
  for (int i = 0; i < FORKS; i++) {
    pid_t child = fork();
    must(child >= 0);
    if (!child)
      _exit(use_in_child(pool));
    int status;
    must(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
  }
  atomic_store(&stop, true);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), 0);
  object_pool_destroy(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fixed),
    cmocka_unit_test(growing),
    cmocka_unit_test(with_hooks),
    cmocka_unit_test(overflowing),
    cmocka_unit_test(growing_and_shrinking),
    cmocka_unit_test(fork_at_any_moment),
  };
  return cmocka_run_group_tests_name("object_pool_threads", tests, NULL, NULL);
}
