/* SPDX-License-Identifier: MIT
 * Hooks: how often each is called and when, what they may do, what happens when construct fails. */
#include "os_fake.h"
#include "things.h"
#include <errno.h>

static void lazily(void **state)
{
  (void)state;
  counts_t c = {0};
  object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 100});
  agrees(&c, 0, 0, 0);
  get_all(pool, 50);
  agrees(&c, 50, 0, 0);
  for (int i = 0; i < 50; i++)
    object_pool_put(pool, things[i]);
  agrees(&c, 50, 0, 0);
  get_all(pool, 60);
  agrees(&c, 60, 50, 0);
  object_pool_put_all(pool);
  agrees(&c, 60, 50, 0);
  assert_int_equal(object_pool_live(pool), 0);
  get_all(pool, 10);
  agrees(&c, 60, 60, 0);
  object_pool_destroy(pool);
  assert_int_equal(c.destructed, 60);
}

static void eagerly(void **state)
{
  (void)state;
  counts_t c = {0};
  object_pool_t *pool = create(
    &c, (object_pool_options_t){.capacity = 100, .reset_time = OBJECT_POOL_RESET_ON_PUT, .flags = OBJECT_POOL_SINGLE_THREAD});
  get_all(pool, 50);
  agrees(&c, 50, 0, 0);
  for (int i = 0; i < 50; i++)
    object_pool_put(pool, things[i]);
  agrees(&c, 50, 50, 0);
  get_all(pool, 60);
  agrees(&c, 60, 50, 0);
  object_pool_put_all(pool);
  agrees(&c, 60, 110, 0);
  assert_int_equal(object_pool_live(pool), 0);
  object_pool_destroy(pool);
  assert_int_equal(c.destructed, 60);
}

static void construct_may_fail(void **state)
{
  (void)state;
  for (int checked = 0; checked < 2; checked++) {
    counts_t c = {.construct_fails_at = 3};
    object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 10, .flags = checked ? OBJECT_POOL_CHECKED : 0});
    get_all(pool, 2);
    errno = 0;
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, 42);
    assert_int_equal(object_pool_live(pool), 2);
    get_all(pool, 8);
    agrees(&c, 11, 0, 0);
    void *batch[3];
    object_pool_put(pool, things[0]);
    c.refuse = true;
    assert_int_equal(object_pool_get_batch(pool, batch, 3), checked ? 0 : 1);
    object_pool_destroy(pool);
    assert_int_equal(c.destructed, 10);
  }
}

static void shrinking_destructs(void **state)
{
  (void)state;
  counts_t c = {0};
  object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 10, .when_full = OBJECT_POOL_GROW});
  get_all(pool, 500);
  object_pool_put_all(pool);
  assert_int_equal(object_pool_shrink(pool, 0), 10);
  agrees(&c, 500, 0, 490);
  get_all(pool, 20);
  agrees(&c, 510, 10, 490);
  object_pool_destroy(pool);
  assert_int_equal(c.destructed, 510);
}

static void *choose_last(object_pool_t *pool, void *context)
{
  (void)pool;
  return ((counts_t *)context)->last;
}

static void evicted_ones_are_reset_once(void **state)
{
  (void)state;
  for (int kind = 0; kind < 3; kind++) {
    counts_t c = {0};
    object_pool_t *pool =
      create(&c, (object_pool_options_t){.capacity = 5,
                                         .when_full = OBJECT_POOL_EVICT,
                                         .choose_victim = choose_last,
                                         .reset_time = kind == 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
                                         .flags = kind == 2 ? OBJECT_POOL_CHECKED : 0});
    get_all(pool, 5);
    for (int i = 0; i < 5; i++) {
      c.last = things[i];
      object_pool_handle_t handle = object_pool_handle(pool, things[i]);
      thing_t *again = object_pool_get(pool);
      assert_ptr_equal(again, things[i]);
      assert_int_equal(again->value, 0);
      assert_null(object_pool_resolve(pool, handle));
    }
    kind == 2 ? agrees(&c, 10, 0, 5) : agrees(&c, 5, 5, 0);
    assert_int_equal(object_pool_live(pool), 5);
    object_pool_destroy(pool);
  }
}

static void *choose_and_put(object_pool_t *pool, void *context)
{
  object_pool_put(pool, choose_last(pool, context));
  return choose_last(pool, context);
}

/* Whatever the policy finds, a failed constructor's errno is left to the caller. */
static void construct_fails_when_full(void **state)
{
  (void)state;
  static const struct {
    object_pool_policy_t policy;
    void *(*choose)(object_pool_t *pool, void *context);
  } kinds[] = {{OBJECT_POOL_GROW, NULL},
               {OBJECT_POOL_OVERFLOW, NULL},
               {OBJECT_POOL_EVICT, choose_last},
               {OBJECT_POOL_EVICT, choose_and_put}};
  for (int kind = 0; kind < 8; kind++) {
    counts_t c = {0};
    void *batch[3];
    object_pool_policy_t policy = kinds[kind / 2].policy;
    object_pool_t *behind = create(&c, (object_pool_options_t){.capacity = 5, .flags = OBJECT_POOL_CHECKED});
    object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 5,
                                                             .when_full = policy,
                                                             .overflow = policy == OBJECT_POOL_OVERFLOW ? behind : NULL,
                                                             .choose_victim = kinds[kind / 2].choose,
                                                             .flags = OBJECT_POOL_CHECKED});
    get_all(pool, 5);
    c.last = things[0];
    c.refuse = true;
    errno = 0;
    assert_int_equal(kind % 2 ? object_pool_get_batch(pool, batch, 3) : object_pool_get(pool) != NULL, 0);
    assert_int_equal(errno, 42);
    assert_int_equal(object_pool_live(pool), policy == OBJECT_POOL_EVICT ? 4 : 5);
    object_pool_destroy(pool);
    object_pool_destroy(behind);
  }
}

