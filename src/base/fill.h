/* SPDX-License-Identifier: MIT
 * Fills memory that several threads share, and memory in which a stray write is to be found. */
#ifndef BASE_FILL_H
#define BASE_FILL_H

#include "base/machine.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ---- shared records ----
 *
 * Functions to fill records that several threads share. The thread sanitizer intercepts memset() wherever it is called, but
 * does not see the library's locks. It would report a race between two threads that clear a record under a lock. So the library
 * fills records by loops under the thread sanitizer, which does not see them. */

extern INTERNAL bool shared_by_loops; /* set before a second thread starts */

COLD void shared_fill_by_loop(void *start, int byte, size_t size);

static inline void *shared_fill(void *start, int byte, size_t size)
{
  if (!HAS_SYSTEM || likely(!shared_by_loops))
    return memset(start, byte, size);
  shared_fill_by_loop(start, byte, size);
  return start;
}

static inline void *shared_clear(void *start, size_t size) { return shared_fill(start, 0, size); }

/* ---- patterns ----
 *
 * Memory filled with a repeated pattern of four bytes, so that a stray write can be found. */

enum { PATTERN_BYTES = 4 };
typedef struct pattern {
  unsigned char bytes[PATTERN_BYTES];
} pattern_t;

void pattern_fill(void *start, size_t size, pattern_t pattern);

/* Returns the first byte in [from, to) that differs from the pattern, or NULL. Other threads may write meanwhile. */
const char *pattern_find_other(const char *from, const char *to, pattern_t pattern);

/* The pattern of freed memory of checked heaps and of free objects of checked pools: 0x1deadb0b as a word. dead_find_written()
 * returns the first byte that was written since dead_fill(); NULL if there is none. */
void dead_fill(void *start, size_t size);
const char *dead_find_written(const void *bytes, size_t size);
static inline bool is_dead(const void *bytes, size_t size) { return !dead_find_written(bytes, size); }

#endif
