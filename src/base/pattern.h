/* SPDX-License-Identifier: MIT
 * Memory that has four bytes again and again, so that a byte which somebody else wrote can be found. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum { PATTERN_BYTES = 4 };
typedef struct pattern {
  unsigned char bytes[PATTERN_BYTES];
} pattern_t;

void pattern_fill(void *start, size_t size, pattern_t pattern);

/* The first byte from `from` to `to` that is not the pattern's, which begins at `from`; NULL: there is none. It may read beside
 * a thread that writes. */
const char *pattern_find_other(const char *from, const char *to, pattern_t pattern);

/* The pattern of memory that was freed, 0x1deadb0b as a word: of checked heaps, and of objects of checked pools. The second
 * returns the first byte that was written since. */
void dead_fill(void *start, size_t size);
const char *dead_find_written(const void *bytes, size_t size);
static inline bool is_dead(const void *bytes, size_t size) { return !dead_find_written(bytes, size); }

#endif
