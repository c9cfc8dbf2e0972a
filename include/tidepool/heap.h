/* SPDX-License-Identifier: MIT
 *
 * tidepool/heap.h: a manager. The process-wide one behind pool_alloc() is a heap too. */
#ifndef TIDEPOOL_HEAP_H
#define TIDEPOOL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* The heap behind pool_alloc(); it cannot be reset or destroyed. Never NULL. */
POOL_API pool_heap_t *pool_heap_default(void) POOL_NOEXCEPT;

/* The heap's name, which lives as long as the heap does; NULL for NULL. */
POOL_API const char *pool_heap_name(const pool_heap_t *heap) POOL_NOEXCEPT;

POOL_END_DECLS

#endif
