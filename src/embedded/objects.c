/* SPDX-License-Identifier: MIT
 * Object pools of firmware have no caches, so a get and a put look at the pool at once. Small code matters more here. */
#include "object_pool/along.h"
#include "object_pool/array.h"
#include "object_pool/object_misuse.h"
#include "object_pool/registry.h"

/* Nobody else uses a heap that ends its blocks, so no lock is held while its objects are read. */
static void verify_pools(heap_t *heap, bool alone, const char *call)
{
  (void)alone;
  for (object_pool_t *pool = heap->object_pools; pool; pool = pool->next_in_heap) {
    const void *written = is_checked(pool) && !pool->ending ? array_find_written(pool) : NULL;
    if (unlikely(written != NULL))
      misuse_verify_dead(pool, written, call);
  }
}

const heap_dependents_t object_pools = {.verify = HAS_CHECKS ? verify_pools : NULL, .drop = registry_drop_pools_of};

bool pools_are_checked(void) { return false; }
void pool_ends(const object_pool_t *pool) { (void)pool; }

void *object_pool_get(object_pool_t *pool) { return pool ? get_along(pool, NULL) : misuse_no_pool("object_pool_get"); }

void object_pool_put(object_pool_t *pool, void *object)
{
  if (pool)
    put_along(pool, object, "object_pool_put");
  else
    misuse_no_pool("object_pool_put");
}
