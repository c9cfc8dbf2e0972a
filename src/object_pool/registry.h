/* SPDX-License-Identifier: MIT
 *
 * All pools of the process, and their records. The heaps come here (heap_dependents): with a heap its pools end; a fork takes
 * the locks of those that are shared; figures are asked for. The list, the pools of each heap and unused records are under
 * heaps_lock, which is taken before the lock of any pool. */
#ifndef REGISTRY_H
#define REGISTRY_H

#include "heap/blocks.h"
#include "object_pool/types.h"

/* Enters a pool into the list of all and that of its heap, or takes it out. */
void registry_enter(object_pool_t *pool);
void registry_leave(object_pool_t *pool);

/* Lets the pool have indices again that were left to pools which are gone. False: there are none. */
bool registry_recount_indices(object_pool_t *pool);

/* Takes the record of a pool to come, in which is_apart alone is set; NULL: no memory. A record that is given back looks like
 * no pool to a caller who still has its address. */
object_pool_t *registry_take_record(heap_t *heap, const attempt_t *from);
void registry_give_record(heap_t *heap, object_pool_t *pool, const char *call);

typedef struct object_pool_figures {
  char name[OBJECT_POOL_NAME_SIZE];
  char heap[HEAP_NAME_SIZE];
  size_t object_size, capacity, live, arrays, held_bytes;
} object_pool_figures_t;

/* All pools of the process; `visit` must not make or end one. */
typedef void object_pool_visit_fn(const object_pool_figures_t *figures, void *context);
void object_pools_visit(object_pool_visit_fn *visit, void *context);

#endif
