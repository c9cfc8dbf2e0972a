/* SPDX-License-Identifier: MIT
 *
 * Records that several threads share are filled here. The thread sanitizer takes memset() for an access of the thread that
 * calls it, wherever that is, but sees none of the locks of the library: of two threads that clear one record it would say that
 * they race. So there are loops then, which it does not see, in place of the calls. */
#ifndef BASE_SHARED_H
#define BASE_SHARED_H

#include "base/features.h"
#include <stdbool.h>
#include <string.h>

/* Bitmaps stand above this, and what they have for all. */
extern __attribute__((visibility("hidden"))) bool shared_by_loops; /* set before there is a second thread */

__attribute__((noinline, cold)) void shared_fill_by_loop(void *start, int byte, size_t size);

static inline void *shared_fill(void *start, int byte, size_t size)
{
  if (!HAS_SYSTEM || __builtin_expect(!shared_by_loops, 1))
    return memset(start, byte, size);
  shared_fill_by_loop(start, byte, size);
  return start;
}

static inline void *shared_clear(void *start, size_t size) { return shared_fill(start, 0, size); }

#endif
