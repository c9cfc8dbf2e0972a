/* SPDX-License-Identifier: MIT
 * One pool, many threads. Built with -Db_sanitize=thread, this is where races show. */
#include "slots.h"
#include <pthread.h>
#include <stdatomic.h>
#include <tidepool/stats.h>

enum { ROUNDS = 4000 };

typedef struct player {
  object_pool_t *pool, *overflow;
  uint64_t id;
  size_t got, refused;
} player_t;

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
    all_together((object_pool_options_t){.capacity = 10,
                                         .when_full = OBJECT_POOL_GROW,
                                         .construct = construct,
                                         .reset = reset,
                                         .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
                                         .flags = kind & 2 ? OBJECT_POOL_CHECKED : 0},
                 0);
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
  object_pool_t *pool = object_pool_create(
    &(object_pool_options_t){.object_size = 64, .capacity = 10, .when_full = OBJECT_POOL_GROW, .heap = heap});
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

/* Just as a thread makes an array another puts: then the one or the other serves it, and what serves nobody is idle. */
static atomic_int turn_of, turn_done;
typedef struct put_beside {
  object_pool_t *pool;
  void *object;
  uint64_t waits;
} put_beside_t;

static void *put_in_each_turn(void *argument)
{
  put_beside_t *put = argument;
  for (int turn = 1; turn > 0; turn++) {
    int now;
    while ((now = atomic_load(&turn_of)) != turn && now >= 0) {}
    if (now < 0)
      return NULL;
    for (volatile uint64_t wait = put->waits; wait; wait--) {}
    object_pool_put(put->pool, put->object);
    atomic_store(&turn_done, turn);
  }
  return NULL;
}

static void growing_beside_a_put(void **state)
{
  (void)state;
  enum { TURNS = 1000, CAPACITY = 8, WAITS_MOST = 3000 };
  pthread_t thread;
  put_beside_t put = {NULL, NULL, 0};
  dice_t dice = {1};
  atomic_store(&turn_of, 0);
  must(pthread_create(&thread, NULL, put_in_each_turn, &put) == 0);
  for (int turn = 1; turn <= TURNS; turn++) {
    object_pool_t *pool =
      object_pool_create(&(object_pool_options_t){.object_size = 4096, .capacity = CAPACITY, .when_full = OBJECT_POOL_GROW});
    for (int i = 0; i < CAPACITY; i++)
      must((put.object = object_pool_get(pool)) != NULL);
    put.pool = pool;
    put.waits = dice_below(&dice, WAITS_MOST);
    atomic_store(&turn_of, turn);
    must(object_pool_get(pool));
    while (atomic_load(&turn_done) != turn)
      sched_yield();
    assert_true(check_object_pool(pool));
    object_pool_destroy(pool);
  }
  atomic_store(&turn_of, -1);
  pthread_join(thread, NULL);
}

/* ---- figures beside pools that come and go ---- */

