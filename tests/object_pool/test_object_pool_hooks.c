/* SPDX-License-Identifier: MIT
 * Hooks: how often each is called and when, what they may do, what happens when construct fails; checked pools. */
#include "check_object_pool.h"
#include "os_fake.h"
#include "unit.h"
#include <errno.h>
#include <tidepool/stats.h>

enum { MOST = 1000 };

typedef struct thing {
  uint64_t made;           /* MADE while it is constructed */
  struct thing *child;
  int value;
} thing_t;
#define MADE 0x6d616465u

typedef struct counts {
  object_pool_t *pool;
  int constructed, reset, destructed;
  int construct_fails_at;       /* count of calls; 0: never */
  bool with_child, refuse;
  thing_t *last;
} counts_t;

static thing_t *things[MOST];

static bool construct(void *object, void *context)
{
  thing_t *thing = object;
  counts_t *c = context;
  if (++c->constructed == c->construct_fails_at || c->refuse) {
    errno = 42;
    return false;
  }
  assert_false(object_pool_in_use(c->pool, object));
  *thing = (thing_t){.made = MADE};
  if (c->with_child && c->constructed % 2)
    thing->child = object_pool_get(c->pool);
  return true;
}

static void reset(void *object, void *context)
{
  thing_t *thing = object;
  counts_t *c = context;
  c->reset++;
  assert_int_equal(thing->made, MADE);
  assert_false(object_pool_in_use(c->pool, object));
  if (c->with_child && thing->child) {
    object_pool_put(c->pool, thing->child);
    thing->child = NULL;
  }
  thing->value = 0;
}

static void destruct(void *object, void *context)
{
  thing_t *thing = object;
  counts_t *c = context;
  c->destructed++;
  assert_int_equal(thing->made, MADE);
  thing->made = 0;
  if (c->with_child && thing->child)
    object_pool_put(c->pool, thing->child);
}

static object_pool_t *create(counts_t *counts, object_pool_options_t o)
{
  o.object_size = sizeof(thing_t);
  o.name = "things";
  o.construct = construct;
  o.reset = reset;
  o.destruct = destruct;
  o.context = counts;
  counts->pool = object_pool_create(&o);
  assert_non_null(counts->pool);
  return counts->pool;
}

static void get_all(object_pool_t *pool, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    things[i] = object_pool_get(pool);
    assert_non_null(things[i]);
    assert_int_equal(things[i]->made, MADE);
    assert_int_equal(things[i]->value, 0);
    things[i]->value = 1;
  }
}

static void agrees(const counts_t *c, int constructed, int resets, int destructed)
{
  assert_int_equal(c->constructed, constructed);
  assert_int_equal(c->reset, resets);
  assert_int_equal(c->destructed, destructed);
  assert_true(check_object_pool(c->pool));
}

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
  object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 100, .reset_time = OBJECT_POOL_RESET_ON_PUT, .flags = OBJECT_POOL_SINGLE_THREAD});
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
    object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 5, .when_full = OBJECT_POOL_EVICT, .choose_victim = choose_last,
      .reset_time = kind == 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET, .flags = kind == 2 ? OBJECT_POOL_CHECKED : 0});
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

/* Every second thing has a child from the same pool, which its hooks get and put. */
static void hooks_get_and_put(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++) {
    counts_t c = {.with_child = true};
    object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 20, .when_full = OBJECT_POOL_GROW,
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
  object_pool_t *pool = c.pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t), .capacity = 3, .reset = reset, .context = &c});
  thing_t *thing = object_pool_get(pool);
  assert_int_equal(c.reset, 0);
  thing->made = MADE;
  object_pool_put(pool, thing);
  assert_ptr_equal(object_pool_get(pool), thing);
  assert_int_equal(c.reset, 1);
  object_pool_destroy(pool);
}

/* ---- while a pool is being destroyed ---- */

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
  object_pool_t *behind = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t), .capacity = 1,
                                                                      .when_full = OBJECT_POOL_OVERFLOW, .overflow = pool});
  must(!behind && errno == EINVAL);
}

