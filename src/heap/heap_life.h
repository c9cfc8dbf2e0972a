/* SPDX-License-Identifier: MIT
 * Heaps come and go: creation from options, reset, destruction, a changed budget, walks over live blocks. */
#ifndef HEAP_LIFE_H
#define HEAP_LIFE_H

#include "heap/heap.h"
#include <tidepool/heap.h>

/* NULL + EINVAL: options that contradict each other, a buffer too small. NULL + ENOMEM. */
heap_t *heap_create(const pool_heap_options_t *options);
void    heap_destroy(heap_t *heap);
void    heap_reset(heap_t *heap);

/* The same; for_good: its bins and threads' magazines of it end as well. */
void    heap_end_blocks(heap_t *heap, bool for_good);

bool    heap_set_budget(heap_t *heap, size_t budget);
bool    heap_walk(heap_t *heap, pool_visit_fn *visit, void *context);

#endif
