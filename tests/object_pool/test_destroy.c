/* SPDX-License-Identifier: MIT
 * Pools that are gone, by themselves or with their heap: whoever uses one ends the program. */
#include "pools.h"
#include <errno.h>

static object_pool_handle_t kept;
static size_t told;

static void call_get(object_pool_t *pool, void *object) { objects[0] = object_pool_get(pool), (void)object; }
static void call_put(object_pool_t *pool, void *object) { object_pool_put(pool, object); }
static void call_get_batch(object_pool_t *pool, void *object) { told = object_pool_get_batch(pool, objects, 2), (void)object; }
static void call_put_batch(object_pool_t *pool, void *object) { object_pool_put_batch(pool, &object, 1); }
static void call_put_all(object_pool_t *pool, void *object) { object_pool_put_all(pool), (void)object; }
static void call_in_use(object_pool_t *pool, void *object) { told = object_pool_in_use(pool, object); }
static void call_next(object_pool_t *pool, void *object) { objects[0] = object_pool_next(pool, object); }
static void call_live(object_pool_t *pool, void *object) { told = object_pool_live(pool), (void)object; }
static void call_capacity(object_pool_t *pool, void *object) { told = object_pool_capacity(pool), (void)object; }
static void call_shrink(object_pool_t *pool, void *object) { told = object_pool_shrink(pool, 0), (void)object; }
static void call_handle(object_pool_t *pool, void *object) { kept = object_pool_handle(pool, object); }
static void call_resolve(object_pool_t *pool, void *object) { objects[0] = object_pool_resolve(pool, kept), (void)object; }
static void call_destroy(object_pool_t *pool, void *object) { object_pool_destroy(pool), (void)object; }

static const struct {
  const char *name;
  void (*call)(object_pool_t *pool, void *object);
} calls[] = {
  {"get", call_get},           {"put", call_put},       {"get_batch", call_get_batch}, {"put_batch", call_put_batch},
  {"put_all", call_put_all},   {"in_use", call_in_use}, {"next", call_next},           {"live", call_live},
  {"capacity", call_capacity}, {"shrink", call_shrink}, {"handle", call_handle},       {"resolve", call_resolve},
  {"destroy", call_destroy},
};
enum { CALLS = sizeof calls / sizeof *calls };

typedef struct use {
  object_pool_t *pool;
  void *object;
  size_t call;
} use_t;

static void do_use(void *argument)
{
  const use_t *use = argument;
  calls[use->call].call(use->pool, use->object);
}

static void do_use_with_threads(void *argument)
{
  start_second_thread();
  do_use(argument);
}

static void ends_the_program(use_t use, const char *words)
{
  aborts_with(do_use, &use, words);
  aborts_with(do_use_with_threads, &use, words);
}

/* With one thread and with two; with the object that was hot, one that was not, and none. */
static void every_use_ends_the_program(object_pool_t *pool)
{
  for (size_t call = 0; call < CALLS; call++) {
    char words[128];
    snprintf(words, sizeof words, "tidepool: object_pool_%s(0x%lx): not a live object pool\n", calls[call].name,
             (unsigned long)(uintptr_t)pool);
    ends_the_program((use_t){pool, objects[4], call}, words);
    if (strstr("put put_batch in_use next handle", calls[call].name)) {
      aborts_with(do_use, &(use_t){pool, objects[0], call}, words);
      aborts_with(do_use, &(use_t){pool, NULL, call}, words);
    }
  }
}

static void destroyed_with_something_hot(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags)
    {
      object_pool_t *pool = create_in_case((object_pool_options_t){.object_size = 32, .capacity = 200, .flags = flags}, hot);
      kept = object_pool_handle(pool, objects[1]);
      object_pool_destroy(pool);
      every_use_ends_the_program(pool);
    }
}

/* A walk through many live objects knows what comes, and had come half way. */
static void destroyed_while_walked(void **state)
{
  (void)state;
  FOR_BOTH(flags)
  {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 1000, .flags = flags});
    get_all(pool, 1000);
    for (size_t i = 0; i < 500; i++)
      assert_ptr_equal(object_pool_next(pool, objects[i]), objects[i + 1]);
    object_pool_destroy(pool);
    every_use_ends_the_program(pool);
  }
}

/* Bits: for one thread, checked, with a hook. */
static object_pool_options_t options_of_kind(unsigned kind, pool_heap_t *heap)
{
  return (object_pool_options_t){.object_size = 32,
                                 .capacity = 200,
                                 .heap = heap,
                                 .construct = kind & 4 ? make_object : NULL,
                                 .flags = (kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 2 ? OBJECT_POOL_CHECKED : 0)};
}

static void destroyed_with_hooks(void **state)
{
  (void)state;
  for (unsigned kind = 2; kind < 8; kind++) {
    object_pool_t *pool = create(options_of_kind(kind, NULL));
    get_all(pool, 5);
    kept = object_pool_handle(pool, objects[1]);
    object_pool_destroy(pool);
    every_use_ends_the_program(pool);
  }
}

/* Its heap may write over what it gets back. */
enum { HEAP_KINDS = 5 };
static pool_heap_t *heap_of_kind(int kind)
{
  static char memory[256 << 10];
  pool_heap_options_t options[HEAP_KINDS] = {{.name = "plain"},
                                             {.flags = POOL_HEAP_ZERO_ON_FREE},
                                             {.flags = POOL_HEAP_CHECKED},
                                             {.budget = 256 << 10},
                                             {.memory = memory, .memory_size = sizeof memory}};
  pool_heap_t *heap = pool_heap_create(&options[kind]);
  assert_non_null(heap);
  return heap;
}

