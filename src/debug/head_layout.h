/* SPDX-License-Identifier: MIT
 *
 * The head of a block (guard.h), as those know it who write it, and those who read it from outside of the process. */
#ifndef HEAD_LAYOUT_H
#define HEAD_LAYOUT_H

#include "debug/sites.h"
#include "heap/kinds.h"

/* A change of the first words is seen by the sum, which has the address in it too: a head that was copied is none. Its low
 * bits are a number by which one time of a block is told from another. The link has a sum of its own, so that it can be changed
 * beside a reader. */
typedef struct head {
  uintptr_t size; /* what was asked for */
  site_t allocated;
  uint32_t freed_and_front; /* the site, and as a power of two how far it is from the head to the block */
  uintptr_t usable;         /* what there is from the head on */
  uintptr_t sum;
  uintptr_t next, next_sum; /* once it came back */
} head_t;

enum { FRONT_BITS = 32 - SITE_BITS };
#define DEAD_BIT ((uintptr_t)1 << KIND_BITS) /* of the number in the sum, behind the kind: the block came back */

#endif
