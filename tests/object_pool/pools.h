/* SPDX-License-Identifier: MIT
 * What the tests of object pools without hooks share: both kinds of pools, a list of objects, and figures that agree. */
#ifndef POOLS_H
#define POOLS_H

#include "check_object_pool.h"
#include "os_fake.h"
#include "unit.h"

/* The objects of the pool under test. */
enum { MOST = 5000 };
extern void *objects[MOST];

/* Into objects[]; fails the test if one is refused. In the order of the gets, or sorted. */
size_t get_all(object_pool_t *pool, size_t count);
size_t get_all_by_address(object_pool_t *pool, size_t count);

extern const unsigned both_kinds[2];
#define FOR_BOTH(flags) \
  for (size_t kind_ = 0; kind_ < 2; kind_++) \
    for (unsigned flags = both_kinds[kind_], once_ = 1; once_; once_ = 0)

object_pool_t *create(object_pool_options_t options); /* never NULL */
object_pool_options_t good_options(void);
void is_refused(object_pool_options_t options);      /* with EINVAL */
void agrees(const object_pool_t *pool, size_t live); /* the figures, a walk and the invariants */

/* The object that was put last is kept apart from the others: there is none yet, it is free, it is live, or it went back. */
typedef enum hot_case { HOT_NOT_YET, HOT_FREE_NOW, HOT_LIVE_NOW, HOT_NO_LONGER, HOT_CASES } hot_case_t;

/* Leaves objects[0] to objects[3] live, in any case. */
object_pool_t *create_in_case(object_pool_options_t options, hot_case_t hot);

/* For a child: from now on every lock is taken. */
void start_second_thread(void);

bool make_object(void *object, void *context);         /* constructs nothing, and succeeds */
void *choose_next(object_pool_t *pool, void *context); /* victims one after the other, by address, and begins again */

#endif
