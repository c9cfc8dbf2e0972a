/* SPDX-License-Identifier: MIT
 * The arenas in the slots of the window: those of the process's space, and regions of several slots. */
#ifndef SPACE_SLOTS_H
#define SPACE_SLOTS_H

#include "os/lock.h"
#include "space/arena.h"

enum { SLOT_TRIES = 64 }; /* slots with foreign mappings that one call skips */

/* A slot in which an arena is about to be mapped, or in which a foreign mapping was found. */
#define SLOT_RESERVED ((arena_t *)-1)

/* Decides which slots are taken; taken inside the lock of any space. Complete arenas are stored with release. */
extern lock_t space_slots_lock;
extern INTERNAL arena_t *space_slots[SLOTS_MOST];

/* Returns the arena in a slot of the window, of any space, or NULL. Arenas of the process's space stay forever. */
arena_t *space_arena_at(size_t slot);
static inline arena_t *space_arena_around(const void *address) { return space_arena_at(window_slot_of(address)); }

/* Creates an arena of the space in `count` consecutive free slots, which no query finds before slots_set(). `units` 0 means as
 * many as fit; otherwise all `units` are mapped at once. */
taken_t slots_create_arena(struct space *space, size_t units, size_t count, arena_t **arena);
void slots_set(size_t first, size_t count, arena_t *arena);

/* Unmaps the arena. If the system refuses, it is left for a later attempt. Called under the lock. */
void slots_destroy_arena(arena_t *arena);

/* Return about how much memory of ended arenas is left, and retry to unmap it. space_destroy_left() returns its bytes. */
size_t space_left_bytes(void);
size_t space_destroy_left(void);

/* Returns the bytes of ended arenas that are still mapped. */
size_t space_left_mapped(void);

/* Returns the bytes of ended arenas that were returned to the system in total. */
uint64_t space_ended_bytes(void);

#endif
