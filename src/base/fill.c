/* SPDX-License-Identifier: MIT
 * Fills memory. */
#include "base/fill.h"
#include <string.h>

bool shared_by_loops;

/* The pointer is volatile, because compilers turn a plain loop into a call of memset(). */
void shared_fill_by_loop(void *start, int byte, size_t size)
{
  for (volatile char *at = start; size; at++, size--)
    *at = (char)byte;
}

/* ---- patterns ----
 *
 * The search compares vectors, because memory may be megabytes, and then looks for the byte. */

typedef uint64_t vector_t __attribute__((vector_size(16)));
typedef vector_t anywhere_t __attribute__((aligned(1), may_alias));
typedef uint64_t half_t __attribute__((aligned(1), may_alias));

enum { VECTOR = sizeof(vector_t), HALF = VECTOR / 2, AT_A_TIME = 4 * VECTOR };

static vector_t vector_of(pattern_t pattern)
{
  uint32_t word;
  memcpy(&word, &pattern, sizeof word);
  uint64_t words = (uint64_t)word << 32 | word;
  return (vector_t){words, words};
}

__attribute__((always_inline, no_sanitize("thread"))) static inline bool is_other(const char *at, vector_t vector)
{
  vector_t other = *(const anywhere_t *)at ^ vector;
  return (other[0] | other[1]) != 0;
}

void pattern_fill(void *start, size_t size, pattern_t pattern)
{
  vector_t vector = vector_of(pattern);
  char *at = start;
  for (; size >= VECTOR; size -= VECTOR, at += VECTOR)
    *(anywhere_t *)at = vector;
  memcpy(at, &vector, size);
}

READS_BESIDE_OWNER const char *pattern_find_other(const char *from, const char *to, pattern_t pattern)
{
  vector_t vector = vector_of(pattern);
  const char *at = from;
  for (; to - at >= AT_A_TIME; at += AT_A_TIME) {
    const anywhere_t *seen = (const anywhere_t *)at;
    vector_t other = (seen[0] ^ vector) | (seen[1] ^ vector) | (seen[2] ^ vector) | (seen[3] ^ vector);
    if (unlikely((other[0] | other[1]) != 0))
      break;
  }
  while (to - at >= VECTOR && !is_other(at, vector))
    at += VECTOR;
  if (to - at >= HALF && *(const half_t *)at == vector[0])
    at += HALF; /* not a vector that ends at `to`: its bytes come from two stores, and the load would stall */
  for (; at < to; at++)
    if (unlikely((unsigned char)*at != pattern.bytes[(size_t)(at - from) % PATTERN_BYTES]))
      return at;
  return NULL;
}

static const pattern_t DEAD_PATTERN = {{0x0b, 0xdb, 0xea, 0x1d}}; /* 0x1deadb0b in memory order */

void dead_fill(void *start, size_t size) { pattern_fill(start, size, DEAD_PATTERN); }

const char *dead_find_written(const void *bytes, size_t size)
{
  return pattern_find_other(bytes, (const char *)bytes + size, DEAD_PATTERN);
}
