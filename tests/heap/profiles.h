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

#endif
