/* SPDX-License-Identifier: MIT
 *
 * tidepool/jansson.h: all of Jansson's memory on one heap. Jansson has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "json", .budget = 1 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_jansson_install(heap);                  (before any other call of Jansson)
 *     ... json_loads(), json_dumps() ...           (NULL: the heap is exhausted, or the text is wrong)
 *     json_decref(value);                          (or pool_heap_reset(heap), which ends all values at once)
 *     pool_heap_destroy(heap);
 *
 * Jansson does not check that it is unused: see hooks.h for a late installation. Free the result of json_dumps() with
 * pool_free(), not with free(). Jansson keeps no memory of its own. Not every version reports exhaustion in json_error_t; the
 * heap's exhausted_count counts it. */
#ifndef TIDEPOOL_JANSSON_H
#define TIDEPOOL_JANSSON_H

#include <jansson.h>
#include <tidepool/hooks.h>

POOL_HOOKS(jansson)

/* Makes Jansson allocate from `heap`. */
static inline void pool_jansson_install(pool_heap_t *heap)
{
  pool_jansson_heap = heap;
  json_set_alloc_funcs(pool_jansson_malloc, pool_jansson_free);
}

#endif