static object_pool_t *create_to_end(void (*destruct_)(void *, void *), object_pool_t **pool, unsigned flags)
{
  *pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t), .capacity = 70, .destruct = destruct_,
                                                      .context = pool, .flags = flags});
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
  object_pool_t *pool = e.pool = object_pool_create(&(object_pool_options_t){
    .object_size = sizeof(thing_t), .capacity = 10, .max_capacity = 500, .when_full = OBJECT_POOL_GROW, .construct = make_and_count,
    .reset = reset_and_count, .destruct = end_and_act, .reset_time = OBJECT_POOL_RESET_ON_PUT, .context = &e, .flags = flags});
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

/* ---- hooks that leave ---- */

static jmp_buf outside;
static enum { NONE_LEAVES, CONSTRUCT_LEAVES, RESET_LEAVES, DESTRUCT_LEAVES, CHOOSER_LEAVES, LEAVERS } leaver;

static void leave_if(int who)
{
  if ((int)leaver == who) {
    leaver = NONE_LEAVES;
    longjmp(outside, 1);
  }
}

static bool construct_or_leave(void *object, void *context) { return (void)object, (void)context, leave_if(CONSTRUCT_LEAVES), true; }
static void reset_or_leave(void *object, void *context) { (void)object, (void)context, leave_if(RESET_LEAVES); }
static void destruct_or_leave(void *object, void *context) { (void)object, ++*(int *)context, leave_if(DESTRUCT_LEAVES); }
static void *choose_or_leave(object_pool_t *pool, void *context)
{
  (void)context;
  leave_if(CHOOSER_LEAVES);
  return object_pool_next(pool, NULL);
}

static void put_and_get_until_left(object_pool_t *pool)
{
  if (setjmp(outside) == 0) {
    object_pool_put(pool, things[0]);
    things[0] = object_pool_get(pool);
    things[9] = object_pool_get(pool);
  }
}

/* The pool serves on with what it has, and ends; the object of the hook, if there was one, is out of use. */
static void hooks_that_leave(void **state)
{
  (void)state;
  for (int who = CONSTRUCT_LEAVES; who < LEAVERS; who++)
    for (unsigned kind = 0; kind < 8; kind++) {
      int destructed = 0;
      object_pool_t *pool = object_pool_create(&(object_pool_options_t){
        .object_size = sizeof(thing_t), .capacity = 5, .when_full = OBJECT_POOL_EVICT, .construct = construct_or_leave,
        .reset = reset_or_leave, .destruct = destruct_or_leave, .choose_victim = choose_or_leave, .context = &destructed,
        .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
        .flags = (kind & 2 ? OBJECT_POOL_CHECKED : 0) | (kind & 4 ? OBJECT_POOL_SINGLE_THREAD : 0)});
      for (int i = 0; i < 5; i++)
        assert_non_null(things[i] = object_pool_get(pool));
      leaver = who;
      put_and_get_until_left(pool);
      bool left = leaver == NONE_LEAVES;
      leaver = NONE_LEAVES;
      assert_true(check_object_pool(pool));
      size_t lost = left && who != CHOOSER_LEAVES;
      assert_int_equal(object_pool_live(pool), 5 - lost);
      for (int i = 0; i < 20; i++)
        assert_non_null(object_pool_get(pool));
      object_pool_put_all(pool);
      assert_int_equal(object_pool_live(pool), 0);
      assert_true(check_object_pool(pool));
      object_pool_destroy(pool);
    }
}

/* Where a pool shrinks, at once or by the clock, each hook that leaves loses its own object, whose array stays with the pool: what all
 * lose together is no more than the pool had at its largest. */
static void shrink_until_left(object_pool_t *pool, bool by_clock)
{
  leaver = DESTRUCT_LEAVES;
  if (setjmp(outside) == 0) {
    if (by_clock)
      (void)object_pool_capacity(pool);
    else
      object_pool_shrink(pool, 0);
  }
}

