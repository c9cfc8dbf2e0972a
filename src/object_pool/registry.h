/* SPDX-License-Identifier: MIT
 *
 * All pools of the process, and their records. Heaps call it by heap_dependents: the pools of a heap end with it, a fork takes
 * the locks of shared pools, and figures are read. heaps_lock, taken before any pool's lock, protects all lists. */
#ifndef REGISTRY_H
#define REGISTRY_H

#include "heap/blocks.h"
#include "object_pool/types.h"

/* What heaps call: object_pool/process.c, or the front of firmware, defines it. */
extern const heap_dependents_t object_pools;

extern INTERNAL object_pool_t *all_pools; /* oldest first, under heaps_lock */

/* Ends all pools of a heap that ends, without hooks. Called under heaps_lock. */
void registry_drop_pools_of(heap_t *heap);

/* Where there are options of the process: they ask for checks of all pools; a line about live objects of a pool that ends. */
bool pools_are_checked(void);
void pool_ends(const object_pool_t *pool);

/* Enter a pool into the lists, and take it out. */
void registry_enter(object_pool_t *pool);
void registry_leave(object_pool_t *pool);

/* Gives the pool indices back that were left to destroyed pools. Returns false if there are none. */
bool registry_recount_indices(object_pool_t *pool);

/* Takes a record with only is_outside set, or NULL. */
object_pool_t *registry_take_record(heap_t *heap, const attempt_t *from);

/* Ends a pool that is in no list, without hooks. Later calls with its address find that it is no pool. `with_heap`: its heap
 * ends, too, and heaps_lock is held. */
void registry_end(object_pool_t *pool, const char *call, bool with_heap);

typedef struct object_pool_figures {
  char name[OBJECT_POOL_NAME_SIZE];
  char heap[HEAP_NAME_SIZE];
  size_t object_size, capacity, live, arrays, held_bytes;
} object_pool_figures_t;

/* Visits all pools of the process. `visit` must not create or destroy one. */
typedef void object_pool_visit_fn(const object_pool_figures_t *figures, void *context);
void object_pools_visit(object_pool_visit_fn *visit, void *context);

#endif
