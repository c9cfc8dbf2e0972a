/* SPDX-License-Identifier: MIT
 *
 * Options of a heap: which contradict each other, and how little memory or budget is enough. */
#ifndef HEAP_OPTIONS_H
#define HEAP_OPTIONS_H

#include "heap/region.h"
#include "space/metadata.h"

/* ---- valid ----
 *
 * Whether there can be a heap with these options. */

/* False: EINVAL is set, and pool_error() says which field is wrong. */
bool heap_options_are_valid(const pool_heap_options_t *options);

/* ---- least ----
 *
 * How little memory or budget a heap can have. */

/* Returns the size of the table of classes as it is charged. */
static inline size_t heap_class_table_bytes(size_t classes)
{
  return round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}

/* The least budget that has room for the records of a heap with these options, beside its table of classes. */
size_t heap_least_budget(const pool_heap_options_t *o, size_t table);

/* As pool_heap_least_memory(). */
size_t heap_least_memory(const pool_heap_options_t *options);

#endif
