/* SPDX-License-Identifier: MIT
 *
 * How a call finds that something is wrong, and what it says: there is no pool, or none any more; the object is not a live one
 * of the pool; an object of a checked pool was written to after it was put. A free object of a checked pool is full of dead
 * bytes, which tell of that. No lock is needed here, and none is taken. */
#ifndef OBJECT_MISUSE_H
#define OBJECT_MISUSE_H

#include "object_pool/types.h"
#include <errno.h>

/* Sets EINVAL, as each call except destroy does without a pool. */
COLD void *misuse_no_pool(const char *call);

COLD _Noreturn void misuse_no_live_pool(const object_pool_t *pool, const char *call);
COLD _Noreturn void misuse_not_live(const object_pool_t *pool, const void *object, const char *call);

/* One line of a pool that is destroyed with live objects. */
COLD void misuse_say_left(const object_pool_t *pool, size_t live);

/* The first fills an object with dead bytes. The others say whether it is not full of them any more, and end the program then.
 */
void misuse_fill_dead(const object_pool_t *pool, void *object);
bool misuse_was_written(const object_pool_t *pool, const void *object);
void misuse_verify_dead(const object_pool_t *pool, const void *object, const char *call);

static inline void *full(void)
{
  errno = ENOMEM;
  return NULL;
}

/* Comes before anything else in the pool is believed. The record of a pool that is gone may be memory of the heap like any
 * other. The mark is not there as long as that memory is free, or was cleared or filled since. */
static inline void must_be_live(const object_pool_t *pool, const char *call)
{
  if (unlikely(pool->mark != OBJECT_POOL_MARK))
    misuse_no_live_pool(pool, call);
}

/* Every call but those for the hot object begins with this. False: there is nothing to do. */
static inline bool is_given(const object_pool_t *pool, const char *call)
{
  if (unlikely(!pool)) {
    misuse_no_pool(call);
    return false;
  }
  must_be_live(pool, call);
  return true;
}

#endif
