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
  space->low_dirty = min_size(space->low_dirty, space->dirty_units);
  space->taken_again += past.again;
}

/* The longest stretch is noted after a refusal too: the arena may have been cut. */
static taken_t take_from(arena_t *arena, size_t units, size_t alignment, bool grows, run_t **run)
{
  past_t past;
  taken_t taken = (grows ? arena_take : arena_take_again)(arena, units, alignment, run, &past);
  if (taken == TAKEN)
    space_count_taken(arena->space, units, past);
  space_note_longest(arena);
  return taken;
}

/* The slot is set last, when questions about any address may find the arena. */
static arena_t *new_arena(space_t *space, bool sparse)
{
  arena_t *arena;
  if (slots_create_arena(space, 0, 1, &arena) != TAKEN)
    return NULL;
  arena->huge_pages = space->huge_pages;
  arena->sparse = sparse;
  space_note_longest(arena);
  slots_set(arena->slot, 1, arena);
  return arena;
}

/* Which arenas may grow in a search. */
typedef enum growth { GROWS_NONE, GROWS_FOR_SPARSE, GROWS_FOR_FILLED, GROWS_ANY } growth_t;

/* From where an arena has an edge of huge pages, sparse runs have another: between filled ones they would hold huge pages
 * whole, or keep them from being wished. Under a limit on memory, which another arena would come nearer to, they share it. */
static bool grows_for_sparse(const arena_t *arena)
{
  return arena->sparse || arena->huge_pages != HUGE_PAGES_AUTO || !huge_edge_is_wanted(arena, arena->committed) ||
         os_memory_limit() != SIZE_MAX;
}

static bool may_grow(const arena_t *arena, growth_t growth)
{
  switch (growth) {
  case GROWS_NONE:
    return false;
  case GROWS_FOR_SPARSE:
    return grows_for_sparse(arena);
  case GROWS_FOR_FILLED:
    return !arena->sparse;
  default:
    return true;
  }
}

/* The lowest arena that has room, without the others if they would have to grow. */
static taken_t search_arenas(size_t units, size_t alignment, growth_t growth, run_t **run)
{
  taken_t result = NO_ROOM;
  for (size_t slot = 0, open = window_slots_open(); slot < open; slot++) {
    if (longest[slot] < units)
      continue;
    taken_t taken = take_from(space_slots[slot], units, alignment, may_grow(space_slots[slot], growth), run);
    if (taken == TAKEN)
      return TAKEN;
    result = taken == NO_MEMORY ? NO_MEMORY : result;
  }
  return result;
}

/* Says whether there is an arena with an edge. */
static bool filled_are_apart(void)
{
  size_t slot = 0, open = window_slots_open();
  while (slot < open && (!longest[slot] || grows_for_sparse(space_slots[slot])))
    slot++;
  return slot < open;
}

/* What was in use before comes first, wherever it is. A new arena helps if there was no room, not if the system has no memory
 * left. Several are tried, because somebody else's mapping may be in the way of the first. Where there can be no other, all are
 * as good. */
run_t *space_search(space_t *space, size_t units, size_t alignment, bool filled)
{
  run_t *run = NULL;
  if (!HAS_SYSTEM || space->fixed)
    return take_from(space->fixed, units, alignment, true, &run) == TAKEN ? run : NULL;
  if (window_slots_open() > 1 && search_arenas(units, alignment, GROWS_NONE, &run) == TAKEN)
    return run;
  taken_t taken = search_arenas(units, alignment, filled ? GROWS_FOR_FILLED : GROWS_FOR_SPARSE, &run);
  for (int tries = 0; tries < SLOT_TRIES && taken == NO_ROOM; tries++) {
    arena_t *arena = new_arena(space, !filled && filled_are_apart());
    taken = arena ? take_from(arena, units, alignment, true, &run) : NO_MEMORY;
  }
  return taken == TAKEN || search_arenas(units, alignment, GROWS_ANY, &run) == TAKEN ? run : NULL;
}
