/* SPDX-License-Identifier: MIT
 * What the tests of hooks share: objects that know whether they are constructed, and hooks that count their calls. */
#ifndef THINGS_H
#define THINGS_H

#include "check_object_pool.h"
#include "os_fake.h"
#include "unit.h"

enum { MOST = 1000 };

typedef struct thing {
  uint64_t made; /* MADE while it is constructed */
  struct thing *child;
  int value;
} thing_t;
#define MADE 0x6d616465u

typedef struct counts {
  object_pool_t *pool;
  int constructed, reset, destructed;
  int construct_fails_at; /* count of calls; 0: never */
  bool with_child, refuse;
  thing_t *last;
} counts_t;

extern thing_t *things[MOST];
void get_all(object_pool_t *pool, size_t count); /* into things[]; fails the test unless each is as constructed */

bool construct(void *object, void *context);
void reset(void *object, void *context);
void destruct(void *object, void *context);

object_pool_t *create(counts_t *counts, object_pool_options_t o); /* with these hooks; never NULL */
void agrees(const counts_t *c, int constructed, int resets, int destructed);

#endif
