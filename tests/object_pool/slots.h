/* SPDX-License-Identifier: MIT
 * What the tests of object pools with many threads share: objects that have an owner. */
#ifndef SLOTS_H
#define SLOTS_H

#include "check_object_pool.h"
#include "unit.h"

enum { THREADS = 4, HELD = 40 };

typedef struct slot {
  uint64_t owner, pad[3];
} slot_t;

/* Leave an object without an owner. */
bool construct(void *object, void *context);
void reset(void *object, void *context);

/* A shared pool of slots; how many a walk meets; all figures say that so many are live; so many and no more can be got. */
object_pool_t *slots_pool(size_t capacity, object_pool_policy_t when_full);
size_t slots_walked(const object_pool_t *pool);
void slots_agree(object_pool_t *pool, size_t live);
void slots_can_be_had(object_pool_t *pool, size_t count);

/* A child of a fork uses the pool, and ends with 0. */
void slots_fork(object_pool_t *pool, int (*use_in_child)(object_pool_t *pool));

#endif
