/* SPDX-License-Identifier: MIT
 *
 * The names of tidepool's own interface in the library that comes next; each module may have another. */
#ifndef POOL_NAMES_H
#define POOL_NAMES_H

#include "beside.h"
#include "event.h"
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>

#define NAMES(X) \
  X(pool_alloc, "alloc") \
  X(pool_zalloc, "zalloc") \
  X(pool_calloc, "calloc") \
  X(pool_realloc, "realloc") \
  X(pool_aligned_alloc, "aligned_alloc") \
  X(pool_free, "free") \
  X(pool_free_sized, "free_sized") \
  X(pool_alloc_batch, "alloc_batch") \
  X(pool_free_batch, "free_batch") \
  X(pool_resize_in_place, "resize_in_place") \
  X(pool_heap_of, "heap_of") \
  X(pool_heap_default, "heap_default") \
  X(pool_heap_name, "heap_name") \
  X(pool_heap_create_sized, "heap_create") \
  X(pool_heap_destroy, "heap_destroy") \
  X(pool_heap_reset, "heap_reset") \
  X(pool_heap_alloc, "heap_alloc") \
  X(pool_heap_zalloc, "heap_zalloc") \
  X(pool_heap_calloc, "heap_calloc") \
  X(pool_heap_realloc, "heap_realloc") \
  X(pool_heap_aligned_alloc, "heap_aligned_alloc") \
  X(pool_heap_free, "heap_free") \
  X(object_pool_create_sized, "object_pool_create") \
  X(object_pool_destroy, "object_pool_destroy") \
  X(object_pool_get, "object_pool_get") \
  X(object_pool_put, "object_pool_put") \
  X(object_pool_get_batch, "object_pool_get_batch") \
  X(object_pool_put_batch, "object_pool_put_batch") \
  X(object_pool_put_all, "object_pool_put_all") \
  X(object_pool_in_use, "object_pool_in_use")

#define NEXT_POINTER(function, name) __typeof__(function) *function##_;
typedef struct names {
  beside_t beside; /* of a module's own */
  NAMES(NEXT_POINTER)
  const void *default_heap;
} names_t;
/* Those that the program finds. */
extern HIDDEN names_t pool_names;

/* Those of the module that `caller` is an address in, where the program has none. */
HIDDEN names_t *pool_names_beside(const void *caller);

static inline __attribute__((always_inline)) names_t *names_of(const void *caller)
{
  return likely(pool_names.pool_alloc_ != NULL) ? &pool_names : pool_names_beside(caller);
}

#endif
