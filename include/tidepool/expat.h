/* SPDX-License-Identifier: MIT
 *
 * tidepool/expat.h: expat parsers on heaps. expat passes its memory functions no context, so each thread has a current heap for
 * its parsers:
 *
 *     pool_heap_t *before = pool_expat_use(heap);
 *     XML_Parser parser = XML_ParserCreate_MM(NULL, pool_expat_suite(), NULL);
 *     ... XML_Parse() ...                          (XML_ERROR_NO_MEMORY: the heap is exhausted)
 *     pool_expat_use(before);
 *     pool_heap_destroy(heap);                     (instead of XML_ParserFree)
 *
 * Every call that may allocate for a parser belongs between the two calls of pool_expat_use(), XML_ParserCreate_MM() and
 * XML_Parse() above all. Without a heap it fails. Blocks are resized and freed in the heap that they came from, by
 * pool_realloc() and pool_free(). So the heap's `memory` must not be in a block of up to 32 KiB of the default heap.
 *
 * The current heap is a variable of the source file that includes this: use parsers in one file of the program. */
#ifndef TIDEPOOL_EXPAT_H
#define TIDEPOOL_EXPAT_H

#include <expat.h>
#include <tidepool/heap.h>

static __thread pool_heap_t *pool_expat_heap;

/* Makes `heap` the calling thread's current heap. Returns the one before, which is NULL at first. */
static inline pool_heap_t *pool_expat_use(pool_heap_t *heap)
{
  pool_heap_t *before = pool_expat_heap;
  pool_expat_heap = heap;
  return before;
}

static inline void *pool_expat_alloc(size_t size) { return pool_heap_alloc(pool_expat_heap, size); }

static inline void *pool_expat_realloc(void *block, size_t size)
{
  return block ? pool_realloc(block, size) : pool_expat_alloc(size);
}

/* Returns the functions for XML_ParserCreate_MM(). */
static inline const XML_Memory_Handling_Suite *pool_expat_suite(void)
{
  static const XML_Memory_Handling_Suite suite = {pool_expat_alloc, pool_expat_realloc, pool_free};
  return &suite;
}

#endif
