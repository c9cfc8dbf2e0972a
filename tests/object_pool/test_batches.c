/* SPDX-License-Identifier: MIT
 * Batches from pools that evict: a batch has nothing twice and loses nothing that it has. */
#include "os_fake.h"
#include "pools.h"
#include <errno.h>
#include <tidepool/stats.h>

static bool are_different(void **of, size_t count)
{
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++)
      if (of[i] == of[k])
        return false;
  return true;
}

/* The pool that evicts is the one asked, or the end of a chain; it has `free` objects left, the chooser has come to some place.
 */
static void batch_by_eviction(unsigned flags, bool hooked, size_t in_front, size_t free)
{
  void *last = NULL, *batch[40], *old[10];
  object_pool_options_t o = {.object_size = 32,
                             .capacity = 10,
                             .when_full = OBJECT_POOL_EVICT,
                             .choose_victim = choose_next,
                             .context = &last,
                             .flags = flags,
                             .construct = hooked ? make_object : NULL};
  object_pool_t *evicts = create(o), *pools[3] = {evicts};
  for (size_t i = 0; i < in_front; i++)
    pools[i + 1] = create((object_pool_options_t){.object_size = 32,
                                                  .capacity = 5,
                                                  .when_full = OBJECT_POOL_OVERFLOW,
                                                  .overflow = pools[i],
                                                  .flags = flags,
                                                  .construct = o.construct});
  assert_int_equal(object_pool_get_batch(evicts, old, 10 - free), 10 - free);
  for (size_t place = 0; place < 10; place += 3) {
    errno = 0;
    last = place < 10 - free ? old[place] : NULL;
    size_t got = object_pool_get_batch(pools[in_front], batch, 40);
    assert_true(are_different(batch, got));
    assert_in_range(got, in_front * 5 + (place ? 0 : free), in_front * 5 + 10);
    assert_int_equal(errno, ENOMEM);
    for (size_t i = 0; i < got; i++)
      object_pool_put(pools[in_front], batch[i]);
    for (size_t i = 0; i <= in_front; i++)
      object_pool_put_all(pools[i]);
    assert_int_equal(object_pool_get_batch(evicts, old, 10 - free), 10 - free);
  }
  for (size_t i = in_front + 1; i-- > 0;)
    object_pool_destroy(pools[i]);
}

static void batches_by_eviction(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++)
    for (size_t in_front = 0; in_front < 3; in_front++)
      for (size_t free = 0; free <= 10; free += 5)
        batch_by_eviction((kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 2 ? OBJECT_POOL_CHECKED : 0), kind & 4, in_front,
                          free);
}

/* Where a batch is offered its own object it ends, and its object is not touched: by no hook, and not by a new use. */
static int made, ended;
static bool make_few(void *object, void *context) { return (void)object, (void)context, ++made <= 4; }
static void count_end(void *object, void *context) { (void)object, (void)context, ended++; }

static void batch_keeps_what_it_has(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    void *last = NULL, *batch[8];
    made = ended = 0;
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32,
                                                         .capacity = 4,
                                                         .when_full = OBJECT_POOL_EVICT,
                                                         .context = &last,
                                                         .choose_victim = choose_next,
                                                         .construct = make_few,
                                                         .destruct = count_end,
                                                         .flags = flags | OBJECT_POOL_CHECKED});
    assert_int_equal(object_pool_get_batch(pool, batch, 8), 4);
    assert_int_equal(errno, ENOMEM);
    assert_true(made == 4 && ended == 0);
    for (int i = 0; i < 4; i++)
      assert_true(object_pool_in_use(pool, batch[i]));
    agrees(pool, 4);
    object_pool_destroy(pool);
  }
}

/* A chooser that puts what it chooses: the object is got again, by a batch that has it already. */
static void *put_and_choose(object_pool_t *pool, void *last)
{
  void *object = choose_next(pool, last);
  object_pool_put(pool, object);
  return object;
}

static void batch_has_nothing_twice(void **state)
{
  (void)state;
  static const unsigned more[] = {0, OBJECT_POOL_CHECKED};
  for (size_t m = 0; m < 2; m++)
    FOR_BOTH(flags)
    {
      void *last = NULL, *batch[8];
      object_pool_t *pool = create((object_pool_options_t){.object_size = 32,
                                                           .capacity = 4,
                                                           .when_full = OBJECT_POOL_EVICT,
                                                           .context = &last,
                                                           .choose_victim = put_and_choose,
                                                           .flags = flags | more[m]});
      size_t got = object_pool_get_batch(pool, batch, 8);
      assert_int_equal(got, 4);
      for (size_t i = 0; i < got; i++)
        for (size_t k = 0; k < i; k++)
          assert_ptr_not_equal(batch[i], batch[k]);
      agrees(pool, 4);
      object_pool_destroy(pool);
    }
}

/* Two batches at once: the second begins, and ends, in the chooser of the first. */
typedef struct nested {
  void *last, *inner[6];
  size_t got;
  bool begun;
} nested_t;
static void *choose_in_a_batch(object_pool_t *pool, void *context)
{
  nested_t *nested = context;
  if (!nested->begun) {
    nested->begun = true;
    nested->got = object_pool_get_batch(pool, nested->inner, 6);
  }
  return choose_next(pool, &nested->last);
}

