/* SPDX-License-Identifier: MIT
 * One pool, many threads. Built with -Db_sanitize=thread, this is where races show. */
#include "check_object_pool.h"
#include "unit.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <tidepool/stats.h>
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

/* Just as a thread makes an array another puts: then the one or the other serves it, and what serves nobody is idle. */
static atomic_int turn_of, turn_done;
typedef struct put_beside { object_pool_t *pool; void *object; uint64_t waits; } put_beside_t;

static void *put_in_each_turn(void *argument)
{
  put_beside_t *put = argument;
  for (int turn = 1; turn > 0; turn++) {
    int now;
    while ((now = atomic_load(&turn_of)) != turn && now >= 0) {
    }
    if (now < 0)
      return NULL;
    for (volatile uint64_t wait = put->waits; wait; wait--) {
    }
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
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 4096, .capacity = CAPACITY, .when_full = OBJECT_POOL_GROW});
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

/* ---- figures beside pools that come and go ---- */

static atomic_bool figures_end;
static void *come_and_go(void *argument)
{
  (void)argument;
  for (size_t round = 0; !atomic_load(&figures_end); round++) {
    pool_heap_t *heap = pool_heap_create(NULL);
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 16, .capacity = 20000 + round % 7, .heap = heap});
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
  const size_t much = (size_t)1 << 40;
  must(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
  for (int i = 0; i < 200000; i++) {
    must(pool_heap_stats(pool_heap_default(), &stats));
    must(stats.held_bytes < much && stats.metadata_bytes < much && stats.peak_held_bytes < much);
  }
  atomic_store(&figures_end, true);
  must(pthread_join(thread, NULL) == 0);
}

/* ---- forks beside a hook ---- */

/* The hook of the other thread is half way when the process forks; that of the forking thread forks itself. */
typedef enum hook_of { OF_CONSTRUCT, OF_RESET, OF_DESTRUCT } hook_of_t;
typedef struct halfway {
  object_pool_t *pool;
  hook_of_t stops;
  atomic_bool armed, is_in, go;
  bool forks;
  pid_t child;
} halfway_t;

static _Thread_local bool is_the_other;

static void stop_here(halfway_t *h, hook_of_t hook)
{
  if (hook != h->stops || !atomic_load(&h->armed))
    return;
  if (!is_the_other) {
    if (h->forks)
      h->child = fork();
    h->forks = false;
    return;
  }
  atomic_store(&h->is_in, true);
  while (!atomic_load(&h->go))
    usleep(1000);
}

static bool construct_halfway(void *object, void *context)
{
  stop_here(context, OF_CONSTRUCT);
  ((slot_t *)object)->owner = 1;
  return true;
}
static void reset_halfway(void *object, void *context) { must(((slot_t *)object)->owner == 1), stop_here(context, OF_RESET); }
static void destruct_halfway(void *object, void *context)
{
  must(((slot_t *)object)->owner == 1);
  stop_here(context, OF_DESTRUCT);
  ((slot_t *)object)->owner = 2;
}

static void *put_and_get(void *argument)
{
  halfway_t *h = argument;
  is_the_other = true;
  void *object = object_pool_get(h->pool);
  atomic_store(&h->armed, h->stops != OF_CONSTRUCT);
  object_pool_put(h->pool, object);
  object = object_pool_get(h->pool);
  must(object && atomic_load(&h->go));
  object_pool_put(h->pool, object);
  return NULL;
}

/* All objects can be had, whatever the other thread, which is not here, was doing with one. */
static void use_all(halfway_t *h)
{
  slot_t *all[3];
  alarm(600);
  atomic_store(&h->armed, false);
  must(check_object_pool(h->pool));
  object_pool_put_all(h->pool);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++)
      must((all[i] = object_pool_get(h->pool)) && all[i]->owner == 1);
    must(!object_pool_get(h->pool) && object_pool_live(h->pool) == 3);
    for (int i = 0; i < 3; i++)
      object_pool_put(h->pool, all[i]);
  }
  must(check_object_pool(h->pool));
  object_pool_destroy(h->pool);
}

static void ended_well(pid_t child)
{
  int status;
  must(waitpid(child, &status, 0) == child);
  assert_int_equal(status, 0);
}

static void fork_beside_a_hook_of(halfway_t *h, object_pool_options_t o)
{
  pthread_t thread;
  slot_t *mine;
  o.object_size = sizeof(slot_t), o.capacity = 3, o.context = h;
  o.construct = construct_halfway, o.reset = reset_halfway, o.destruct = destruct_halfway;
  atomic_store(&h->armed, false);
  must(h->pool = object_pool_create(&o));
  must(mine = object_pool_get(h->pool));
  atomic_store(&h->armed, h->stops == OF_CONSTRUCT);
  must(pthread_create(&thread, NULL, put_and_get, h) == 0);
  while (!atomic_load(&h->is_in))
    usleep(1000);
  pid_t parent = getpid(), child = fork();
  if (!child) {
    use_all(h);
    _exit(0);
  }
  ended_well(child);
  /* In the hook itself: the object it is run on stays the hook's, in the child too. */
  h->forks = true;
  object_pool_put(h->pool, mine);
  must(mine = object_pool_get(h->pool));
  must(!h->forks);
  if (getpid() != parent) {
    must(object_pool_in_use(h->pool, mine));
    use_all(h);
    _exit(0);
  }
  ended_well(h->child);
  atomic_store(&h->go, true);
  must(pthread_join(thread, NULL) == 0);
  object_pool_put(h->pool, mine);
  must(check_object_pool(h->pool) && object_pool_live(h->pool) == 0);
  object_pool_destroy(h->pool);
}

