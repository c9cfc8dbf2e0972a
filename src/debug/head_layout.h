/* SPDX-License-Identifier: MIT
 * The layout of a block's head (head.h), for its writers and for readers outside the process. */
#ifndef HEAD_LAYOUT_H
#define HEAD_LAYOUT_H

#include "debug/sites.h"
#include "heap/debug_hooks.h"

/* The sum reveals a change of the first words. It includes the head's address, so a copied head is invalid. Its low bits are a
 * number that distinguishes uses of the memory. The link has a sum of its own: it changes while others read the head. */
typedef struct head {
  uintptr_t size; /* requested bytes */
  site_t allocated;
  uint32_t freed_and_front; /* the site, and log2 of the distance from head to block */
  uintptr_t usable;         /* bytes from the head on */
  uintptr_t sum;
  uintptr_t next, next_sum; /* once the block was freed */
} head_t;

enum { FRONT_BITS = 32 - SITE_BITS };
#define DEAD_BIT ((uintptr_t)1 << KIND_BITS) /* of the number in the sum, above the kind: the block was freed */

#endif
