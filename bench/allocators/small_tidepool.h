/* SPDX-License-Identifier: MIT
 * A small heap of tidepool, in a buffer or with a budget. */
#include <tidepool.h>

static pool_heap_t *small_heap;

static bool small_heap_make(void *memory, size_t size, bool budget)
{
  pool_heap_options_t in_memory = {.name = "small", .memory = memory, .memory_size = size};
  pool_heap_options_t with_budget = {.name = "small", .budget = size, .flags = POOL_HEAP_DENSE};
  small_heap = pool_heap_create(budget ? &with_budget : &in_memory);
  return small_heap != NULL;
}

static void *small_heap_alloc(size_t size) { return pool_heap_alloc(small_heap, size); }
static void small_heap_free(void *block) { pool_heap_free(small_heap, block); }
static void small_heap_end(void) { pool_heap_destroy(small_heap); }
