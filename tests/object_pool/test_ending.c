/* SPDX-License-Identifier: MIT
 * Hooks of a pool that is being destroyed: what they ask is answered, what they do changes nothing. */
#include "os_fake.h"
#include "things.h"
#include <errno.h>

static int ended;

/* Asks and does everything; it is neither gone nor of use any more. */
static void destruct_and_use(void *object, void *context)
{
  object_pool_t *pool = *(object_pool_t **)context;
  void *batch[2] = {object, object};
  ended++;
  errno = 0;
  must(!object_pool_get(pool) && errno == ENOMEM);
  must(object_pool_get_batch(pool, batch, 2) == 0);
  must(!object_pool_in_use(pool, object) && object_pool_capacity(pool) == 70 && object_pool_live(pool) < 70);
  must(!object_pool_resolve(pool, object_pool_handle(pool, object)));
  void *next = object_pool_next(pool, object);
  must(!next || object_pool_in_use(pool, next));
  object_pool_put(pool, object);
  object_pool_put_batch(pool, batch, 2);
  errno = 0;
  object_pool_t *behind = object_pool_create(&(object_pool_options_t){
    .object_size = sizeof(thing_t), .capacity = 1, .when_full = OBJECT_POOL_OVERFLOW, .overflow = pool});
  must(!behind && errno == EINVAL);
}

static object_pool_t *create_to_end(void (*destruct_)(void *, void *), object_pool_t **pool, unsigned flags)
{
  *pool = object_pool_create(&(object_pool_options_t){
    .object_size = sizeof(thing_t), .capacity = 70, .destruct = destruct_, .context = pool, .flags = flags});
  assert_non_null(*pool);
  for (int i = 0; i < 70; i++)
    assert_non_null(things[i] = object_pool_get(*pool));
  return *pool;
}

static void hooks_use_a_pool_that_ends(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags < 4; flags++) {
    object_pool_t *pool;
    ended = 0;
    object_pool_destroy(create_to_end(destruct_and_use, &pool, flags));
    assert_int_equal(ended, 70);
  }
}

static void destruct_and_destroy(void *object, void *context) { (void)object, object_pool_destroy(*(object_pool_t **)context); }
static void destroy(void *pool) { object_pool_destroy(pool); }

static void hooks_destroy_a_pool_that_ends(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags < 4; flags++) {
    object_pool_t *pool;
    aborts_with(destroy, create_to_end(destruct_and_destroy, &pool, flags), "tidepool: object_pool_destroy(0x");
  }
}

/* What a hook does to the pool that ends. Each may find an array that has been idle for long enough to go. */
typedef void act_fn(object_pool_t *pool, void *object);
static void act_get(object_pool_t *pool, void *object) { (void)object, must(!object_pool_get(pool)); }
static void act_put(object_pool_t *pool, void *object) { (void)object, object_pool_put(pool, things[0]); }
static void act_put_own(object_pool_t *pool, void *object) { object_pool_put(pool, object); }
static void act_put_batch(object_pool_t *pool, void *object) { (void)object, object_pool_put_batch(pool, (void **)things, 5); }
static void act_put_all(object_pool_t *pool, void *object) { (void)object, object_pool_put_all(pool); }
static void act_capacity(object_pool_t *pool, void *object) { (void)object, must(object_pool_capacity(pool) == 500); }
static void act_shrink(object_pool_t *pool, void *object) { (void)object, must(object_pool_shrink(pool, 0) == 500); }

static act_fn *const acts[] = {act_get, act_put, act_put_own, act_put_batch, act_put_all, act_capacity, act_shrink};
enum { ACTS = sizeof acts / sizeof *acts };

typedef struct ending {
  object_pool_t *pool;
  act_fn *act;
  int made, reset, ended;
} ending_t;

static bool make_and_count(void *object, void *context) { return (void)object, ++((ending_t *)context)->made; }
static void reset_and_count(void *object, void *context) { (void)object, ((ending_t *)context)->reset++; }

static void end_and_act(void *object, void *context)
{
  ending_t *ending = context;
  ending->ended++;
  if (ending->act) {
    ending->act(ending->pool, object);
    must(object_pool_capacity(ending->pool) == 500);
    must(object_pool_live(ending->pool) <= 50);
  }
}

/* The first array, of 10, stays; of those that grew one holds live objects, the others are idle, and due. */
static void destroy_with(act_fn *act, unsigned flags)
{
  ending_t e = {0};
  object_pool_t *pool = e.pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t),
                                                                             .capacity = 10,
                                                                             .max_capacity = 500,
                                                                             .when_full = OBJECT_POOL_GROW,
                                                                             .construct = make_and_count,
                                                                             .reset = reset_and_count,
                                                                             .destruct = end_and_act,
                                                                             .reset_time = OBJECT_POOL_RESET_ON_PUT,
                                                                             .context = &e,
                                                                             .flags = flags});
  assert_non_null(pool);
  for (int i = 0; i < 500; i++)
    assert_non_null(things[i] = object_pool_get(pool));
  for (int i = 50; i < 500; i++)
    object_pool_put(pool, things[i]);
  assert_int_equal(object_pool_capacity(pool), 500);
  os_fake.now_ms += 1 << 30;
  int resets = e.reset;
  e.act = act;
  object_pool_destroy(pool);
  assert_int_equal(e.ended, e.made);
  assert_int_equal(e.reset, resets);
}

static void hooks_act_on_a_pool_that_ends(void **state)
{
  (void)state;
  for (size_t i = 0; i < ACTS; i++)
    for (unsigned flags = 0; flags < 4; flags++)
      destroy_with(acts[i], flags);
}

/* Neither does a walk in a hook find what is destructed already. */
static size_t walk_from;
static void walk_within(void *object, void *context)
{
  object_pool_t *pool = *(object_pool_t **)context;
  for (void *live = object_pool_next(pool, things[walk_from]); live; live = object_pool_next(pool, live))
    must(object_pool_in_use(pool, live) && live > object);
  for (void *live = NULL; (live = object_pool_next(pool, live)) != NULL;) /* which the next walk must not rely on */
    must(live > object);
}

static void walks_in_a_pool_that_ends(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags < 4; flags++)
    for (walk_from = 0; walk_from < 300; walk_from += 37) {
      object_pool_t *pool = object_pool_create(&(object_pool_options_t){
        .object_size = sizeof(thing_t), .capacity = 300, .destruct = walk_within, .context = &pool, .flags = flags});
      for (int i = 0; i < 300; i++)
        assert_non_null(things[i] = object_pool_get(pool));
      object_pool_destroy(pool);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(hooks_use_a_pool_that_ends),
    cmocka_unit_test(hooks_destroy_a_pool_that_ends),
    cmocka_unit_test(hooks_act_on_a_pool_that_ends),
    cmocka_unit_test(walks_in_a_pool_that_ends),
  };
  return cmocka_run_group_tests_name("object_pool ending", tests, time_stands_still, NULL);
}
