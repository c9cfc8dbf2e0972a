/* SPDX-License-Identifier: MIT
 *
 * What a checked heap writes around and into blocks to find misuse:
 *
 *     | requested bytes: 0xcd at first | canary | trailer |         live
 *     | 0x1deadb0b, again and again             | trailer |         returned, until it is given out again
 *
 * The trailer keeps the requested size, also of a returned block: the canary starts right behind what the caller asked for, and
 * a message says what that was. Where blocks are cut from granules the next one may begin anywhere in returned memory, so there
 * a trailer is looked for in each 16 bytes. */
#ifndef GUARD_H
#define GUARD_H

#include "base/bits.h"

struct pool_heap;

enum { GUARD_BYTES = 16 }; /* more than the caller asked for */

/* The size of a block for a request of `size`; one that is too large for any stays so. */
static inline size_t guarded_size(size_t size) { return size < SIZE_MAX - GUARD_BYTES ? size + GUARD_BYTES : SIZE_MAX; }

/* A block, what holds it, and whose: a message names the call that found the damage, and the heap. */
typedef struct guarded {
  void *block;
  size_t usable;
  const struct pool_heap *heap;
  const char *call;
  bool in_granules; /* once it is returned its memory is of no block: the next may begin and end anywhere in it */
} guarded_t;

/* It goes out for a request of `size`. `was_returned`: it went through guard_close before. */
void guard_open(guarded_t at, size_t size, bool was_returned);

/* It has only `size` bytes from now on, fewer than before: checks the canary, and puts one there. */
void guard_shorten(guarded_t at, size_t size);

/* It comes back: checks the canary, fills it. */
void guard_close(guarded_t at);

/* Whether GUARD_BYTES of returned memory of granules, at a multiple of them, are what a block leaves: the pattern, or a
 * trailer. */
bool guard_is_dead(const void *bytes);

/* Writes the pattern of returned memory. */
void guard_fill(void *start, size_t size);

/* The requested size of a live block. */
size_t guard_size(const void *block, size_t usable);

/* What was requested of a block that came back; `usable` if its trailer does not tell. */
size_t guard_size_before(const void *block, size_t usable);

#endif
