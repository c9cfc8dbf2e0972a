/* SPDX-License-Identifier: MIT */
#include "pools.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

void *objects[MOST];
const unsigned both_kinds[] = {0, OBJECT_POOL_SINGLE_THREAD};

object_pool_t *create(object_pool_options_t options)
{
  object_pool_t *pool = object_pool_create(&options);
  assert_non_null(pool);
  assert_true(check_object_pool(pool));
  return pool;
}

object_pool_options_t good_options(void) { return (object_pool_options_t){.object_size = 48, .capacity = 100}; }

void is_refused(object_pool_options_t options)
{
  errno = 0;
  assert_null(object_pool_create(&options));
  assert_int_equal(errno, EINVAL);
}

static int by_address(const void *left, const void *right)
{
  void *const *a = left, *const *b = right;
  return ((uintptr_t)*a > (uintptr_t)*b) - ((uintptr_t)*a < (uintptr_t)*b);
}

size_t get_all(object_pool_t *pool, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    objects[i] = object_pool_get(pool);
    assert_non_null(objects[i]);
  }
  return count;
}

size_t get_all_by_address(object_pool_t *pool, size_t count)
{
  get_all(pool, count);
  qsort(objects, count, sizeof *objects, by_address);
  return count;
}

static size_t count_by_walk(const object_pool_t *pool)
{
  size_t count = 0;
  const void *last = NULL;
  for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL; count++) {
    assert_true((uintptr_t)object > (uintptr_t)last);
    assert_true(object_pool_in_use(pool, object));
    last = object;
  }
  return count;
}

void agrees(const object_pool_t *pool, size_t live)
{
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), live);
  assert_int_equal(count_by_walk(pool), live);
}

object_pool_t *create_in_case(object_pool_options_t options, hot_case_t hot)
{
  object_pool_t *pool = create(options);
  get_all(pool, 5);
  if (hot != HOT_NOT_YET)
    object_pool_put(pool, objects[4]);
  if (hot == HOT_LIVE_NOW)
    assert_ptr_equal(object_pool_get(pool), objects[4]);
  if (hot == HOT_NO_LONGER) {
    object_pool_put_all(pool);
    get_all(pool, 4);
  }
  agrees(pool, hot == HOT_NOT_YET || hot == HOT_LIVE_NOW ? 5 : 4);
  return pool;
}

static void *sleep_on(void *unused)
{
  for (;;)
    pause();
  return unused;
}

void start_second_thread(void)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, sleep_on, NULL) == 0);
}

bool make_object(void *object, void *context) { return (void)object, (void)context, true; }

void *choose_next(object_pool_t *pool, void *context)
{
  void **last = context, *next = object_pool_next(pool, *last);
  return *last = next ? next : object_pool_next(pool, NULL);
}
