/* SPDX-License-Identifier: MIT
 *
 * The class map: one byte for each 64 KiB of address space says which size class the blocks there are of, so that free()
 * finds the class of any pointer with one shift and one load, and reads nothing near the block.
 *
 * 0 means "ask the slow path": NULL, a large block, no memory of ours. Two planes of the map stand one above the other: the
 * front plane holds the cached classes of the default heap, the heap plane those of every other heap, so that a block of
 * another heap is 0 to pool_free() and the default path pays nothing for heaps.
 *
 * The map is reserved whole (4 GiB of addresses) and readable from the start as zeroes, which costs neither memory nor commit
 * charge; the pages that describe an arena are made writable with it. Where so much address space is refused (ulimit -v)
 * the map covers a window of low addresses only, and arenas are placed inside the window. A pointer above the window that
 * was never a block may then end the program with a fault instead of a message. */
#ifndef CLASS_MAP_H
#define CLASS_MAP_H

#include "base/bits.h"

enum {
  UNIT_LOG2 = 16,                                 /* the map's grain, and the unit of an arena */
  ADDRESS_LOG2 = 47,
  MAP_LOG2 = ADDRESS_LOG2 - UNIT_LOG2,
  WINDOW_ADDRESS_LOG2 = 36,
  WINDOW_LOG2 = WINDOW_ADDRESS_LOG2 - UNIT_LOG2
};
#define UNIT ((size_t)1 << UNIT_LOG2)
#define MAP_PLANE ((ptrdiff_t)1 << MAP_LOG2)      /* the heap plane is this far below the front plane */

/* The front plane. Before class_map_init() it is a stub that is readable for NULL. */
extern INTERNAL uint8_t *class_map;

/* Once. False: not even the window could be had. `windowed` says which it is. */
bool class_map_init(void);
extern bool class_map_windowed;

/* Makes the bytes for [start, start+size) writable, in both planes. */
bool class_map_open(const void *start, size_t size);

/* Any address: outside the map is 0. */
unsigned class_map_front(const void *address);
unsigned class_map_heap(const void *address);

static inline size_t class_map_of(const void *block) { return class_map[(uintptr_t)block >> UNIT_LOG2]; }
static inline size_t class_map_of_heap_block(const void *block)
{
  return class_map[(ptrdiff_t)((uintptr_t)block >> UNIT_LOG2) - MAP_PLANE];
}

/* M1 a byte is a slab's class from before its first block leaves the pool until after its last one is back, else 0. */
void class_map_set(const void *start, size_t units, bool front, unsigned size_class);

#endif
