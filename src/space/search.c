/* SPDX-License-Identifier: MIT
 * Chooses the arena for a run, and the arena that grows for it. */
#include "os/os.h"
#include "space/space.h"

/* The longest free stretch of each arena of the process's space; 0 in any other slot. Under that space's lock. */
static uint32_t longest[SLOTS_MOST];

size_t space_longest_in(size_t slot) { return longest[slot]; }

/* A space with an arena of its own has no other to skip, so it needs no entry. */
void space_note_longest(const arena_t *arena)
{
  if (!arena->space->own_arena)
    longest[arena->slot] = (uint32_t)span_longest(&arena->room);
}

void space_count_taken(space_t *space, size_t units, past_t past)
{
  space->used_units += units;
  if (past.mixed)
    space->mixed_units += units;
  space->dirty_units -= past.dirty;
  low_water_note(&space->low_dirty, space->dirty_units);
}

/* On NUMA machines, an arena is for threads of the node that created it, because they touch its pages first. Memory of other
 * nodes is used when the own arenas cannot grow. Slabs belong to bins, so a free block may still reach another node. */
static uint8_t node_of[SLOTS_MOST];
enum { ANY_NODE = 256 };

static unsigned near_node(void) { return likely(!os_has_nodes) ? ANY_NODE : os_node(); }
static bool is_near(size_t slot, unsigned node) { return node == ANY_NODE || node_of[slot] == node; }

/* The slot is set last, because queries may then find the arena. */
static arena_t *new_arena(space_t *space)
{
  arena_t *arena;
  if (slots_create_arena(space, 0, 1, &arena) != TAKEN)
    return NULL;
  arena->huge_pages = space->huge_pages;
  node_of[arena->slot] = (uint8_t)os_node();
  space_note_longest(arena);
  slots_set(arena->slot, 1, arena);
  return arena;
}

/* The longest stretch is updated after a refusal too, because the arena may have been cut. */
__attribute__((always_inline)) static inline taken_t take_from(arena_t *arena, size_t units, size_t alignment, bool may_grow,
                                                               run_t **run)
{
  past_t past;
  taken_t taken = may_grow ? arena_take(arena, units, alignment, run, &past)
                           : arena_take_below(arena, arena->committed, units, alignment, run, &past);
  if (taken == TAKEN)
    space_count_taken(arena->space, units, past);
  space_note_longest(arena);
  return taken;
}

__attribute__((always_inline)) static inline taken_t search_arenas(size_t units, size_t alignment, bool may_grow, unsigned node,
                                                                   run_t **run)
{
  taken_t result = NO_ROOM;
  for (size_t slot = 0, open = window_slots_open(); slot < open; slot++) {
    if (longest[slot] < units || !is_near(slot, node))
      continue;
    taken_t taken = take_from(space_slots[slot], units, alignment, may_grow, run);
    if (taken == TAKEN)
      return TAKEN;
    result = taken == NO_MEMORY ? NO_MEMORY : result;
  }
  return result;
}

/* A new arena helps if there was no room, but not if the system is out of memory. Several are tried, because other mappings may
 * be in the way. If there can be no new arena, those of other nodes serve. */
NOINLINE static run_t *search_further(space_t *space, size_t units, size_t alignment)
{
  run_t *run = NULL;
  unsigned node = near_node();
  taken_t taken = search_arenas(units, alignment, true, node, &run);
  for (int tries = 0; tries < SLOT_TRIES && taken == NO_ROOM; tries++) {
    arena_t *arena = new_arena(space);
    taken = arena ? take_from(arena, units, alignment, true, &run) : NO_MEMORY;
  }
  if (taken == TAKEN || (taken == NO_MEMORY && node == ANY_NODE)) /* every arena has been tried */
    return run;
  return search_arenas(units, alignment, true, ANY_NODE, &run) == TAKEN ? run : NULL;
}

run_t *space_search(space_t *space, size_t units, size_t alignment)
{
  run_t *run = NULL;
  if (space->own_arena)
    return take_from(space->own_arena, units, alignment, true, &run) == TAKEN ? run : NULL;
  if (search_arenas(units, alignment, false, near_node(), &run) == TAKEN)
    return run;
  return search_further(space, units, alignment);
}
