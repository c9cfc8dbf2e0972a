/* SPDX-License-Identifier: MIT
 *
 * Where an arena has room for a run. Under the lock of the arena's space. */
#ifndef ROOM_H
#define ROOM_H

#include "space/arena.h"

/* Returns the lowest unit at which `units` units are free, and whose address is a multiple of `alignment` units; SPAN_NONE if
 * there is none. */
size_t arena_room_for(const arena_t *arena, size_t units, size_t alignment);

/* Finds the lowest such unit below `end` where all units are mapped. It looks at each free stretch, so it is for an arena for
 * which the system maps no more. */
size_t arena_mapped_room_for(const arena_t *arena, size_t end, size_t units, size_t alignment);

#endif
