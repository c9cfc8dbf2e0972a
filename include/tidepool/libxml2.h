/* SPDX-License-Identifier: MIT
 *
 * tidepool/libxml2.h: all of libxml2's memory on one heap. libxml2 has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "xml", .budget = 16 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_libxml2_install(heap);                  (before any other call of libxml2)
 *     ... xmlReadMemory() ...                      (NULL and XML_ERR_NO_MEMORY: the heap is exhausted)
 *     xmlFreeDoc(document);
 *     xmlCleanupParser();
 *     pool_heap_destroy(heap);
 *
 * libxml2 does not check that it is unused: see hooks.h for a late installation. xmlFree(), for strings that libxml2 returns,
 * is then pool_free(). Each thread keeps a copy of its last error until it ends or calls xmlResetLastError(). So end the
 * threads that used libxml2 before you destroy the heap, which must not be single-threaded unless only one thread uses libxml2.
 * Not every error path of libxml2 frees everything: blocks of a refused document may remain in the heap. */
#ifndef TIDEPOOL_LIBXML2_H
#define TIDEPOOL_LIBXML2_H

#include <libxml/xmlmemory.h>
#include <tidepool/hooks.h>

POOL_HOOKS(libxml2)

/* Makes libxml2 allocate from `heap`. Returns 0, or -1 for NULL. */
static inline int pool_libxml2_install(pool_heap_t *heap)
{
  if (!heap)
    return -1;
  pool_libxml2_heap = heap;
  return xmlMemSetup(pool_libxml2_free, pool_libxml2_malloc, pool_libxml2_realloc, pool_libxml2_strdup);
}

#endif