static void a_shrink_that_is_left(void **state)
{
  (void)state;
  enum { ROUNDS = 30, OBJECTS = 500 };
  for (unsigned kind = 0; kind < 8; kind++) {
    int destructed = 0;
    size_t largest = 0;
    pool_stats_t before, after;
    pool_heap_t *heap = pool_heap_create(NULL);
    pool_heap_stats(heap, &before);
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){
      .object_size = sizeof(thing_t), .capacity = 10, .when_full = OBJECT_POOL_GROW, .construct = construct_or_leave,
      .destruct = destruct_or_leave, .context = &destructed, .heap = heap,
      .flags = (kind & 1 ? OBJECT_POOL_CHECKED : 0) | (kind & 2 ? OBJECT_POOL_SINGLE_THREAD : 0)});
    for (int round = 0; round < ROUNDS; round++) {
      leaver = NONE_LEAVES;
      for (int i = 0; i < OBJECTS; i++)
        assert_non_null(things[i] = object_pool_get(pool));
      for (int i = 0; i < OBJECTS; i++)
        object_pool_put(pool, things[i]);
      os_fake.now_ms += 1 << 30;
      largest = round ? largest : object_pool_capacity(pool) + OBJECTS;
      shrink_until_left(pool, kind & 4);
      assert_true(check_object_pool(pool));
      assert_int_equal(object_pool_live(pool), 0);
      assert_in_range(object_pool_capacity(pool), 10, 2 * largest);
    }
    leaver = NONE_LEAVES;
    object_pool_destroy(pool);
    pool_heap_stats(heap, &after);
    assert_int_equal(after.live_bytes, 0);
    pool_heap_destroy(heap);
  }
}

/* A get has nothing in hand while hooks run on what is due to go. */
static void get_or_be_left(object_pool_t *pool)
{
  leaver = DESTRUCT_LEAVES;
  if (setjmp(outside) == 0)
    things[0] = object_pool_get(pool);
}

/* It has grown to 500 objects, of which the first so many are live. */
static object_pool_t *with_arrays_due(unsigned flags, int *destructed, int live)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){
    .object_size = sizeof(thing_t), .capacity = 10, .when_full = OBJECT_POOL_GROW, .destruct = destruct_or_leave,
    .context = destructed, .flags = flags});
  for (int i = 0; i < 500; i++)
    assert_non_null(things[i] = object_pool_get(pool));
  for (int i = live; i < 500; i++)
    object_pool_put(pool, things[i]);
  os_fake.now_ms += 1 << 30;
  return pool;
}

static void a_get_that_is_left_by_what_is_due(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= OBJECT_POOL_SINGLE_THREAD; flags++) {   /* a checked pool has destructed at each put */
    int destructed = 0;
    object_pool_t *pool = with_arrays_due(flags, &destructed, 0);
    get_or_be_left(pool);
    assert_int_equal(leaver, NONE_LEAVES);
    assert_int_equal(object_pool_live(pool), 0);
    assert_true(check_object_pool(pool));
    object_pool_destroy(pool);
  }
}

/* What is due goes but for what the get is about to take: that would be made again at once. */
static void a_get_keeps_what_it_takes(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= OBJECT_POOL_SINGLE_THREAD; flags++) {
    int destructed = 0;
    object_pool_t *pool = with_arrays_due(flags, &destructed, 10);
    assert_ptr_equal(object_pool_get(pool), things[10]);
    assert_in_range(destructed, 1, 489);
    object_pool_destroy(pool);
  }
}

/* Each of two shrinks, one within the other, leaves what both ask for. */
static int shrinks_left;
static void shrink_within(void *object, void *context)
{
  (void)object;
  if (shrinks_left-- > 0)
    object_pool_shrink(*(object_pool_t **)context, 100);
}

