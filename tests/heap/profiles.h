/* SPDX-License-Identifier: MIT
 * What the tests of profiles share: a profile as it is written, line by line. */
#ifndef PROFILES_H
#define PROFILES_H

#include "heaps.h"

typedef struct profile_sums {
  double live_blocks, live_bytes, blocks, bytes; /* estimates, from the lines of one function; or from all */
  size_t lines;
  uint64_t in_profile; /* live blocks that are in it */
} profile_sums_t;

/* What a profile says, of one heap or of all (NULL), about blocks that were allocated within `function`; NULL: in any place. It
 * is looked for in the innermost frames. */
profile_sums_t profile_of(pool_heap_t *heap, const char *function);

/* Places where blocks come from. */
void *small_here(size_t size);
void *zeroed_here(size_t size);
void *of_heap_here(pool_heap_t *heap, size_t size);
void *grown_here(void *block, size_t size);

/* The compiler must not see through such a call, nor make a jump of its last one. */
#define OPAQUE __attribute__((noinline, noclone))
extern _Thread_local volatile int calls;

/* Six times the standard deviation of a sum of `n` blocks that are in a profile. */
void assert_near(double estimate, double truth, double n);

/* A profile begins, and knows of nothing yet. */
void begin(uint64_t sample_bytes);

#endif
