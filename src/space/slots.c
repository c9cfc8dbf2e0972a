/* SPDX-License-Identifier: MIT
 *
 * A slot goes from free to reserved under space_slots_lock, and then to its arena once that is complete. The slots of a region
 * that ends are reserved again first, so that no query finds it, and become free when it is unmapped. */
#include "os/os.h"
#include "space/arena.h"
#include "space/space.h"

enum { PROCESS_SLOTS_SHARE = 4 }; /* this part of the slots is reserved for the process's own arenas */

/* Stored with release once the arena is complete; queries for any address read it with acquire. */
TOUCHED_AT_START arena_t *space_slots[SLOTS_MOST];
lock_t space_slots_lock;

/* A reserved slot has no arena yet, or never will. */
arena_t *space_arena_at(size_t slot)
{
  arena_t *arena = slot < window_slots_open() ? __atomic_load_n(&space_slots[slot], __ATOMIC_ACQUIRE) : NULL;
  return arena == SLOT_RESERVED ? NULL : arena;
}

void slots_set(size_t first, size_t count, arena_t *arena)
{
  for (size_t i = first; i < first + count; i++)
    __atomic_store_n(&space_slots[i], arena, __ATOMIC_RELEASE);
}

/* Regions leave the highest slots to the process. Otherwise heaps with a reserve could take all, and malloc would fail. */
static size_t slots_for(bool region)
{
  size_t most = window_slots_most();
  return region ? most - most / PROCESS_SLOTS_SHARE : most;
}

/* Opens and reserves `count` consecutive free slots; returns the first, or SLOTS_MOST. The lock serializes the opening. */
static size_t reserve_slots(size_t count, bool region)
{
  size_t first = 0, most = slots_for(region);
  LOCKED(&space_slots_lock);
  for (size_t i = 0, open = min_size(window_slots_open(), most); i < open && i < first + count; i++)
    if (__atomic_load_n(&space_slots[i], __ATOMIC_ACQUIRE)) /* a region that ends empties its slots without the lock */
      first = i + 1;
  /* Slots beyond the open ones are free, and are opened now. */
  bool found = count <= most && first <= most - count && window_open(first + count);
  if (found)
    slots_set(first, count, SLOT_RESERVED);
  return found ? first : SLOTS_MOST;
}

/* ---- ended arenas that the system refused to unmap: their slots are not free yet ---- */

static arena_t *left_first; /* under space_slots_lock */
static size_t left_bytes;
static uint64_t ended_bytes;

size_t space_left_bytes(void) { return __atomic_load_n(&left_bytes, __ATOMIC_RELAXED); }

uint64_t space_ended_bytes(void) { return __atomic_load_n(&ended_bytes, __ATOMIC_RELAXED); }

static void count_left(size_t by) { __atomic_store_n(&left_bytes, left_bytes + by, __ATOMIC_RELAXED); }

/* The lock is held during the system call, so that a fork finds the arena destroyed or unchanged. */
void slots_destroy_arena(arena_t *arena)
{
  size_t slot = arena->slot, count = arena->slots, held = arena_left(arena);
  bool gone = arena_destroy(arena);
  __atomic_store_n(&ended_bytes, ended_bytes + held - (gone ? 0 : arena_left(arena)), __ATOMIC_RELAXED);
  if (gone) {
    slots_set(slot, count, NULL);
    return;
  }
  arena->next_left = left_first;
  left_first = arena;
  count_left(arena_left(arena));
}

/* Takes the whole list first. An arena that is refused again enters the new list, and is not tried twice. */
size_t space_destroy_left(void)
{
  if (!space_left_bytes())
    return 0;
  LOCKED(&space_slots_lock);
  arena_t *arena = left_first;
  size_t before = left_bytes;
  left_first = NULL;
  count_left(-before);
  for (arena_t *next; arena; arena = next) {
    next = arena->next_left;
    slots_destroy_arena(arena);
  }
  return before - left_bytes;
}

size_t space_left_mapped(void)
{
  size_t bytes = 0;
  LOCKED(&space_slots_lock);
  for (const arena_t *arena = left_first; arena; arena = arena->next_left)
    bytes += arena_mapped_bytes(arena);
  return bytes;
}

/* ---- new arenas ---- */

/* Makes an arena in reserved slots. If something else is mapped there, the slots stay reserved for good, so that later arenas
 * do not try them again. If only memory is short, they become free. */
static taken_t create_at(struct space *space, size_t slot, size_t count, size_t units, arena_t **arena)
{
  taken_t made = arena_create(space, slot, units, arena), taken = made == TAKEN && units ? arena_commit_all(*arena) : made;
  if (taken == TAKEN)
    return TAKEN;
  LOCKED(&space_slots_lock);
  if (made == TAKEN)
    slots_destroy_arena(*arena);
  if (taken == NO_ROOM || made != TAKEN)
    slots_set(slot, count, taken == NO_ROOM ? SLOT_RESERVED : NULL);
  return taken;
}

/* Each attempt uses other slots: slots with foreign mappings stay reserved. */
taken_t slots_create_arena(struct space *space, size_t units, size_t count, arena_t **arena)
{
  taken_t taken = NO_ROOM;
  for (int tries = 0; tries < SLOT_TRIES && taken == NO_ROOM; tries++) {
    size_t slot = reserve_slots(count, units != 0);
    if (slot == SLOTS_MOST)
      return NO_MEMORY;
    taken = create_at(space, slot, count, units, arena);
  }
  return taken;
}
