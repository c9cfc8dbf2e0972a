/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include <sys/wait.h>
#include <unistd.h>

bool construct(void *object, void *context) { return (void)context, ((slot_t *)object)->owner = 0, true; }
void reset(void *object, void *context) { (void)context, ((slot_t *)object)->owner = 0; }

object_pool_t *slots_pool(size_t capacity, object_pool_policy_t when_full)
{
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.object_size = sizeof(slot_t), .capacity = capacity, .when_full = when_full});
  must(pool);
  return pool;
}

size_t slots_walked(const object_pool_t *pool)
{
  size_t count = 0;
  for (const void *object = NULL; (object = object_pool_next(pool, object)) != NULL; count++)
    must(object_pool_in_use(pool, object));
  return count;
}

void slots_agree(object_pool_t *pool, size_t live)
{
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), live);
  assert_int_equal(slots_walked(pool), live);
}

void slots_can_be_had(object_pool_t *pool, size_t count)
{
  void **all = calloc(count + 1, sizeof *all);
  size_t got = 0;
  while (got <= count && (all[got] = object_pool_get(pool)) != NULL)
    got++;
  assert_int_equal(got, count);
  while (got)
    object_pool_put(pool, all[--got]);
  free(all);
}

void slots_fork(object_pool_t *pool, int (*use_in_child)(object_pool_t *pool))
{
  pid_t child = fork();
  must(child >= 0);
  if (!child)
    _exit(use_in_child(pool));
  int status;
  must(waitpid(child, &status, 0) == child);
  assert_int_equal(status, 0);
}
