/* SPDX-License-Identifier: MIT
 * In which arena a run is taken, and which arena grows for it. */
#include "option.h"
#include "os/os.h"
#include "space/huge_edge.h"
#include "space/space.h"

/* The longest free stretch of each arena of the process's space; 0 in any other slot. Under that space's lock. */
static uint32_t longest[SLOTS_MOST];

size_t space_longest_in(size_t slot) { return longest[slot]; }

/* A space with a fixed arena has no other one to pass over, so there is nothing to note for it. */
void space_note_longest(const arena_t *arena)
{
  if (HAS_SYSTEM && !arena->space->fixed)
    longest[arena->slot] = (uint32_t)span_longest(&arena->room);
}

void space_count_taken(space_t *space, size_t units, past_t past)
{
  space->used_units += units;
  space_sub_dirty(space, past.dirty);
  low_water_note(&space->low_dirty, space->dirty_units);
}

static bool is_ours[SLOTS_MOST]; /* the slot has an arena of the process's space, which stays */

/* Where memory is nearer to some processors than to others, an arena is for threads of the node that has made it: they touch
 * its pages first. What is free in arenas of other nodes is taken when there can be no more of the own. */
static uint8_t node_of[SLOTS_MOST];
enum { ANY_NODE = 256 };

static unsigned near_node(void) { return likely(!os_has_nodes) ? ANY_NODE : os_node(); }
static bool is_near(size_t slot, unsigned node) { return node == ANY_NODE || node_of[slot] == node; }

/* The slot is set last, when questions about any address may find the arena. */
static arena_t *new_arena(space_t *space, bool sparse)
{
  arena_t *arena;
  if (slots_create_arena(space, 0, 1, &arena) != TAKEN)
    return NULL;
  arena->huge_pages = space->huge_pages;
  arena->sparse = sparse;
  is_ours[arena->slot] = true;
  node_of[arena->slot] = (uint8_t)os_node();
  space_note_longest(arena);
  slots_set(arena->slot, 1, arena);
  return arena;
}

/* From where an arena has an edge of huge pages, sparse runs have another: between filled ones they would hold huge pages
 * whole, or keep them from being wished. Under a limit on memory, which another arena would come nearer to, they share it. */
static bool grows_for_sparse(const arena_t *arena)
{
  return arena->sparse || arena->huge_pages != HUGE_PAGES_AUTO || !huge_edge_is_wanted(arena, arena->committed) ||
         os_memory_limit != SIZE_MAX;
}

static bool filled_are_apart(void)
{
  size_t slot = 0, open = window_slots_open();
  while (slot < open && (!is_ours[slot] || grows_for_sparse(space_slots[slot])))
    slot++;
  return slot < open;
}

/* The steps of a search: what is mapped in the arenas of the kind, what was in use before in the others, growth of those that
 * grow for the kind, and then of any. Where the system refused those that grow for the kind, it is asked for the others only.
 */
typedef enum step { OWN_MAPPED, OTHERS_USED, OWN_GROW, ANY_GROW, OTHERS_GROW } step_t;

/* The longest stretch is noted after a refusal too: the arena may have been cut. */
__attribute__((always_inline)) static inline taken_t take_from(arena_t *arena, size_t units, size_t alignment, bool filled,
                                                               step_t step, run_t **run)
{
  past_t past;
  taken_t taken = NO_ROOM;
  bool own = arena->sparse != filled;
  if (step == OWN_MAPPED && own)
    taken = arena_take_below(arena, arena->committed, units, alignment, run, &past);
  else if (step == OTHERS_USED && !own)
    taken = arena_take_below(arena, min_size(arena->used_end, arena->committed), units, alignment, run, &past);
  else if (step == ANY_GROW || (step >= OWN_GROW && (step == OWN_GROW) == (filled ? own : grows_for_sparse(arena))))
    taken = arena_take(arena, units, alignment, run, &past);
  else
    return NO_ROOM;
  if (taken == TAKEN)
    space_count_taken(arena->space, units, past);
  space_note_longest(arena);
  return taken;
}

/* The lowest arena that has room. */
__attribute__((always_inline)) static inline taken_t search_arenas(size_t units, size_t alignment, bool filled, step_t step,
                                                                   unsigned node, run_t **run)
{
  taken_t result = NO_ROOM;
  for (size_t slot = 0, open = window_slots_open(); slot < open; slot++) {
    if (longest[slot] < units || !is_near(slot, node))
      continue;
    taken_t taken = take_from(space_slots[slot], units, alignment, filled, step, run);
    if (taken == TAKEN)
      return TAKEN;
    result = taken == NO_MEMORY ? NO_MEMORY : result;
  }
  return result;
}

/* A new arena helps if there was no room, not if the system has no memory left. Several are tried, because somebody else's
 * mapping may be in the way of the first. Where there can be no other, all are as good. */
NOINLINE static run_t *search_further(space_t *space, size_t units, size_t alignment, bool filled)
{
  run_t *run = NULL;
  unsigned node = near_node();
  taken_t taken = search_arenas(units, alignment, filled, OTHERS_USED, node, &run);
  if (taken == NO_ROOM)
    taken = search_arenas(units, alignment, filled, OWN_GROW, node, &run);
  for (int tries = 0; tries < SLOT_TRIES && taken == NO_ROOM; tries++) {
    arena_t *arena = new_arena(space, !filled && filled_are_apart());
    taken = arena ? take_from(arena, units, alignment, filled, ANY_GROW, &run) : NO_MEMORY;
  }
  step_t last = taken == NO_MEMORY && node == ANY_NODE ? OTHERS_GROW : ANY_GROW;
  return taken == TAKEN || search_arenas(units, alignment, filled, last, ANY_NODE, &run) == TAKEN ? run : NULL;
}

run_t *space_search(space_t *space, size_t units, size_t alignment, bool filled)
{
  run_t *run = NULL;
  if (!HAS_SYSTEM || space->fixed)
    return take_from(space->fixed, units, alignment, filled, ANY_GROW, &run) == TAKEN ? run : NULL;
  if (search_arenas(units, alignment, filled, OWN_MAPPED, near_node(), &run) == TAKEN)
    return run;
  return search_further(space, units, alignment, filled);
}
