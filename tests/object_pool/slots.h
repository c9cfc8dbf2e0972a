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

#endif
