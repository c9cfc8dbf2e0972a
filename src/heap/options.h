/* SPDX-License-Identifier: MIT
 * Which options of a heap contradict each other, and how little memory or budget is enough. */
#ifndef HEAP_OPTIONS_H
#define HEAP_OPTIONS_H

#include "heap/region.h"
#include "space/metadata.h"

/* Returns false with EINVAL, and pool_error() names the wrong field. */
bool heap_options_are_valid(const pool_heap_options_t *options);

/* Returns the bytes that the table of classes is charged. */
static inline size_t heap_class_table_bytes(size_t classes)
{
  return round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}

/* Returns the least budget with room for the records of a heap with these options, beside its table of classes. */
size_t heap_least_budget(const pool_heap_options_t *o, size_t table);

size_t heap_least_memory(const pool_heap_options_t *options);

#endif
