/* SPDX-License-Identifier: MIT
 * There are none: a subsystem keeps track of its blocks and frees each. */
#ifndef BENCH_MALLOC_HEAPS_H
#define BENCH_MALLOC_HEAPS_H

typedef void *bench_heap_t;

static inline bench_heap_t bench_heap_make(void) { return NULL; }

#define bench_heap_alloc(heap, size) malloc(size)
#define bench_heap_free(heap, block) free(block)

static inline void bench_heap_destroy(bench_heap_t heap, void **blocks, size_t count)
{
  (void)heap;
  for (size_t i = 0; i < count; i++)
    free(blocks[i]);
}

static inline bench_heap_t bench_heap_reset(bench_heap_t heap, void **blocks, size_t count)
{
  bench_heap_destroy(heap, blocks, count);
  return heap;
}

#endif
