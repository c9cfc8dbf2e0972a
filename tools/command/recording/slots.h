/* SPDX-License-Identifier: MIT
 *
 * The live blocks of a recording. Each has a slot: the least numbers that are free, so an array of as many as were ever live at
 * once holds what is known of them. A slot is found by the block's address, or by the heap that the block is of. */
#ifndef SLOTS_H
#define SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOT_NONE = UINT32_MAX };

typedef struct place {
  uint64_t address;
  uint32_t slot;
  uint32_t mover; /* the stream whose realloc() has begun with it, from 1 on; 0: none */
} place_t;

typedef struct slotted {
  uint64_t address, size; /* of a live block */
  uint32_t heap;
  uint32_t next, previous; /* live blocks of its heap; of others the next that is free */
} slotted_t;

/* The table of places is one of open addresses, and at most half full. */
typedef struct slots {
  place_t *places;
  size_t place_count; /* a power of two, or 0 */
  slotted_t *slots;
  uint32_t count, room, free, live;
  uint32_t *firsts; /* of each heap the block that came last */
  uint32_t heap_count;
} slots_t;

/* The block's place, which holds until the next change; NULL: there is no block there. */
place_t *slots_find(const slots_t *slots, uint64_t address);

/* A slot for a block where there is none; SLOT_NONE: no memory. */
uint32_t slots_add(slots_t *slots, uint64_t address, uint64_t size, uint32_t heap);

/* The block in the slot is of that heap from now on. False: no memory. */
bool slots_rehome(slots_t *slots, uint32_t slot, uint32_t heap);

/* The place of a block of that heap; NULL: there is none. */
place_t *slots_of_heap(const slots_t *slots, uint32_t heap);

/* Frees the slot of a place, and gives the block's size. */
uint64_t slots_remove(slots_t *slots, place_t *place);

/* The block lies elsewhere now, where there is none. It needs no memory. */
void slots_move(slots_t *slots, place_t *place, uint64_t address);

void slots_finish(slots_t *slots);

#endif
