/* SPDX-License-Identifier: MIT
 * Any library that has malloc and the like: its name and its path are in the environment. */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include "loaded.h"
#include <stdlib.h>

static inline const char *given(const char *variable)
{
  const char *value = getenv(variable);
  return value ? value : "given";
}

#define ALLOCATOR_NAME    given("BENCH_GIVEN_NAME")
#define ALLOCATOR_LIBRARY given("BENCH_GIVEN_LIBRARY")
#define ALLOCATOR_SOURCE  " (--lib names it)"
#define ALLOCATOR_SYMBOLS \
  { \
    "malloc", "calloc", "realloc", "aligned_alloc", "free" \
  }

#endif
