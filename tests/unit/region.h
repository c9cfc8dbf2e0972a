/* SPDX-License-Identifier: MIT
 * A space of a test's own, in static memory, so that pools and slabs can be had without a heap. */
#ifndef UNIT_REGION_H
#define UNIT_REGION_H

#include "space/space.h"

enum { REGION_BYTES = 24 << 20 };

typedef struct region {
  space_t space;
  arena_t arena;
} region_t;

/* Empties the one region there is and returns it. */
region_t *region_new(size_t bytes);

#endif
