/* SPDX-License-Identifier: MIT
 * Free memory of a space goes back to the system: how much, and from where. */
#include "option.h"
#include "os/os.h"
#include "space/gate.h"
#include "space/huge_edge.h"
#include "space/space.h"
#include "space/units.h"

enum {
  KEEP_LEAST_UNITS = 16,     /* 1 MiB */
  RETAINED_LEAST_UNITS = 512 /* 32 MiB: mstress .54 s when 4 MiB, .43 when 32 */
};

/* As many dirty units are retained as were taken again lately, within the bounds that space.h gives reasons for. */
static size_t units_retained(const space_t *space)
{
  if (!space->purge_delay_ms)
    return 0;
  size_t again = min_size(space->taken_again, max_size(space->used_units, RETAINED_LEAST_UNITS));
  return max_size(max_size(KEEP_LEAST_UNITS, space->used_units / 8), again);
}

/* Regions are purged by ticks alone. A system that has refused something lately is not asked again before the next tick: it
 * would cost a call each time. */
bool space_is_over(const space_t *space)
{
  if (space->fixed || space->purge_delay_ms == PURGE_NEVER || space->purge_failed)
    return false;
  size_t retained = units_retained(space);
  return space->dirty_units > retained + retained / 4;
}

/* The caller holds the lock, which is open while the system is asked: that may take long. Until the answer the units are
 * neither free nor dirty, so nobody takes them. */
static bool purge_units(arena_t *arena, size_t from, size_t to)
{
  space_t *space = arena->space;
  arena_begin_purge(arena, from, to);
  space_sub_dirty(space, to - from);
  space_note_longest(arena);
  lock_release(&space->lock);
  char *start = arena->base + (from << arena->unit_log2), *end = arena->base + (to << arena->unit_log2);
  huge_edge_split(arena, start, end);
  bool purged = os_purge(start, (size_t)(end - start));
  lock_acquire(&space->lock);
  arena_end_purge(arena, from, to, purged);
  space_note_longest(arena);
  if (purged) {
    space->low_dirty = min_size(space->low_dirty, space->dirty_units);
    space->purged_bytes += (uint64_t)(to - from) << arena->unit_log2;
  } else {
    space_add_dirty(space, to - from);
    space->purge_failed = true;
  }
  return purged;
}

/* Asks for units one by one, so that a locked page keeps no more than its own unit. The lock was open, so units that were taken
 * meanwhile are left out. */
static size_t purge_each(arena_t *arena, size_t from, size_t to)
{
  size_t purged = 0;
  for (size_t unit = to; unit-- > from;)
    purged += bit_test(arena->dirty, unit) && purge_units(arena, unit, unit + 1);
  return purged;
}

/* Purges from the high end down until `keep` dirty units are left in the space, and returns how many it purged. Low units are
 * the next to be taken. `below` only falls, so nothing that is refused is asked for twice. */
static size_t purge_arena(arena_t *arena, size_t keep)
{
  space_t *space = arena->space;
  size_t purged = 0, from, to, below = SIZE_MAX;
  while (space->dirty_units > keep && arena_highest_dirty(arena, below, &from, &to)) {
    size_t most = space->dirty_units - keep;
    from = to - min_size(to - from, most);
    if (purge_units(arena, from, to))
      purged += to - from;
    else if (to - from > 1)
      purged += purge_each(arena, from, to);
    below = from;
  }
  if (!space->fixed)
    arena_contract(arena, keep == 0);
  return purged;
}

/* The highest arena is purged first, since the lowest serves the next runs. If nothing is to be kept, arenas without dirty
 * units are visited too: their high end may go. */
static size_t purge_slots(space_t *space, size_t keep)
{
  size_t purged = 0;
  for (size_t slot = window_slots_open(); slot-- && (space->dirty_units > keep || !keep);) {
    arena_t *arena = space_arena_at(slot);
    if (arena && arena->space == space)
      purged += purge_arena(arena, keep);
  }
  return purged;
}

/* A fork in the middle would leave the child units that are neither free nor of a run, so the gate is entered first. */
static size_t purge_until(space_t *space, size_t keep)
{
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&space->lock);
  size_t purged = space->fixed ? purge_arena(space->fixed, keep) : purge_slots(space, keep);
  lock_release(&space->lock);
  gate_leave(gate);
  return purged << space->unit_log2;
}

void space_purge_if_over(space_t *space)
{
  lock_acquire(&space->lock);
  size_t retained = units_retained(space);
  lock_release(&space->lock);
  purge_until(space, retained);
}

size_t space_purge(space_t *space, size_t keep) { return space->purgeable ? purge_until(space, keep >> space->unit_log2) : 0; }

/* The range has a whole page, because only blocks of two pages and more are purged. No gate is entered: the blocks stay in
 * their slab's bitmap, under the bin's lock, which a fork takes too. */
size_t space_purge_inside(space_t *space, char *from, char *to)
{
  char *first = (char *)round_up((uintptr_t)from, os_page_size());
  size_t bytes = round_down((uintptr_t)to, os_page_size()) - (uintptr_t)first;
  huge_edge_split(arena_of(space, from), first, first + bytes);
  if (!os_purge(first, bytes))
    return 0;
  lock_acquire(&space->lock);
  space->purged_bytes += bytes;
  lock_release(&space->lock);
  return bytes;
}

/* The first comparison is without the lock, since nearly every call is too early. What stayed dirty for a whole epoch is purged
 * whatever was taken again, except 1 MiB. */
bool space_tick(space_t *space, uint64_t now_ms)
{
  uint32_t delay = space->purge_delay_ms / TICKS_PER_DELAY;
  if (space->purge_delay_ms == PURGE_NEVER || now_ms - __atomic_load_n(&space->epoch_ms, __ATOMIC_RELAXED) < delay)
    return false;
  lock_acquire(&space->lock);
  bool due = now_ms - space->epoch_ms >= delay;
  size_t keep = SIZE_MAX;
  if (due) {
    __atomic_store_n(&space->epoch_ms, now_ms, __ATOMIC_RELAXED);
    space->taken_again /= 2;
    space->purge_failed = false;
    /* So many units were dirty at every moment of the epoch: nothing would have been missed without them. */
    size_t unneeded = min_size(space->low_dirty, space->dirty_units);
    if (unneeded > KEEP_LEAST_UNITS)
      keep = space->dirty_units - (unneeded - KEEP_LEAST_UNITS);
    space->low_dirty = min_size(space->dirty_units, keep);
  }
  lock_release(&space->lock);
  if (keep != SIZE_MAX)
    purge_until(space, keep);
  return due;
}
