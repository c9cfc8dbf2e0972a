/* SPDX-License-Identifier: MIT
 * Walks over every live block of a heap. */
#ifndef HEAP_WALK_H
#define HEAP_WALK_H

#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include <tidepool/heap.h>

typedef enum walk_mode {
  WALK_ALONE,  /* flushes all caches first: no other thread may be in a call with the heap */
  WALK_BESIDE, /* flushes nothing: no thread may cache blocks of the heap, but others may be using it */
  WALK_MEMORY  /* WALK_BESIDE that passes the memory of each block, with its head, even if the head is invalid */
} walk_mode_t;

typedef struct walked {
  pool_block_t block;
  site_t site;      /* 0: not known */
  uintptr_t number; /* distinguishes uses of the block's memory; 0: not known */
  bool has_pages;   /* the block is a run or a mapping of the manager */
} walked_t;
typedef bool heap_visit_fn(const walked_t *walked, void *context);

/* Calls `visit` with each live block until it returns false. Returns false if it did. */
bool heap_walk(heap_t *heap, walk_mode_t mode, heap_visit_fn *visit, void *context);

#endif
