/* SPDX-License-Identifier: MIT
 *
 * What the parts of the reader ask of each other. */
#ifndef MAP_READ_H
#define MAP_READ_H

#include "map.h"

/* A pointer of the process, which points nowhere here. */
static inline uint64_t number_of(const volatile void *address) { return (uintptr_t)address; }

/* The region of a heap whose blocks are cut from granules. */
void map_read_granules(map_t *map, memory_t *memory, uint32_t heap);

#endif