/* A hook that left, of a pool that is gone, is no hook that this thread is in. */
static jmp_buf outside;
static void leave_once(void *object, void *context)
{
  (void)object;
  if (!(*(int *)context)++)
    longjmp(outside, 1);
}

static void be_left_by_a_hook(void)
{
  int calls = 0;
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 64, .capacity = 1, .reset = leave_once,
                                                                    .destruct = leave_once, .context = &calls});
  void *object = object_pool_get(pool);
  object_pool_put(pool, object);
  if (setjmp(outside) == 0)
    object = object_pool_get(pool);
  object_pool_destroy(pool);
}

/* However many hooks have left, an object in whose hook the child is born is nobody else's there. */
enum { HOOKS_LEFT = 1 << 16 };
static bool leaves_hooks;
static pid_t born;
static bool leave_or_fork(void *object, void *context)
{
  (void)object, (void)context;
  if (leaves_hooks)
    longjmp(outside, 1);
  if (born < 0)
    born = fork();
  return true;
}

static void *pause_until_the_end(void *argument)
{
  atomic_bool *end = argument;
  while (!atomic_load(end))
    usleep(1000);
  return NULL;
}

static void fork_after_many_hooks_left(void **state)
{
  (void)state;
  pthread_t thread;
  atomic_bool end = false;
  must(pthread_create(&thread, NULL, pause_until_the_end, &end) == 0);
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 16, .capacity = HOOKS_LEFT + 100, .construct = leave_or_fork});
  leaves_hooks = true;
  for (volatile int i = 0; i < HOOKS_LEFT; i++)
    if (setjmp(outside) == 0)
      must(!object_pool_get(pool));
  leaves_hooks = false;
  born = -1;
  void *own = object_pool_get(pool), *other;
  must(own && born >= 0);
  if (born == 0) {
    while ((other = object_pool_get(pool)) != NULL)
      if (other == own)
        _exit(1);
    _exit(0);
  }
  int status;
  must(waitpid(born, &status, 0) == born);
  assert_int_equal(status, 0);
  atomic_store(&end, true);
  pthread_join(thread, NULL);
  object_pool_destroy(pool);
}

static void fork_beside_a_hook(void **state)
{
  (void)state;
  be_left_by_a_hook();
  for (unsigned kind = 0; kind < 4; kind++) {
    static const struct { hook_of_t stops; object_pool_reset_time_t time; unsigned flags; } kinds[] = {
      {OF_RESET, OBJECT_POOL_RESET_ON_GET, 0}, {OF_RESET, OBJECT_POOL_RESET_ON_PUT, 0},
      {OF_CONSTRUCT, OBJECT_POOL_RESET_ON_GET, OBJECT_POOL_CHECKED}, {OF_DESTRUCT, OBJECT_POOL_RESET_ON_GET, OBJECT_POOL_CHECKED}};
    halfway_t h = {.stops = kinds[kind].stops};
    fork_beside_a_hook_of(&h, (object_pool_options_t){.reset_time = kinds[kind].time, .flags = kinds[kind].flags});
  }
}

/* ---- growth where somebody else is in the heap's on_exhausted ---- */

enum { FEW = 10 };

/* The first thread that comes into the callback stays there until it is let go; what the others have there is said each time. */
typedef struct exhausted {
  pthread_mutex_t lock;      /* the program's own */
  atomic_bool first_is_in, let_first_go;
  pthread_t first;
  pool_heap_t *heap;
  object_pool_t *pool;
  bool others_raise;
  slot_t *got;
} exhausted_t;

enum { TIGHT = 24 << 10, ROOMY = 1 << 20 };

static bool hold_the_first(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  exhausted_t *e = context;
  (void)needed;
  if (!pthread_equal(pthread_self(), e->first))
    return e->others_raise && attempt == 0 && pool_heap_set_budget(heap, ROOMY);
  atomic_store(&e->first_is_in, true);
  while (!atomic_load(&e->let_first_go))
    usleep(1000);
  pthread_mutex_lock(&e->lock);
  pthread_mutex_unlock(&e->lock);
  return e->others_raise && attempt == 0;
}

static void *get_first(void *argument)
{
  exhausted_t *e = argument;
  e->first = pthread_self();
  e->got = object_pool_get(e->pool);
  return NULL;
}

