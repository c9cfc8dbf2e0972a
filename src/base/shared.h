/* SPDX-License-Identifier: MIT
 *
 * Functions to fill records that several threads share. The thread sanitizer intercepts memset() wherever it is called, but
 * does not see the library's locks. It would report a race between two threads that clear a record under a lock. So the library
 * fills records by loops under the thread sanitizer, which does not see them. */
#ifndef BASE_SHARED_H
#define BASE_SHARED_H

#include "base/features.h"
#include "base/machine.h"
#include <stdbool.h>
#include <string.h>

/* This header is below bits.h, so it cannot use COLD and unlikely(). */
extern INTERNAL bool shared_by_loops; /* set before a second thread starts */

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
