/* SPDX-License-Identifier: MIT
 * How little memory or budget a heap can have. */
#ifndef LEAST_H
#define LEAST_H

#include "heap/region.h"
#include "space/metadata.h"

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
