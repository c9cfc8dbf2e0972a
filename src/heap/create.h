/* SPDX-License-Identifier: MIT
 *
 * A heap from its options, and its end. */
#ifndef CREATE_H
#define CREATE_H

#include "heap/heap.h"
#include <tidepool/heap.h>

/* NULL + EINVAL: options that contradict each other, a buffer too small. NULL + ENOMEM. */
heap_t *heap_create(const pool_heap_options_t *options);

void heap_destroy(heap_t *heap);

#endif
