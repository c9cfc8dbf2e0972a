/* SPDX-License-Identifier: MIT
 *
 * Memory filled with a repeated pattern of four bytes, so that a stray write can be found. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>

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
