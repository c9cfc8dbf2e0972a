/* SPDX-License-Identifier: MIT
 *
 * How calls detect misuse, and what they report: no pool, or a destroyed one; an object that is not live in the pool; a write
 * to an object of a checked pool after its put. Free objects of checked pools are full of dead bytes. No lock is taken. */
#ifndef OBJECT_MISUSE_H
#define OBJECT_MISUSE_H

#include "object_pool/types.h"
#include <errno.h>

/* Sets EINVAL, as every call without a pool does except destroy. */
COLD void *misuse_no_pool(const char *call);

COLD _Noreturn void misuse_no_live_pool(const object_pool_t *pool, const char *call);
COLD _Noreturn void misuse_not_live(const object_pool_t *pool, const void *object, const char *call);

/* misuse_fill_dead() fills an object with dead bytes. misuse_was_written() returns whether one has changed.
 * misuse_verify_dead() then ends the program. */
void misuse_fill_dead(const object_pool_t *pool, void *object);
bool misuse_was_written(const object_pool_t *pool, const void *object);
void misuse_verify_dead(const object_pool_t *pool, const void *object, const char *call);

static inline void *full(void)
{
  errno = ENOMEM;
  return NULL;
}

/* Precedes any other use of the pool. The record of a destroyed pool may be free or reused memory. It has the mark no more. */
static inline void must_be_live(const object_pool_t *pool, const char *call)
{
  if (unlikely(pool->mark != OBJECT_POOL_MARK))
    misuse_no_live_pool(pool, call);
}

/* Every call begins with this, except the fast paths. Returns false if there is nothing to do. */
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
