/* SPDX-License-Identifier: MIT
 *
 * A message names the pool, because its address says little. The program chose the name, so it is quoted. */
#include "object_pool/object_misuse.h"
#include "base/fill.h"
#include "heap/invalid.h"
#include "misuse.h"

void misuse_not_live(const object_pool_t *pool, const void *object, const char *call)
{
  fatal_misuse_of_object(call, object, NOT_AN_OBJECT, pool->name);
}

void misuse_no_live_pool(const object_pool_t *pool, const char *call) { fatal_misuse(call, pool, NOT_AN_OBJECT_POOL); }

void *misuse_no_pool(const char *call) { return invalid(INVALID_POOL_IS_NULL, (uintptr_t)call); }

void misuse_fill_dead(const object_pool_t *pool, void *object) { dead_fill(object, pool->object_size); }

bool misuse_was_written(const object_pool_t *pool, const void *object) { return !is_dead(object, pool->object_size); }

/* Ends the program at the first wrong byte. Its offset leads to the write. */
void misuse_verify_dead(const object_pool_t *pool, const void *object, const char *call)
{
  const char *written = dead_find_written(object, pool->object_size);
  if (unlikely(written != NULL))
    fatal_damage_of_object(call, object, AFTER_PUT, (size_t)(written - (const char *)object), pool->object_size, pool->name);
}