/* Every second thing has a child from the same pool, which its hooks get and put. */
static void hooks_get_and_put(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++) {
    counts_t c = {.with_child = true};
    object_pool_t *pool = create(
      &c, (object_pool_options_t){.capacity = 20,
                                  .when_full = OBJECT_POOL_GROW,
                                  .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
                                  .flags = (kind & 2 ? OBJECT_POOL_CHECKED : 0) | (kind & 4 ? OBJECT_POOL_SINGLE_THREAD : 0)});
    for (int round = 0; round < 3; round++) {
      get_all(pool, 100);
      assert_true(check_object_pool(pool));
      assert_true(object_pool_live(pool) >= 100);
      for (int i = 0; i < 100; i++)
        if (object_pool_in_use(pool, things[i]))
          object_pool_put(pool, things[i]);
      assert_true(check_object_pool(pool));
      if (kind & 1 || kind & 2) {
        object_pool_put_all(pool);
        assert_int_equal(object_pool_live(pool), 0);
      }
    }
    get_all(pool, 50);
    int before = c.destructed;
    object_pool_destroy(pool);
    assert_true(c.destructed > before);
    assert_true(kind & 2 || c.destructed == c.constructed);
  }
}

static void only_a_reset(void **state)
{
  (void)state;
  counts_t c = {0};
  object_pool_t *pool = c.pool =
    object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t), .capacity = 3, .reset = reset, .context = &c});
  thing_t *thing = object_pool_get(pool);
  assert_int_equal(c.reset, 0);
  thing->made = MADE;
  object_pool_put(pool, thing);
  assert_ptr_equal(object_pool_get(pool), thing);
  assert_int_equal(c.reset, 1);
  object_pool_destroy(pool);
}

static bool construct_noisily(void *object, void *context) { return (void)object, (void)context, errno = EBADF, true; }
static void touch_noisily(void *object, void *context) { (void)object, (void)context, errno = EBADF; }
static void *choose_noisily(object_pool_t *pool, void *context)
{
  (void)context;
  errno = EBADF;
  return object_pool_next(pool, NULL);
}

#define KEEPS_ERRNO(call) (errno = 77, (void)(call), assert_int_equal(errno, 77))

/* Its hooks fail at this and that on their way to success, each kind of them in a call of each kind. */
static void success_keeps_errno(object_pool_options_t o)
{
  void *batch[40];
  o.object_size = sizeof(thing_t);
  o.construct = construct_noisily;
  o.reset = o.destruct = touch_noisily;
  o.choose_victim = choose_noisily;
  object_pool_t *pool = object_pool_create(&o);
  assert_non_null(pool);
  KEEPS_ERRNO(batch[0] = object_pool_get(pool));
  KEEPS_ERRNO(object_pool_put(pool, batch[0]));
  KEEPS_ERRNO(batch[0] = object_pool_get(pool));
  KEEPS_ERRNO(assert_int_equal(object_pool_get_batch(pool, batch + 1, 9), 9));
  if (o.when_full != OBJECT_POOL_FAIL)
    KEEPS_ERRNO(batch[10] = object_pool_get(pool));
  KEEPS_ERRNO(object_pool_put_batch(pool, batch, 5));
  KEEPS_ERRNO(object_pool_put_all(pool));
  if (o.when_full == OBJECT_POOL_GROW) {
    for (int round = 0; round < 2; round++) {
      KEEPS_ERRNO(object_pool_get_batch(pool, batch, 40));
      KEEPS_ERRNO(object_pool_put_all(pool));
      os_fake.now_ms += 1 << 30;
      KEEPS_ERRNO(round ? object_pool_shrink(pool, 0) : object_pool_capacity(pool));
      assert_int_equal(object_pool_capacity(pool), 10);
    }
    KEEPS_ERRNO(object_pool_get_batch(pool, batch, 40));
    KEEPS_ERRNO(object_pool_put_batch(pool, batch + 1, 39));
    os_fake.now_ms += 1 << 30;
    KEEPS_ERRNO(object_pool_put(pool, batch[0]));
  }
  KEEPS_ERRNO(object_pool_destroy(pool));
}

static void hooks_leave_errno_alone(void **state)
{
  (void)state;
  static const object_pool_policy_t policies[] = {OBJECT_POOL_FAIL, OBJECT_POOL_GROW, OBJECT_POOL_EVICT};
  for (unsigned kind = 0; kind < 24; kind++)
    success_keeps_errno(
      (object_pool_options_t){.capacity = 10,
                              .when_full = policies[kind / 8],
                              .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
                              .flags = (kind & 2 ? OBJECT_POOL_CHECKED : 0) | (kind & 4 ? OBJECT_POOL_SINGLE_THREAD : 0)});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lazily),
    cmocka_unit_test(eagerly),
    cmocka_unit_test(construct_may_fail),
    cmocka_unit_test(shrinking_destructs),
    cmocka_unit_test(evicted_ones_are_reset_once),
    cmocka_unit_test(construct_fails_when_full),
    cmocka_unit_test(hooks_get_and_put),
    cmocka_unit_test(only_a_reset),
    cmocka_unit_test(hooks_leave_errno_alone),
  };
  return cmocka_run_group_tests_name("object_pool hooks", tests, time_stands_still, NULL);
}
