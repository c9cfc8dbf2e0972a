/* SPDX-License-Identifier: MIT */
#include "things.h"
#include <errno.h>

thing_t *things[MOST];

bool construct(void *object, void *context)
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

void reset(void *object, void *context)
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

void destruct(void *object, void *context)
{
  thing_t *thing = object;
  counts_t *c = context;
  c->destructed++;
  assert_int_equal(thing->made, MADE);
  thing->made = 0;
  if (c->with_child && thing->child)
    object_pool_put(c->pool, thing->child);
}

object_pool_t *create(counts_t *counts, object_pool_options_t o)
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

void get_all(object_pool_t *pool, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    things[i] = object_pool_get(pool);
    assert_non_null(things[i]);
    assert_int_equal(things[i]->made, MADE);
    assert_int_equal(things[i]->value, 0);
    things[i]->value = 1;
  }
}

void agrees(const counts_t *c, int constructed, int resets, int destructed)
{
  assert_int_equal(c->constructed, constructed);
  assert_int_equal(c->reset, resets);
  assert_int_equal(c->destructed, destructed);
  assert_true(check_object_pool(c->pool));
}
