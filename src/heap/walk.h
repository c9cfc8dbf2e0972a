/* SPDX-License-Identifier: MIT
 *
 * Every live block of a heap. */
#ifndef HEAP_WALK_H
#define HEAP_WALK_H

#include "heap/heads.h"
#include "heap/heap.h"
#include <tidepool/heap.h>

/* Calls `visit` with each block that is live, until it returns false. As pool_heap_walk(). */
bool heap_walk(heap_t *heap, pool_visit_fn *visit, void *context);

/* The same with what only the manager knows of each block. `beside`: other threads may be at work in the heap, of which nothing
 * is cached then. */
typedef struct walked {
  pool_block_t block;
  site_t site;      /* 0: it is not known */
  uintptr_t number; /* by which one time of a block is told from another; 0: there is none */
} walked_t;
typedef bool heap_visit_fn(const walked_t *walked, void *context);
bool heap_walk_sites(heap_t *heap, bool beside, heap_visit_fn *visit, void *context);

/* Calls `visit` with the memory that holds each live block, with its head if it has one. Nothing is flushed, so no thread may
 * cache blocks of the heap. */
typedef bool heap_visit_start_fn(char *start, void *context);
bool heap_walk_starts(heap_t *heap, heap_visit_start_fn *visit, void *context);

#endif
