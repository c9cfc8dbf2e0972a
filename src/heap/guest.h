/* SPDX-License-Identifier: MIT
 *
 * A heap of granules in a caller's memory of up to 8 MiB: the heap, the table of its own classes, the index, and the blocks.
 * Firmware has no other. */
#ifndef HEAP_GUEST_H
#define HEAP_GUEST_H

#include "heap/heap.h"
#include "heap/invalid.h"
#include "space/metadata.h"
#include <tidepool/heap.h>

#define SMALL_REGION ((size_t)8 << 20) /* bytes; the longest region of granules, and the largest budget with a region */

/* Returns the bytes that a table of classes is charged, and those of the heap's own; 0: it has none. */
static inline size_t heap_class_table_bytes(size_t classes)
{
  return round_up((classes + 1) * sizeof(uint32_t), METADATA_ALIGNMENT);
}
static inline size_t heap_own_table_bytes(const pool_heap_options_t *o)
{
  return o->size_classes ? heap_class_table_bytes(o->size_class_count) : 0;
}

/* Returns the granules of the smallest block. One with a head has room for a byte. */
size_t heap_least_granules(const pool_heap_options_t *options);

/* Returns the bytes that a heap with one block takes at an address. */
size_t guest_least(const pool_heap_options_t *options, uintptr_t address);

/* Memory that wraps around the end of the address space is refused. */
static inline bool guest_memory_ends(const pool_heap_options_t *o)
{
  return (uintptr_t)o->memory + o->memory_size >= (uintptr_t)o->memory || invalid(INVALID_MEMORY_WRAPS, o->memory_size);
}

/* Creates the heap as far as the memory decides. Returns NULL if it is too small. */
heap_t *guest_create(const pool_heap_options_t *options);

/* Copies the caller's options, of `size` bytes; NULL: all defaults. Returns false if the size is too small or the caller has
 * set an unknown field. */
bool heap_take_options(pool_heap_options_t *own, const pool_heap_options_t *options, size_t size);

/* Sets what the region of any guest has, and what any heap copies from its options. */
void guest_set_region(heap_t *heap, const pool_heap_options_t *options);
void heap_set_options(heap_t *heap, const pool_heap_options_t *options);

#endif
