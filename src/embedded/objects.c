/* SPDX-License-Identifier: MIT
 * Object pools of firmware have no caches, so a get and a put look at the pool at once. Small code matters more here. */
#include "object_pool/operations.h"

void *object_pool_get(object_pool_t *pool) { return pool ? get_along(pool, NULL) : misuse_no_pool("object_pool_get"); }

void object_pool_put(object_pool_t *pool, void *object)
{
  if (pool)
    put_along(pool, object, "object_pool_put");
  else
    misuse_no_pool("object_pool_put");
}
