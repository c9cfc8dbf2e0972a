/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TIDEPOOL_HEAPS_H
#define BENCH_TIDEPOOL_HEAPS_H

#include <tidepool/heap.h>

#define BENCH_HEAPS_HAVE_BUDGETS

typedef pool_heap_t *bench_heap_t;

static inline bench_heap_t bench_heap_make(void)
{
  pool_heap_t *heap = pool_heap_create(NULL);
  return heap ? heap : (bench_out_of_memory(), NULL);
}

#define bench_heap_alloc pool_heap_alloc
#define bench_heap_free  pool_heap_free

static inline void bench_heap_destroy(bench_heap_t heap, void **blocks, size_t count)
{
  (void)blocks, (void)count;
  pool_heap_destroy(heap);
}

static inline bench_heap_t bench_heap_reset(bench_heap_t heap, void **blocks, size_t count)
{
  (void)blocks, (void)count;
  pool_heap_reset(heap);
  return heap;
}

#endif