static object_pool_t *create_in_heap(pool_heap_t *heap, unsigned flags)
{
  object_pool_options_t o = {.object_size = 32, .capacity = 200, .heap = heap, .flags = flags};
  object_pool_t *pool = create_in_case(o, HOT_FREE_NOW);
  kept = object_pool_handle(pool, objects[1]);
  return pool;
}

static void destroyed_in_each_heap(void **state)
{
  (void)state;
  for (int kind = 0; kind < HEAP_KINDS; kind++)
    FOR_BOTH(flags)
    {
      pool_heap_t *heap = heap_of_kind(kind);
      object_pool_t *pool = create_in_heap(heap, flags);
      object_pool_destroy(pool);
      every_use_ends_the_program(pool);
      pool_heap_destroy(heap);
    }
}

/* A heap that ends, or starts anew, takes its pools along. */
static void gone_with_each_heap(void **state)
{
  (void)state;
  for (int kind = 0; kind < HEAP_KINDS; kind++)
    for (int resets = 0; resets < 2; resets++)
      FOR_BOTH(flags)
      {
        pool_heap_t *heap = heap_of_kind(kind);
        object_pool_t *pool = create_in_heap(heap, flags);
        resets ? pool_heap_reset(heap) : pool_heap_destroy(heap);
        every_use_ends_the_program(pool);
        if (resets)
          pool_heap_destroy(heap);
      }
}

/* So do heaps that end with what they hold in the hands of others: a hot object, a walk, hooks. */
static void gone_with_a_heap(void **state)
{
  (void)state;
  for (int resets = 0; resets < 2; resets++)
    for (unsigned kind = 0; kind < 8; kind++)
      for (hot_case_t hot = 0; hot < (kind < 2 ? HOT_CASES : 1); hot++) { /* with hooks nothing is hot */
        pool_heap_t *heap = heap_of_kind(0);
        object_pool_t *pool = create_in_case(options_of_kind(kind, heap), hot);
        kept = object_pool_handle(pool, objects[1]);
        for (void *object = NULL; object != objects[2];)
          object = object_pool_next(pool, object);
        resets ? pool_heap_reset(heap) : pool_heap_destroy(heap);
        for (size_t call = 0; call < CALLS; call++)
          ends_the_program((use_t){pool, objects[4], call}, "): not a live object pool\n");
        if (resets)
          pool_heap_destroy(heap);
      }
}

/* A pool in front of one that is gone notices as soon as it has to ask it. */
static void overflow_gone_first(bool with_heap)
{
  FOR_BOTH(flags)
  {
    pool_heap_t *heap = heap_of_kind(0);
    object_pool_t *last = create((object_pool_options_t){.object_size = 40, .capacity = 5, .heap = heap, .flags = flags});
    object_pool_options_t o = {.object_size = 40, .capacity = 5, .flags = flags};
    o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = last;
    object_pool_t *pool = create(o);
    get_all(pool, 10);
    kept = object_pool_handle(pool, objects[7]);
    with_heap ? pool_heap_destroy(heap) : object_pool_destroy(last);
    char words[128];
    snprintf(words, sizeof words, "(0x%lx): not a live object pool\n", (unsigned long)(uintptr_t)last);
    for (size_t call = 0; call < CALLS; call++)
      if (strstr("get put get_batch put_batch handle resolve", calls[call].name))
        ends_the_program((use_t){pool, objects[7], call}, words);
    errno = 0;
    object_pool_t *refused = object_pool_create(&o);
    assert_null(refused);
    assert_int_equal(errno, EINVAL);
    kept = object_pool_handle(pool, objects[2]);
    assert_ptr_equal(object_pool_resolve(pool, kept), objects[2]);
    object_pool_put(pool, objects[2]);
    assert_ptr_equal(object_pool_get(pool), objects[2]);
    object_pool_destroy(pool);
    if (!with_heap)
      pool_heap_destroy(heap);
  }
}

static void overflow_destroyed_first(void **state)
{
  (void)state;
  overflow_gone_first(false);
}

static void overflow_gone_with_its_heap(void **state)
{
  (void)state;
  overflow_gone_first(true);
}

static void destroy_twice(void *pool)
{
  object_pool_destroy(pool);
  object_pool_destroy(pool);
}

static void destroyed_twice(void **state)
{
  (void)state;
  object_pool_t *pool = create(good_options());
  aborts_with(destroy_twice, pool, "tidepool: object_pool_destroy(0x");
  object_pool_destroy(pool);
  object_pool_destroy(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(destroyed_with_something_hot),
    cmocka_unit_test(destroyed_while_walked),
    cmocka_unit_test(destroyed_with_hooks),
    cmocka_unit_test(destroyed_in_each_heap),
    cmocka_unit_test(gone_with_each_heap),
    cmocka_unit_test(gone_with_a_heap),
    cmocka_unit_test(overflow_destroyed_first),
    cmocka_unit_test(overflow_gone_with_its_heap),
    cmocka_unit_test(destroyed_twice),
  };
  return cmocka_run_group_tests_name("object_pool destroy", tests, time_stands_still, NULL);
}
