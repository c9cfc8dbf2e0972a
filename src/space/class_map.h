/* SPDX-License-Identifier: MIT
 *
 * The window is the stretch of address space that has all slabs but those in callers' memory. The class map has a byte for each
 * 64 KiB of it: the size class of the blocks there. So free() finds the class by a subtraction, a comparison and a load, and
 * reads nothing near the block.
 *
 * The window is only addresses, chosen at random; memory is mapped there as needed. It is cut into slots of 1 GiB (32 MiB on
 * 32-bit machines), which are opened in order. The map is mapped as far as slots are open. An address outside the open slots is
 * no block of a cached class, so free() takes the slow path, which knows all other blocks.
 *
 *     | heap plane | default plane | metadata      | slot 0 | slot 1 | ... | slots that are not open yet ... |
 *       16 KiB of bytes each for a slot            start             ^ extent
 *
 * A 0 in the map means "take the slow path": a large block, or foreign memory. The default plane has the cached classes of the
 * default heap, the heap plane those of all other heaps. So other heaps' blocks are 0 to pool_free(), at no cost for its fast
 * path.
 *
 *   M1 a byte is a slab's class from before its first block leaves the bin until after its last one is back, else 0. Slabs of
 *      bins without a plane have no bytes. The bytes of a slab change one after the other, under the bin's lock, while all of
 *      its blocks are in the bin */
#ifndef CLASS_MAP_H
#define CLASS_MAP_H

#include "base/bits.h"
#include "base/machine.h"

enum {
  UNIT_LOG2 = 16,    /* the granularity of the map, and the unit of an arena */
  ALIGNMENT_LOG2 = 4 /* of every block */
};
#define UNIT      ((size_t)1 << UNIT_LOG2)
#define SLOT      ((size_t)1 << SLOT_LOG2)
#define MAP_PLANE ((ptrdiff_t)SLOTS_MOST << (SLOT_LOG2 - UNIT_LOG2)) /* the heap plane is this far below the default plane */

/* Every free reads it, so it has a cache line without writes. */
typedef struct window {
  _Alignas(64) uintptr_t start; /* of slot 0 */
  size_t extent;                /* of the open slots, in steps of 16 bytes; 0 until the first is open */
  uint8_t *map;                 /* the default plane */
} window_t;
extern INTERNAL window_t class_window;

/* Chooses the window, once. Returns false if the system has no room for it. */
bool window_init(void);

size_t window_map_bytes(void);

/* Return the number of slots, the number of open slots, and the address of a slot. */
size_t window_slots_most(void);
static inline size_t window_slots_open(void)
{
  return __atomic_load_n(&class_window.extent, __ATOMIC_ACQUIRE) >> (SLOT_LOG2 - ALIGNMENT_LOG2);
}
static inline char *window_slot(size_t slot) { return (char *)(class_window.start + (slot << SLOT_LOG2)); }

/* Opens all slots below `end`, with zeroes in the map. Returns false if there is no memory. Callers serialize it. */
bool window_open(size_t end);

/* Returns the slot of an address, or a number beyond the open slots if it is in none. */
static inline size_t window_slot_of(const void *address) { return ((uintptr_t)address - class_window.start) >> SLOT_LOG2; }

/* Returns the addresses of the metadata, between the map and the slots, with nothing mapped next to them. */
char *window_metadata(size_t *size);

/* Returns the distance of a block from the start, in steps of 16 bytes. The low bits of a misaligned address become the top
 * bits of the result, so that one comparison with the extent rejects such addresses too. */
static inline size_t window_offset(const void *block)
{
  uintptr_t offset = (uintptr_t)block - class_window.start;
  return offset >> ALIGNMENT_LOG2 | offset << (ADDRESS_BITS - ALIGNMENT_LOG2);
}

/* The load is plain, so that the comparison is one instruction. A stale extent is too small, which leads to the slow path. */
static inline bool window_holds(size_t offset)
{
#ifdef UNDER_SANITIZER
  return offset < __atomic_load_n(&class_window.extent, __ATOMIC_RELAXED);
#else
  return offset < class_window.extent;
#endif
}

/* Return the class at an offset within the window's extent. */
static inline size_t class_map_at(size_t offset) { return class_window.map[offset >> (UNIT_LOG2 - ALIGNMENT_LOG2)]; }
static inline size_t class_map_heap_at(size_t offset)
{
  return class_window.map[(ptrdiff_t)(offset >> (UNIT_LOG2 - ALIGNMENT_LOG2)) - MAP_PLANE];
}

/* Return the class for any address, 0 outside the window. */
static inline size_t class_map_of(const void *block)
{
  size_t offset = window_offset(block);
  return likely(window_holds(offset)) ? class_map_at(offset) : 0;
}
static inline size_t class_map_of_heap_block(const void *block)
{
  size_t offset = window_offset(block);
  return likely(window_holds(offset)) ? class_map_heap_at(offset) : 0;
}

void class_map_set(const void *start, size_t units, bool of_default, unsigned size_class);

#endif
