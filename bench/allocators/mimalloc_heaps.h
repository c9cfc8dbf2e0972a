/* SPDX-License-Identifier: MIT
 * A heap of mimalloc is one thread's; there is no reset, only destroying it and making another. */
#ifndef BENCH_MIMALLOC_HEAPS_H
#define BENCH_MIMALLOC_HEAPS_H

typedef void *bench_heap_t;

static struct {
  void *(*make)(void);
  void *(*alloc)(void *heap, size_t size);
  void (*destroy)(void *heap);
} heaps_loaded;

static inline bench_heap_t bench_heap_make(void)
{
  if (!heaps_loaded.make) {
    *(void **)&heaps_loaded.alloc = loaded_symbol("mi_heap_malloc");
    *(void **)&heaps_loaded.destroy = loaded_symbol("mi_heap_destroy");
    *(void **)&heaps_loaded.make = loaded_symbol("mi_heap_new");
  }
  void *heap = heaps_loaded.make();
  return heap ? heap : (bench_out_of_memory(), NULL);
}

#define bench_heap_alloc(heap, size) heaps_loaded.alloc(heap, size)
#define bench_heap_free(heap, block) bench_free(block)

static inline void bench_heap_destroy(bench_heap_t heap, void **blocks, size_t count)
{
  (void)blocks, (void)count;
  heaps_loaded.destroy(heap);
}

static inline bench_heap_t bench_heap_reset(bench_heap_t heap, void **blocks, size_t count)
{
  bench_heap_destroy(heap, blocks, count);
  return bench_heap_make();
}

#endif
