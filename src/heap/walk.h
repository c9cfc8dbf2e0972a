/* SPDX-License-Identifier: MIT
 * Walks over every live block of a heap. */
#ifndef HEAP_WALK_H
#define HEAP_WALK_H

#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include <tidepool/heap.h>

/* pool_heap_walk(): calls `visit` with each live block until it returns false. */
bool heap_walk(heap_t *heap, pool_visit_fn *visit, void *context);

/* heap_walk() that passes more. `beside`: other threads may be using the heap, none of whose blocks is cached. */
typedef struct walked {
  pool_block_t block;
  site_t site;      /* 0: not known */
  uintptr_t number; /* distinguishes uses of the block's memory; 0: not known */
} walked_t;
typedef bool heap_visit_fn(const walked_t *walked, void *context);
bool heap_walk_sites(heap_t *heap, bool beside, heap_visit_fn *visit, void *context);

/* Calls `visit` with the memory, head included, of each live block. Nothing is flushed, so no thread may cache blocks. */
typedef bool heap_visit_start_fn(char *start, void *context);
bool heap_walk_starts(heap_t *heap, heap_visit_start_fn *visit, void *context);

#endif
