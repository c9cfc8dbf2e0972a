/* SPDX-License-Identifier: MIT
 * A heap of jemalloc is an arena, with a cache of its own for the thread: without one a pair takes several times as long. */
#ifndef BENCH_JEMALLOC_HEAPS_H
#define BENCH_JEMALLOC_HEAPS_H

#include <stdio.h>

typedef struct bench_heap {
  unsigned arena, cache;
  int flags;
} bench_heap_t;

static struct {
  int (*control)(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
  void *(*alloc)(size_t size, int flags);
  void (*free)(void *block, int flags);
} heaps_loaded;

/* As MALLOCX_ARENA and MALLOCX_TCACHE of its header. */
static inline int heaps_flags(unsigned arena, unsigned cache) { return (int)((arena + 1) << 20 | (cache + 2) << 8); }

static inline void heaps_control(const char *name, unsigned *made, unsigned *of)
{
  size_t size = sizeof *made;
  if (heaps_loaded.control(name, made, made ? &size : NULL, of, of ? sizeof *of : 0) != 0)
    bench_out_of_memory();
}

static inline bench_heap_t bench_heap_make(void)
{
  if (!heaps_loaded.control) {
    *(void **)&heaps_loaded.alloc = loaded_symbol("mallocx");
    *(void **)&heaps_loaded.free = loaded_symbol("dallocx");
    *(void **)&heaps_loaded.control = loaded_symbol("mallctl");
  }
  bench_heap_t heap;
  heaps_control("arenas.create", &heap.arena, NULL);
  heaps_control("tcache.create", &heap.cache, NULL);
  heap.flags = heaps_flags(heap.arena, heap.cache);
  return heap;
}

#define bench_heap_alloc(heap, size) heaps_loaded.alloc(size, (heap).flags)
#define bench_heap_free(heap, block) heaps_loaded.free(block, (heap).flags)

static inline void heaps_arena(bench_heap_t heap, const char *what)
{
  char name[64];
  snprintf(name, sizeof name, "arena.%u.%s", heap.arena, what);
  heaps_control(name, NULL, NULL);
}

static inline void bench_heap_destroy(bench_heap_t heap, void **blocks, size_t count)
{
  (void)blocks, (void)count;
  heaps_control("tcache.destroy", NULL, &heap.cache);
  heaps_arena(heap, "destroy");
}

static inline bench_heap_t bench_heap_reset(bench_heap_t heap, void **blocks, size_t count)
{
  (void)blocks, (void)count;
  heaps_control("tcache.flush", NULL, &heap.cache);
  heaps_arena(heap, "reset");
  return heap;
}

#endif
