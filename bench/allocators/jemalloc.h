/* SPDX-License-Identifier: MIT
 * Its malloc and free, not mallocx and dallocx: those skip its fast path and take about twice as long for a pair. */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include "loaded.h"

#define ALLOCATOR_NAME    "jemalloc"
#define OWN_SUBJECTS(X)   X(heaps) X(object_pools)
#define ALLOCATOR_LIBRARY "libjemalloc.so.2"
#define ALLOCATOR_SOURCE  " (Debian package libjemalloc2)"
#define ALLOCATOR_SYMBOLS \
  { \
    "malloc", "calloc", "realloc", "aligned_alloc", "free" \
  }

#define BENCH_HEAPS_HEADER "allocators/jemalloc_heaps.h"

#endif
