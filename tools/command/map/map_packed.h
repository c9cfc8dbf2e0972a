/* SPDX-License-Identifier: MIT
 *
 * The places of a map as bytes, which the script of the page reads. Numbers have seven bits in a byte, the lowest first, and
 * the highest bit where more follow. A place is
 *
 *     units since the one before, units, kind (and 16 if it is changing), row and 1, start / 4096 if it is a mapping,
 *     of one with blocks: capacity, fresh, free, cached, bytes of its states, states
 *     of a large block: its size
 *     blocks of which more is known, bytes of those, and for each: number since the one before, size, age in ms and 1, site and
 * 1; a 0 in the place of one of the last two says that it is not known
 *
 * The states of blocks up to the fresh mark are a 0 and runs of them (length * 4 + state) or a 1 and two bits for each,
 * whichever takes less. They are left out where all are the same, and where the page has had enough of them. */
#ifndef MAP_PACKED_H
#define MAP_PACKED_H

#include "map.h"
#include "show/callers.h"

typedef struct packed {
  unsigned char *bytes;
  size_t count, room;
  uint32_t *sites, *names;     /* those of the callers that are in it, in the order of their numbers there */
  uint32_t *site_at, *name_at; /* and the numbers there of all; MAP_NONE: it is not in it */
  size_t site_count, name_count;
  size_t states_left, known_left; /* bytes that these may still take */
} packed_t;

packed_t pack(const map_t *map, const callers_t *callers);
void packed_finish(packed_t *packed);

#endif
