/* SPDX-License-Identifier: MIT
 *
 * tidepool/python.h: an embedded Python on a heap of its own. Include it first, as Python.h wants it.
 *
 *     pool_heap_options_t options = {.name = "python", .budget = 64 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_python_install(heap);                   (before any other call of Python)
 *     ... Py_InitializeFromConfig() ...            (an error: the budget is too small for an interpreter)
 *     ... PyRun_String() ...                       (MemoryError: the heap is exhausted)
 *     Py_FinalizeEx();
 *
 * All three domains come from the heap: raw memory, that of PyMem_Malloc(), and objects, which are not in Python's arenas then.
 * What Python keeps of its configuration comes from the C library, and so does what extension modules get there.
 *
 * Python does not free everything in Py_FinalizeEx(): 3.11 keeps some hundred blocks, which the next interpreter uses. So let
 * the heap outlive the last interpreter of the process, and destroy it, if at all, when Python will not be called again.
 *
 * - Use Py_InitializeFromConfig(): Py_Initialize() ends the program when there is no memory. Let the budget have room for the
 *   start all the same, or set it afterwards. Python 3.11 does not look everywhere whether it got memory while it starts.
 * - PYTHONMALLOC, and PyPreConfig.allocator, replace what was installed. An isolated configuration ignores the environment.
 * - Objects from before the installation end the program with a line of tidepool, "not a block of any heap".
 * - A size of 0 returns a block, also from realloc, as Python demands.
 * - Raw memory is asked for without the interpreter's lock: the heap must not be single-threaded.
 * - A Python without that lock (3.13t) wants its own allocator for objects, and is not for this. */
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