static void set_up(exhausted_t *e)
{
  pthread_mutex_init(&e->lock, NULL);
  e->heap = pool_heap_create(&(pool_heap_options_t){.budget = TIGHT, .on_exhausted = hold_the_first, .context = e});
  e->pool = object_pool_create(&(object_pool_options_t){.object_size = 1000, .capacity = FEW, .max_capacity = 10 * FEW,
                                                        .when_full = OBJECT_POOL_GROW, .heap = e->heap});
  must(e->pool);
  e->first = pthread_self();
  atomic_store(&e->let_first_go, true);
  while (object_pool_get(e->pool))   /* as far as the budget goes */
    ;
  atomic_store(&e->let_first_go, false);
  atomic_store(&e->first_is_in, false);
}

static void start_first(exhausted_t *e, pthread_t *thread)
{
  alarm(600);
  must(pthread_create(thread, NULL, get_first, e) == 0);
  while (!atomic_load(&e->first_is_in))
    usleep(1000);
}

/* The second thread has what the first waits for, and comes back from get all the same. */
static void nobody_waits_in_child(void *unused)
{
  (void)unused;
  pthread_t thread;
  exhausted_t e = {.others_raise = false};
  set_up(&e);
  start_first(&e, &thread);
  must(pthread_mutex_lock(&e.lock) == 0);
  atomic_store(&e.let_first_go, true);
  must(!object_pool_get(e.pool));
  must(pthread_mutex_unlock(&e.lock) == 0);
  must(pthread_join(thread, NULL) == 0);
  must(!e.got && check_object_pool(e.pool));
}

/* Each makes its own array. One is enough, the other goes back. */
static void the_second_array_goes_back_in_child(void *unused)
{
  (void)unused;
  pthread_t thread;
  exhausted_t e = {.others_raise = true};
  set_up(&e);
  size_t capacity = object_pool_capacity(e.pool);
  start_first(&e, &thread);
  must(object_pool_get(e.pool));
  size_t larger = object_pool_capacity(e.pool);
  pool_stats_t before, after;
  must(larger > capacity && pool_heap_stats(e.heap, &before));
  atomic_store(&e.let_first_go, true);
  must(pthread_join(thread, NULL) == 0);
  must(e.got && object_pool_capacity(e.pool) == larger && check_object_pool(e.pool));
  must(pool_heap_stats(e.heap, &after) && after.live_bytes == before.live_bytes);
  object_pool_destroy(e.pool);
  must(pool_heap_stats(e.heap, &after) && after.live_blocks == 0);
  pool_heap_destroy(e.heap);
}

static void nobody_waits_for_a_grower(void **state)
{
  (void)state;
  in_child(nobody_waits_in_child, NULL);
  in_child(the_second_array_goes_back_in_child, NULL);
}

/* The last objects of max_capacity are made by several at once: never more than that, and whoever comes too late is refused. */
static void *get_many(void *argument)
{
  object_pool_t *pool = argument;
  size_t got = 0;
  while (object_pool_get(pool))
    got++;
  return (void *)got;
}

static bool never(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  return (void)heap, (void)needed, (void)attempt, (void)context, false;
}

static void growers_at_once(void **state)
{
  (void)state;
  for (int round = 0; round < 200; round++) {
    pthread_t threads[THREADS];
    size_t got = 0;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.on_exhausted = round % 2 ? never : NULL});
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){
      .object_size = 64, .max_capacity = 1001, .when_full = OBJECT_POOL_GROW, .heap = heap,
      .flags = round % 4 / 2 ? OBJECT_POOL_CHECKED : 0});
    for (int t = 0; t < THREADS; t++)
      must(pthread_create(&threads[t], NULL, get_many, pool) == 0);
    for (int t = 0; t < THREADS; t++) {
      void *count;
      must(pthread_join(threads[t], &count) == 0);
      got += (size_t)count;
    }
    assert_int_equal(got, 1001);
    assert_int_equal(object_pool_capacity(pool), 1001);
    assert_true(check_object_pool(pool));
    object_pool_destroy(pool);
    pool_stats_t stats;
    pool_heap_stats(heap, &stats);
    assert_int_equal(stats.live_blocks, 0);
    pool_heap_destroy(heap);
  }
}

/* ---- figures of what another thread is using without a lock ---- */

typedef struct own { object_pool_options_t options; atomic_bool done; } own_t;

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
    own_t own = {.options = {.object_size = sizeof(slot_t), .capacity = 100, .when_full = policies[kind & 1],
                             .construct = kind & 2 ? construct : NULL, .reset = kind & 2 ? reset : NULL,
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
    player.pool = object_pool_create(&(object_pool_options_t){.object_size = 64, .capacity = kind == 2 ? 1600 : 10,
      .when_full = kind == 2 ? OBJECT_POOL_FAIL : OBJECT_POOL_GROW, .construct = kind ? construct : NULL});
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
    cmocka_unit_test(fork_at_any_moment),
    cmocka_unit_test(fork_beside_a_hook),
    cmocka_unit_test(fork_after_many_hooks_left),
    cmocka_unit_test(figures_beside_pools),
    cmocka_unit_test(figures_beside_a_thread_alone),
    cmocka_unit_test(questions_beside_changes),
    cmocka_unit_test(nobody_waits_for_a_grower),
    cmocka_unit_test(growers_at_once),
  };
  return cmocka_run_group_tests_name("object_pool_threads", tests, NULL, NULL);
}
