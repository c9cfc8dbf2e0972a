/* SPDX-License-Identifier: MIT
 * Forks beside threads that use a pool, also in the midst of a hook: the child finds it whole. */
#include "slots.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

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
    slots_fork(pool, use_in_child);
  }
  atomic_store(&stop, true);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), 0);
  object_pool_destroy(pool);
}

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
  object_pool_t *pool = object_pool_create(
    &(object_pool_options_t){.object_size = 64, .capacity = 1, .reset = leave_once, .destruct = leave_once, .context = &calls});
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
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.object_size = 16, .capacity = HOOKS_LEFT + 100, .construct = leave_or_fork});
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
    static const struct {
      hook_of_t stops;
      object_pool_reset_time_t time;
      unsigned flags;
    } kinds[] = {{OF_RESET, OBJECT_POOL_RESET_ON_GET, 0},
                 {OF_RESET, OBJECT_POOL_RESET_ON_PUT, 0},
                 {OF_CONSTRUCT, OBJECT_POOL_RESET_ON_GET, OBJECT_POOL_CHECKED},
                 {OF_DESTRUCT, OBJECT_POOL_RESET_ON_GET, OBJECT_POOL_CHECKED}};
    halfway_t h = {.stops = kinds[kind].stops};
    fork_beside_a_hook_of(&h, (object_pool_options_t){.reset_time = kinds[kind].time, .flags = kinds[kind].flags});
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fork_at_any_moment),
    cmocka_unit_test(fork_beside_a_hook),
    cmocka_unit_test(fork_after_many_hooks_left),
  };
  return cmocka_run_group_tests_name("object_pool forks", tests, NULL, NULL);
}
