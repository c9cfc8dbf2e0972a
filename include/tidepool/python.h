/* SPDX-License-Identifier: MIT
 *
 * tidepool/python.h: an embedded Python on a heap of its own. Include it first, as Python.h requires.
 *
 *     pool_heap_options_t options = {.name = "python", .budget = 64 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_python_install(heap);                   (before any other call of Python)
 *     ... Py_InitializeFromConfig() ...            (an error: the budget is too small for an interpreter)
 *     ... PyRun_String() ...                       (MemoryError: the heap is exhausted)
 *     Py_FinalizeEx();
 *
 * All three domains come from the heap: raw memory, PyMem_Malloc(), and objects, which then bypass Python's arenas. Python's
 * configuration comes from the C library, and so does memory that extension modules allocate there.
 *
 * Py_FinalizeEx() does not free everything: 3.11 keeps some hundred blocks for the next interpreter. So destroy the heap only
 * when Python is never called again, or not at all.
 *
 * - Use Py_InitializeFromConfig(): Py_Initialize() ends the program if there is no memory. Leave room in the budget for the
 *   start, or set the budget afterwards: Python 3.11 does not check every allocation while it starts.
 * - PYTHONMALLOC and PyPreConfig.allocator replace the adapter. An isolated configuration ignores the environment.
 * - Freeing an object from before the installation ends the program with the line "not a block of any heap".
 * - A request of size 0 returns a block, also from realloc, as Python requires.
 * - Python requests raw memory without the interpreter's lock: the heap must not be single-threaded.
 * - Python without that lock (3.13t) needs its own allocator for objects: this adapter does not work with it. */
#ifndef TIDEPOOL_PYTHON_H
#define TIDEPOOL_PYTHON_H

#include <Python.h>
#include <tidepool/heap.h>

static inline void *pool_python_malloc(void *heap, size_t size) { return pool_heap_alloc((pool_heap_t *)heap, size); }

static inline void *pool_python_calloc(void *heap, size_t count, size_t size)
{
  return pool_heap_calloc((pool_heap_t *)heap, count, size);
}

static inline void *pool_python_realloc(void *heap, void *block, size_t size)
{
  return block ? pool_realloc(block, size ? size : 1) : pool_python_malloc(heap, size);
}

static inline void pool_python_free(void *heap, void *block)
{
  (void)heap;
  pool_free(block);
}

/* Makes Python allocate from `heap`. */
static inline void pool_python_install(pool_heap_t *heap)
{
  PyMemAllocatorEx allocator = {heap, pool_python_malloc, pool_python_calloc, pool_python_realloc, pool_python_free};
  PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &allocator);
  PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &allocator);
  PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &allocator);
}

#endif