static atomic_bool figures_end;
static void *come_and_go(void *argument)
{
  (void)argument;
  for (size_t round = 0; !atomic_load(&figures_end); round++) {
    pool_heap_t *heap = pool_heap_create(NULL);
    object_pool_t *pool =
      object_pool_create(&(object_pool_options_t){.object_size = 16, .capacity = 20000 + round % 7, .heap = heap});
    must(pool);
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
  return NULL;
}

/* They are close to what is held, and so never below nothing. */
static void figures_beside_pools(void **state)
{
  (void)state;
  pthread_t thread;
  pool_stats_t stats;
  const size_t much = SIZE_MAX / 2;
  must(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
  for (int i = 0; i < 200000; i++) {
    must(pool_heap_stats(pool_heap_default(), &stats));
    must(stats.held_bytes < much && stats.metadata_bytes < much && stats.peak_held_bytes < much);
  }
  atomic_store(&figures_end, true);
  must(pthread_join(thread, NULL) == 0);
}

/* ---- figures of what another thread is using without a lock ---- */

typedef struct own {
  object_pool_options_t options;
  atomic_bool done;
} own_t;

static void *live_alone(void *argument)
{
  own_t *own = argument;
  void *held[300];
  for (int round = 0; round < 100; round++) {
    object_pool_t *pool = object_pool_create(&own->options);
    must(pool);
    for (int i = 0; i < 50; i++)
      object_pool_put(pool, object_pool_get(pool));
    size_t got = object_pool_get_batch(pool, held, 300), seen = 0;
    for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL;)
      seen++;
    must(seen == got && object_pool_live(pool) == got);
    object_pool_put_batch(pool, held, got / 2);
    object_pool_put(pool, held[got - 1]);
    object_pool_put(pool, object_pool_get(pool));
    object_pool_put_all(pool);
    must(object_pool_capacity(pool) >= object_pool_shrink(pool, 0));
    object_pool_destroy(pool);
  }
  atomic_store(&own->done, true);
  return NULL;
}

static void figures_beside_a_thread_alone(void **state)
{
  (void)state;
  static const object_pool_policy_t policies[] = {OBJECT_POOL_FAIL, OBJECT_POOL_GROW};
  for (unsigned kind = 0; kind < 12; kind++) {
    static char text[64 << 10];
    pthread_t thread;
    own_t own = {.options = {.object_size = sizeof(slot_t),
                             .capacity = 100,
                             .when_full = policies[kind & 1],
                             .construct = kind & 2 ? construct : NULL,
                             .reset = kind & 2 ? reset : NULL,
                             .flags = (kind < 8 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 4 ? OBJECT_POOL_CHECKED : 0)}};
    must(pthread_create(&thread, NULL, live_alone, &own) == 0);
    while (!atomic_load(&own.done))
      must(pool_stats_json(text, sizeof text) < sizeof text);
    must(pthread_join(thread, NULL) == 0);
  }
}

static void *in_turns(void *argument)
{
  const player_t *player = argument;
  void *held[400];
  for (int round = 0; round < 200; round++) {
    size_t got = object_pool_get_batch(player->pool, held, 1 + (size_t)round * 7 % 400);
    object_pool_put_batch(player->pool, held, got);
    object_pool_put(player->pool, object_pool_get(player->pool));
    object_pool_shrink(player->pool, 100);
  }
  return NULL;
}

/* Every question, beside threads that grow and shrink the pool. */
static void *ask(void *argument)
{
  const player_t *player = argument;
  for (int round = 0; round < 2000; round++) {
    size_t seen = 0;
    for (const void *object = NULL; (object = object_pool_next(player->pool, object)) != NULL; seen++)
      (void)object_pool_in_use(player->pool, object);
    must(object_pool_live(player->pool) <= 1600 && seen <= 100000);
    must(object_pool_capacity(player->pool) >= 10);
    object_pool_handle_t handle = object_pool_handle(player->pool, object_pool_next(player->pool, NULL));
    (void)object_pool_resolve(player->pool, handle);
  }
  return NULL;
}

static void questions_beside_changes(void **state)
{
  (void)state;
  pthread_t threads[THREADS];
  for (int kind = 0; kind < 3; kind++) {
    player_t player = {.id = 1};
    player.pool = object_pool_create(&(object_pool_options_t){.object_size = 64,
                                                              .capacity = kind == 2 ? 1600 : 10,
                                                              .when_full = kind == 2 ? OBJECT_POOL_FAIL : OBJECT_POOL_GROW,
                                                              .construct = kind ? construct : NULL});
    for (int t = 0; t < THREADS; t++)
      must(pthread_create(&threads[t], NULL, t % 2 ? ask : in_turns, &player) == 0);
    for (int t = 0; t < THREADS; t++)
      pthread_join(threads[t], NULL);
    assert_true(check_object_pool(player.pool));
    assert_int_equal(object_pool_live(player.pool), 0);
    object_pool_destroy(player.pool);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fixed),
    cmocka_unit_test(growing),
    cmocka_unit_test(growing_beside_a_put),
    cmocka_unit_test(with_hooks),
    cmocka_unit_test(overflowing),
    cmocka_unit_test(growing_and_shrinking),
    cmocka_unit_test(figures_beside_pools),
    cmocka_unit_test(figures_beside_a_thread_alone),
    cmocka_unit_test(questions_beside_changes),
  };
  return cmocka_run_group_tests_name("object_pool threads", tests, NULL, NULL);
}
