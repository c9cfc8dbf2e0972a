/* SPDX-License-Identifier: MIT
 *
 * Which arena is in which slot of the window: those of the process's space, and regions of several slots. */
#ifndef SPACE_SLOTS_H
#define SPACE_SLOTS_H

#include "os/lock.h"
#include "space/arena.h"

enum { SLOT_TRIES = 64 }; /* so many slots in which somebody else has mapped something are passed over by one call */

/* Stands for a slot in which an arena is about to be mapped, or in which somebody else's mapping was found. */
#define SLOT_RESERVED ((arena_t *)-1)

/* The lock decides which slots are taken. It is taken inside the lock of any space. An arena is stored with release once it is
 * whole. */
extern lock_t space_slots_lock;
extern INTERNAL arena_t *space_slots[SLOTS_MOST];

/* The arena in a slot of the window, whosever; NULL: none. Those of the process's space stay for ever. */
arena_t *space_arena_at(size_t slot);

/* An arena of the space in so many free slots in a row, which nobody finds before slots_set(): with as many units as there is
 * room for, or with `units`, which are mapped at once. */
taken_t slots_create_arena(struct space *space, size_t units, size_t count, arena_t **arena);
void slots_set(size_t first, size_t count, arena_t *arena);

/* Unmaps it. If the system refuses, it is left for a later try. Under the lock. */
void slots_destroy_arena(arena_t *arena);

/* space_left_bytes() says about how much memory waits for such a try. space_destroy_left() tries all of it, and returns what
 * the system took. */
size_t space_left_bytes(void);
size_t space_destroy_left(void);

/* Returns how many bytes are still mapped of arenas that have ended. */
size_t space_left_mapped(void);

/* Returns how many bytes of arenas that have ended went back to the system, in total. */
uint64_t space_ended_bytes(void);

#endif
