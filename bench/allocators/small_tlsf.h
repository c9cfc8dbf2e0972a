/* SPDX-License-Identifier: MIT
 * TLSF (Matthew Conte's), whose source the user has. It has no budgets. */
#include <tlsf.h>

static tlsf_t small_heap;

static bool small_heap_make(void *memory, size_t size, bool budget)
{
  small_heap = budget ? NULL : tlsf_create_with_pool(memory, size);
  return small_heap != NULL;
}

static void *small_heap_alloc(size_t size) { return tlsf_malloc(small_heap, size); }
static void small_heap_free(void *block) { tlsf_free(small_heap, block); }
static void small_heap_end(void) { tlsf_destroy(small_heap); }