static void shrinks_leave_what_they_should(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags < 4; flags++) {
    object_pool_t *pool = NULL;
    pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t), .capacity = 10, .when_full = OBJECT_POOL_GROW,
                                                       .destruct = shrink_within, .context = &pool, .flags = flags});
    for (int i = 0; i < 500; i++)
      assert_non_null(things[i] = object_pool_get(pool));
    object_pool_put_all(pool);
    shrinks_left = 1000;
    assert_true(object_pool_shrink(pool, 100) >= 100);
    assert_true(object_pool_capacity(pool) >= 100);
    assert_true(check_object_pool(pool));
    shrinks_left = 0;
    object_pool_destroy(pool);
  }
}

/* Neither does a walk in a hook find what is destructed already. */
static size_t walk_from;
static void walk_within(void *object, void *context)
{
  object_pool_t *pool = *(object_pool_t **)context;
  for (void *live = object_pool_next(pool, things[walk_from]); live; live = object_pool_next(pool, live))
    must(object_pool_in_use(pool, live) && live > object);
  for (void *live = NULL; (live = object_pool_next(pool, live)) != NULL;)   /* which the next walk must not rely on */
    must(live > object);
}

static void walks_in_a_pool_that_ends(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags < 4; flags++)
    for (walk_from = 0; walk_from < 300; walk_from += 37) {
      object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = sizeof(thing_t), .capacity = 300,
                                                                        .destruct = walk_within, .context = &pool, .flags = flags});
      for (int i = 0; i < 300; i++)
        assert_non_null(things[i] = object_pool_get(pool));
      object_pool_destroy(pool);
    }
}

/* The end of a pool goes on behind the object whose hook left; each is destructed once. Or its heap takes along what is left. */
static void destroy_until_left(object_pool_t *pool)
{
  if (setjmp(outside) == 0)
    object_pool_destroy(pool);
}

static void an_end_that_is_left(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++) {
    int destructed = 0;
    pool_stats_t before, after;
    pool_heap_t *parent = pool_heap_create(NULL), *heap = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 1 << 20});
    pool_heap_stats(parent, &before);
    pool_heap_destroy(heap);
    heap = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 1 << 20});
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){
      .object_size = sizeof(thing_t), .capacity = 10, .destruct = destruct_or_leave, .context = &destructed, .heap = heap,
      .flags = (kind & 1 ? OBJECT_POOL_CHECKED : 0) | (kind & 2 ? OBJECT_POOL_SINGLE_THREAD : 0)});
    for (int i = 0; i < 7; i++)
      assert_non_null(things[i] = object_pool_get(pool));
    for (int times = 1; times <= 3; times++) {
      leaver = DESTRUCT_LEAVES;
      destroy_until_left(pool);
      assert_int_equal(destructed, times);
      assert_null(object_pool_get(pool));
    }
    if (kind & 4) {
      object_pool_destroy(pool);
      assert_int_equal(destructed, 7);
      pool_heap_stats(heap, &after);
      assert_int_equal(after.live_bytes, 0);
    }
    pool_heap_destroy(heap);
    heap = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 1 << 20});
    pool_heap_stats(parent, &after);
    assert_int_equal(after.held_bytes, before.held_bytes);
    pool_heap_destroy(heap);
    pool_heap_destroy(parent);
  }
}

/* ---- errno ---- */

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
    success_keeps_errno((object_pool_options_t){.capacity = 10, .when_full = policies[kind / 8],
      .reset_time = kind & 1 ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET,
      .flags = (kind & 2 ? OBJECT_POOL_CHECKED : 0) | (kind & 4 ? OBJECT_POOL_SINGLE_THREAD : 0)});
}

/* ---- checked pools ---- */

static bool is_filled(const void *object, size_t size, const char *with)
{
  for (size_t i = 0; i < size; i++)
    if (((const char *)object)[i] != with[i % 4])
      return false;
  return true;
}

