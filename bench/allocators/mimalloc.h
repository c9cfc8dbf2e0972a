/* SPDX-License-Identifier: MIT */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include "loaded.h"

#define ALLOCATOR_NAME    "mimalloc"
#define ALLOCATOR_LIBRARY "libmimalloc.so.2"
#define ALLOCATOR_SOURCE  " (Debian package libmimalloc2.0)"
#define ALLOCATOR_SYMBOLS \
  { \
    "mi_malloc", "mi_calloc", "mi_realloc", "mi_memalign", "mi_free" \
  }

#define OWN_SUBJECTS(X)    X(heaps)
#define BENCH_HEAPS_HEADER "allocators/mimalloc_heaps.h"

#endif
