/* SPDX-License-Identifier: MIT */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include "loaded.h"

#define ALLOCATOR_NAME    "tcmalloc"
#define ALLOCATOR_LIBRARY "libtcmalloc_minimal.so.4"
#define ALLOCATOR_SOURCE  " (Debian package libtcmalloc-minimal4)"
#define ALLOCATOR_SYMBOLS \
  { \
    "tc_malloc", "tc_calloc", "tc_realloc", "tc_memalign", "tc_free" \
  }

#endif