static void batches_within_batches(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    nested_t nested = {0};
    void *batch[20];
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32,
                                                         .capacity = 10,
                                                         .when_full = OBJECT_POOL_EVICT,
                                                         .choose_victim = choose_in_a_batch,
                                                         .context = &nested,
                                                         .flags = flags});
    get_all(pool, 7);
    size_t got = object_pool_get_batch(pool, batch, 20);
    assert_int_equal(nested.got, 6);
    assert_true(are_different(nested.inner, 6));
    assert_in_range(got, 3, 10);
    assert_true(are_different(batch, got));
    agrees(pool, 10);
    object_pool_destroy(pool);
  }
}

/* As many batches as a batch has evictions, each at its end before the next begins: none of them costs the one outside its map.
 */
static void *choose_within_a_batch(object_pool_t *pool, void *context)
{
  nested_t *nested = context;
  if (!nested->begun) {
    nested->begun = true;
    nested->got += object_pool_get_batch(pool, nested->inner, 1);
    nested->begun = false;
  }
  return choose_next(pool, &nested->last);
}

static void many_batches_within_a_batch(void **state)
{
  (void)state;
  enum { MANY = 1000000 };
  nested_t nested = {0};
  void **batch = pool_alloc(MANY * sizeof *batch);
  object_pool_t *pool = create((object_pool_options_t){.object_size = 8,
                                                       .capacity = MANY,
                                                       .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_within_a_batch,
                                                       .context = &nested});
  assert_int_equal(object_pool_get_batch(pool, batch, MANY), MANY);
  assert_int_equal(object_pool_get_batch(pool, batch, MANY / 2), MANY / 2);
  assert_int_equal(nested.got, MANY / 2);
  object_pool_destroy(pool);
  pool_free(batch);
}

/* A chooser that changes what the batch has so far: nothing of that is left for the next batch. */
typedef struct changing {
  void **batch, *first, *victim;
  unsigned calls;
} changing_t;
static void *choose_and_change(object_pool_t *pool, void *context)
{
  changing_t *c = context;
  if (++c->calls == 3) {
    object_pool_put(pool, c->batch[0]);
    c->batch[0] = NULL;
    return NULL;
  }
  return c->calls == 1 ? c->first : c->victim;
}

static void a_batch_that_is_changed(void **state)
{
  (void)state;
  void *batch[4];
  changing_t change = {.batch = batch};
  object_pool_t *pool = create((object_pool_options_t){.object_size = 16,
                                                       .capacity = 200,
                                                       .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_and_change,
                                                       .context = &change});
  get_all(pool, 200);
  change.first = objects[70], change.victim = objects[71];
  assert_int_equal(object_pool_get_batch(pool, batch, 3), 2);
  while (object_pool_live(pool) < 200)
    assert_non_null(object_pool_get(pool));
  change.victim = change.first;
  for (int round = 0; round < 20; round++) {
    change.calls = 10;
    assert_int_equal(object_pool_get_batch(pool, batch, 1), 1);
    assert_ptr_equal(batch[0], change.first);
  }
  agrees(pool, 200);
  object_pool_destroy(pool);
}

static void batches_look_at_the_clock(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool =
      create((object_pool_options_t){.object_size = 100, .capacity = 10, .when_full = OBJECT_POOL_GROW, .flags = flags});
    pool_stats_t before, after;
    get_all(pool, 1000);
    object_pool_put_all(pool);
    pool_heap_stats(pool_heap_default(), &before);
    os_fake.now_ms += 1 << 30;
    assert_int_equal(object_pool_get_batch(pool, objects, 5), 5);
    pool_heap_stats(pool_heap_default(), &after);
    assert_true(after.live_bytes < before.live_bytes);
    agrees(pool, 5);
    object_pool_destroy(pool);
  }
}

/* Two million, in any way: what looked at each object for each would take hours. */
static void large_batches(void **state)
{
  (void)state;
  enum { MANY = 2000000 };
  void **batch = pool_alloc(MANY * sizeof *batch), *last = NULL;
  for (unsigned kind = 0; kind < 4; kind++, last = NULL) {
    object_pool_options_t o = {.object_size = 8,
                               .capacity = MANY,
                               .when_full = OBJECT_POOL_EVICT,
                               .choose_victim = choose_next,
                               .context = &last,
                               .construct = kind & 1 ? make_object : NULL};
    object_pool_t *evicts = create(o), *pool = evicts;
    if (kind & 2)
      pool =
        create((object_pool_options_t){.object_size = 8, .capacity = 1, .when_full = OBJECT_POOL_OVERFLOW, .overflow = evicts});
    assert_int_equal(object_pool_get_batch(pool, batch, MANY), MANY);
    assert_int_equal(object_pool_get_batch(pool, batch, MANY), MANY); /* evicts each */
    if (pool != evicts)
      object_pool_destroy(pool);
    object_pool_destroy(evicts);
  }
  pool_free(batch);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(batches_by_eviction),         cmocka_unit_test(batch_keeps_what_it_has),
    cmocka_unit_test(batch_has_nothing_twice),     cmocka_unit_test(batches_within_batches),
    cmocka_unit_test(many_batches_within_a_batch), cmocka_unit_test(large_batches),
    cmocka_unit_test(a_batch_that_is_changed),     cmocka_unit_test(batches_look_at_the_clock),
  };
  return cmocka_run_group_tests_name("object_pool batches", tests, time_stands_still, NULL);
}
