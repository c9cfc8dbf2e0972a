/* SPDX-License-Identifier: MIT
 *
 * What a checked heap writes around and into blocks to find misuse:
 *
 *     | requested bytes: 0xcd at first | canary | trailer |         live
 *     | 0x1deadb0b, again and again             | trailer |         returned, until it is given out again
 *
 * The trailer keeps the requested size, so that the canary starts right behind what the caller asked for. */
#ifndef GUARD_H
#define GUARD_H

#include "base/bits.h"

enum { GUARD_BYTES = 16 }; /* more than the caller asked for */

/* The size of a block for a request of `size`; one that is too large for any stays so. */
static inline size_t guarded_size(size_t size) { return size < SIZE_MAX - GUARD_BYTES ? size + GUARD_BYTES : SIZE_MAX; }

/* A block of `usable` bytes goes out for a request of `size`. `was_returned`: it went through guard_close before. */
void guard_open(void *block, size_t usable, size_t size, bool was_returned, const char *call);

/* It has only `size` bytes from now on, fewer than before: checks the canary, and puts one there. */
void guard_shorten(void *block, size_t usable, size_t size, const char *call);

/* It comes back: checks the canary, fills it. `call` is named in the message that ends the program. */
void guard_close(void *block, size_t usable, const char *call);

/* The requested size of a live block. */
size_t guard_size(const void *block, size_t usable);

#endif
