/* SPDX-License-Identifier: MIT
 *
 * tidepool/gmp.h: all of GMP's memory on one heap. GMP has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "numbers", .budget = 64 << 20, .on_exhausted = make_room};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_gmp_install(heap);                      (before any other call of GMP)
 *     ...
 *     mpz_clear(number);
 *     pool_heap_destroy(heap);
 *
 * GMP cannot handle a failed allocation, and must not be left by longjmp(). If the heap is exhausted, and neither on_exhausted
 * nor the overflow heap helps, the program ends with a line and abort(), as with GMP's own allocator. If somebody else chooses
 * the size of the numbers, bound it, or compute in a child process.
 *
 * GMP does not check that it is unused: see hooks.h for a late installation. Free a string of mpz_get_str() with pool_free().
 * GMP keeps no memory of its own. Other libraries of the program may use GMP, such as GnuTLS: their numbers are on the heap,
 * too. */
#ifndef TIDEPOOL_GMP_H
#define TIDEPOOL_GMP_H

#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <tidepool/hooks.h>

POOL_HOOKS(gmp)

static inline void *pool_gmp_must_have(void *block, size_t size)
{
  if (!block) {
    fprintf(stderr, "GNU MP: the heap %s has no %lu bytes\n", pool_gmp_heap ? pool_heap_name(pool_gmp_heap) : "",
            (unsigned long)size);
    abort();
  }
  return block;
}

static inline void *pool_gmp_allocate(size_t size) { return pool_gmp_must_have(pool_gmp_malloc(size), size); }

static inline void *pool_gmp_reallocate(void *block, size_t had, size_t size)
{
  (void)had;
  return pool_gmp_must_have(pool_gmp_realloc(block, size ? size : 1), size);
}

static inline void pool_gmp_free_sized(void *block, size_t size)
{
  (void)size;
  pool_gmp_free(block);
}

/* Makes GMP allocate from `heap`. */
static inline void pool_gmp_install(pool_heap_t *heap)
{
  pool_gmp_heap = heap;
  mp_set_memory_functions(pool_gmp_allocate, pool_gmp_reallocate, pool_gmp_free_sized);
}

#endif
