/* SPDX-License-Identifier: MIT
 * What the tests of exhausted heaps share: an on_exhausted that is told what to do. */
#ifndef HELPERS_H
#define HELPERS_H

#include "heaps.h"

enum { SMALL = 256 << 10, LARGE = 16 << 20, ATTEMPTS = 64 };

typedef struct helper {
  unsigned calls, give_up_at, help_at; /* at this attempt; ~0: never */
  bool in_order, inside;
  size_t bytes_needed;
  pool_heap_t *heap;
  void (*help)(struct helper *helper, pool_heap_t *heap);
  list_t list;
  object_pool_t *pool;
} helper_t;

bool on_exhausted(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);
helper_t helper_that(void (*help)(helper_t *, pool_heap_t *), unsigned help_at);
pool_heap_t *heap_helped_by(helper_t *helper, size_t budget);

/* Fills the heap without the callback's help. */
void fill(pool_heap_t *heap, helper_t *helper, size_t size);
void finish(pool_heap_t *heap, helper_t *helper);

#endif