static void checked_fills_and_makes_anew(void **state)
{
  (void)state;
  counts_t c = {0};
  object_pool_t *pool = create(&c, (object_pool_options_t){.capacity = 10, .flags = OBJECT_POOL_CHECKED});
  get_all(pool, 10);
  for (int i = 0; i < 10; i++) {
    things[i]->child = things[0];
    object_pool_put(pool, things[i]);
    assert_true(is_filled(things[i], sizeof(thing_t), "\x0b\xdb\xea\x1d"));
  }
  agrees(&c, 10, 0, 10);
  get_all(pool, 10);
  agrees(&c, 20, 0, 10);
  object_pool_put_all(pool);
  agrees(&c, 20, 0, 20);
  object_pool_destroy(pool);
  assert_int_equal(c.destructed, 20);
}

static void checked_without_hooks(void **state)
{
  (void)state;
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 33, .capacity = 10, .flags = OBJECT_POOL_CHECKED});
  for (int i = 0; i < 30; i++) {
    char *object = object_pool_get(pool);
    assert_true(is_filled(object, 33, "\xcd\xcd\xcd\xcd"));
    memset(object, i, 33);
    object_pool_put(pool, object);
    assert_true(is_filled(object, 33, "\x0b\xdb\xea\x1d"));
  }
  object_pool_destroy(pool);
}

static size_t offset;
static void write_then_get(void *pool)
{
  char *object = object_pool_get(pool);
  object_pool_put(pool, object);
  object[offset]++;
  (void)!object_pool_get(pool);
}
static void write_then_destroy(void *pool)
{
  char *object = object_pool_get(pool);
  object_pool_put(pool, object);
  object[offset]++;
  object_pool_destroy(pool);
}

static void writes_after_put_are_found(void **state)
{
  (void)state;
  for (int hooks = 0; hooks < 2; hooks++)
    for (offset = 0; offset < sizeof(thing_t); offset += 7) {
      counts_t c = {0};
      char words[160];
      object_pool_t *pool = hooks ? create(&c, (object_pool_options_t){.capacity = 4, .flags = OBJECT_POOL_CHECKED})
        : object_pool_create(&(object_pool_options_t){.name = "things", .object_size = sizeof(thing_t), .capacity = 4, .flags = OBJECT_POOL_CHECKED});
      char *first = object_pool_get(pool);
      object_pool_put(pool, first);
      snprintf(words, sizeof words, "tidepool: object_pool_get(0x%lx): written to after it was put, at offset %zu of an object of %zu bytes of pool \"things\"\n",
               (unsigned long)(uintptr_t)first, offset, sizeof(thing_t));
      aborts_with(write_then_get, pool, words);
      aborts_with(write_then_destroy, pool, "tidepool: object_pool_destroy(0x");
      object_pool_destroy(pool);
    }
}

static int time_stands_still(void **state)
{
  (void)state;
  os_fake_heal();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lazily),
    cmocka_unit_test(eagerly),
    cmocka_unit_test(construct_may_fail),
    cmocka_unit_test(shrinking_destructs),
    cmocka_unit_test(evicted_ones_are_reset_once),
    cmocka_unit_test(hooks_get_and_put),
    cmocka_unit_test(only_a_reset),
    cmocka_unit_test(hooks_use_a_pool_that_ends),
    cmocka_unit_test(hooks_destroy_a_pool_that_ends),
    cmocka_unit_test(hooks_act_on_a_pool_that_ends),
    cmocka_unit_test(hooks_that_leave), cmocka_unit_test(a_shrink_that_is_left),
    cmocka_unit_test(an_end_that_is_left), cmocka_unit_test(a_get_that_is_left_by_what_is_due),
    cmocka_unit_test(a_get_keeps_what_it_takes),
    cmocka_unit_test(shrinks_leave_what_they_should), cmocka_unit_test(walks_in_a_pool_that_ends),
    cmocka_unit_test(hooks_leave_errno_alone),
    cmocka_unit_test(checked_fills_and_makes_anew),
    cmocka_unit_test(checked_without_hooks),
    cmocka_unit_test(writes_after_put_are_found),
  };
  return cmocka_run_group_tests_name("object_pool_hooks", tests, time_stands_still, NULL);
}
