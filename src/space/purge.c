/* SPDX-License-Identifier: MIT
 * Returns free memory of a space to the system: how much, and from where. */
#include "option.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/arena.h"
#include "space/metadata.h"
#include "space/space.h"

enum {
  STEP_RANGES = 8, /* system calls of one caller in a step, of about 20 us each */
  STEP_UNITS = 32, /* 2 MiB that it purges in a step */
  STEP_HOLES = 16  /* stretches that a step unmaps at the end of an arena */
};

/* The lock is released during the system call, which may be slow. Meanwhile the units are neither free nor dirty. */
static bool purge_units(arena_t *arena, size_t from, size_t to)
{
  space_t *space = arena->space;
  arena_begin_purge(arena, from, to);
  space->dirty_units -= to - from;
  space_note_longest(arena);
  lock_release(&space->lock);
  char *start = arena->base + (from << UNIT_LOG2), *end = arena->base + (to << UNIT_LOG2);
  huge_pages_split(arena, start, end);
  bool purged = os_purge(start, (size_t)(end - start));
  lock_acquire(&space->lock);
  arena_end_purge(arena, from, to, purged);
  space_note_longest(arena);
  if (purged) {
    low_water_lessen(&space->low_dirty, to - from);
    space_note_change(space); /* a trim that ran meanwhile has missed these units, and must not be the last */
    space->purged_bytes += (uint64_t)(to - from) << UNIT_LOG2;
  } else {
    space->dirty_units += to - from;
    space->purge_failed = true;
  }
  return purged;
}

/* Purges single units, so that a locked page keeps only its own unit. Skips units that were taken while the lock was free. */
static size_t purge_each(arena_t *arena, size_t from, size_t to)
{
  size_t purged = 0;
  for (size_t unit = to; unit-- > from;)
    purged += bit_test(arena->dirty, unit) && purge_units(arena, unit, unit + 1);
  return purged;
}

/* Purges the highest dirty range below the pass, at most `most` units. The pass moves before the lock is released, so refused
 * units are not tried twice, and other callers continue below. Returns false if the arena has none left. */
static bool purge_range(arena_t *arena, purge_pass_t *pass, size_t most, size_t *purged)
{
  size_t from, to;
  bool found = pass->whole_pages ? arena_highest_dirty_page(arena, pass->below, &from, &to)
                                 : arena_highest_dirty(arena, pass->below, &from, &to);
  if (!found || (pass->whole_pages && to - from > most))
    return false;
  from = to - min_size(to - from, most);
  pass->below = from;
  if (purge_units(arena, from, to)) {
    *purged += to - from;
    pass->changes++;
  } else if (to - from > 1) {
    size_t each = purge_each(arena, from, to);
    *purged += each;
    pass->changes += each;
  }
  return true;
}

/* Atomic, because space_purge_is_under_way() reads it without the lock. */
static void set_arenas_left(purge_pass_t *pass, size_t left) { __atomic_store_n(&pass->arenas_left, left, __ATOMIC_RELAXED); }

/* The highest arena is purged first, since the lowest serves the next runs. The same holds for the units of an arena. */
static void begin_pass(const space_t *space, purge_pass_t *pass, size_t keep, size_t units)
{
  pass->keep = keep;
  pass->trims = pass->refused = false;
  pass->changes = 0;
  pass->whole_pages = keep && !space->own_arena;
  pass->left = units;
  pass->below = SIZE_MAX;
  set_arenas_left(pass, space->own_arena ? 1 : window_slots_open());
}

/* Returns the arena that the pass is at; NULL if the slot is not the space's. */
static arena_t *arena_of_pass(const space_t *space, const purge_pass_t *pass)
{
  arena_t *arena = space->own_arena ? space->own_arena : space_arena_at(pass->arenas_left - 1);
  return arena && arena->space == space ? arena : NULL;
}

static void unmap_idle(space_t *space, purge_pass_t *pass, arena_t *arena)
{
  uint32_t holes = arena->hole_count, committed = arena->committed;
  pass->refused |= !arena_unmap_idle(arena, pass->trims ? SIZE_MAX : STEP_HOLES);
  if (arena->hole_count == holes && arena->committed == committed)
    return;
  pass->changes++;
  space_note_change(space);
}

/* A trim also visits arenas without dirty units, which may have addresses to return. */
static void leave_arena(space_t *space, purge_pass_t *pass, arena_t *arena)
{
  if (arena && !space->own_arena)
    unmap_idle(space, pass, arena);
  bool done = !pass->left || (!pass->trims && space->dirty_units <= pass->keep);
  size_t left = done ? 0 : pass->arenas_left - 1;
  if (!done && !left && pass->whole_pages) {
    pass->whole_pages = false;
    left = window_slots_open();
  }
  pass->below = SIZE_MAX;
  set_arenas_left(pass, left);
}

/* Continues a pass for up to `ranges` ranges and ends of arenas, and about `units` units. Returns the purged units. */
static size_t go_on(space_t *space, purge_pass_t *pass, size_t ranges, size_t units)
{
  size_t purged = 0;
  while (pass->arenas_left && ranges && purged < units) {
    arena_t *arena = arena_of_pass(space, pass);
    size_t over = min_size(space->dirty_units - min_size(space->dirty_units, pass->keep), pass->left), before = purged;
    if (arena && over && purge_range(arena, pass, min_size(over, units - purged), &purged))
      pass->left -= min_size(pass->left, purged - before);
    else
      leave_arena(space, pass, arena);
    ranges--;
  }
  return purged;
}

/* After a trim that returned everything, the next one has no work until units are given back or mapped. A process at its limit
 * trims at each failing request, and a pass visits every page of every arena. */
static bool is_trimmed(space_t *space)
{
  LOCKED(&space->lock);
  return space->trimmed_at == 1 + space->changes + arena_maps();
}

/* The gate comes first: a fork in the middle would leave the child units that are neither free nor in a run. */
static size_t purge_until(space_t *space, size_t keep, bool trims)
{
  purge_pass_t pass;
  if (trims && is_trimmed(space))
    return 0;
  INSIDE_GATE(GATE_SYSTEM);
  LOCKED(&space->lock);
  begin_pass(space, &pass, keep, SIZE_MAX);
  pass.trims = trims;
  uint64_t before = 1 + space->changes + arena_maps();
  size_t purged = go_on(space, &pass, SIZE_MAX, SIZE_MAX);
  if (trims) /* other threads may have given units back meanwhile */
    space->trimmed_at = pass.refused || space->dirty_units ? 0 : before + pass.changes;
  return purged << UNIT_LOG2;
}

/* The manager's own free records come first. */
void space_purge_step(space_t *space, size_t steps)
{
  if (!space->own_arena && metadata_purge_step(steps * STEP_RANGES))
    return;
  INSIDE_GATE(GATE_SYSTEM);
  LOCKED(&space->lock);
  go_on(space, &space->pass, steps * STEP_RANGES, steps * STEP_UNITS);
}

size_t space_purge(space_t *space, size_t keep) { return space->purgeable ? purge_until(space, keep >> UNIT_LOG2, !keep) : 0; }

void space_purge_at_once(space_t *space) { purge_until(space, space->dirty_most - space->dirty_most / 4, false); }

/* Needs no gate: the blocks stay in the bitmap of their slab, under the lock of its bin, and a fork takes that lock. */
bool space_purge_inside(space_t *space, char *from, char *to)
{
  huge_pages_split(arena_of(space, from), from, to);
  if (!os_purge(from, (size_t)(to - from)))
    return false;
  LOCKED(&space->lock);
  space->purged_bytes += (size_t)(to - from);
  return true;
}

enum { MIXED_EPOCHS = 16 }; /* each forgets such a part of mixed_units */

/* A run of dirty and returned units shows that too much was returned. Free memory lies in pieces then, and the program needs
 * more of it than its demand varies by. So the space keeps as many more units as such runs had lately. Units that were never
 * used do not count: a block that grows at the end of an arena takes some each time. */
static size_t keep_for_mixed(space_t *space, size_t unneeded, size_t epochs)
{
  size_t mixed = min_size(space->mixed_units, space->dirty_units);
  space->mixed_units = mixed - (mixed * min_size(epochs, MIXED_EPOCHS) + MIXED_EPOCHS - 1) / MIXED_EPOCHS;
  return unneeded - min_size(unneeded, mixed);
}

/* A running pass continues, because a new one would retry refused units. */
static void begin_tick(space_t *space, size_t epochs)
{
  bool records = !space->own_arena && metadata_begin_tick(epochs);
  size_t unneeded = keep_for_mixed(space, low_water_tick(&space->low_dirty, space->dirty_units, epochs), epochs);
  size_t keep = space->dirty_units - unneeded;
  purge_pass_t *pass = &space->pass;
  if (pass->arenas_left) {
    pass->keep = min_size(pass->keep, keep);
    pass->left = max_size(pass->left, unneeded);
  } else if (unneeded || records) {
    begin_pass(space, pass, keep, unneeded);
  }
}

static size_t epochs_passed(const space_t *space, uint64_t now_ms)
{
  return low_water_epochs(__atomic_load_n(&space->epoch_ms, __ATOMIC_RELAXED), now_ms, space->purge_delay_ms);
}

NOINLINE static bool end_epoch(space_t *space, uint64_t now_ms)
{
  LOCKED(&space->lock);
  size_t epochs = epochs_passed(space, now_ms);
  if (epochs) {
    __atomic_store_n(&space->epoch_ms, now_ms, __ATOMIC_RELAXED);
    space->purge_failed = false;
    begin_tick(space, epochs);
  }
  return epochs != 0;
}

/* The first test needs no lock, since nearly every call is too early. */
bool space_tick(space_t *space, uint64_t now_ms)
{
  return space->purge_delay_ms != PURGE_NEVER && epochs_passed(space, now_ms) && end_epoch(space, now_ms);
}

void space_tick_region(space_t *space, uint64_t now_ms)
{
  if (!space_tick(space, now_ms) || !space_purge_is_under_way(space))
    return;
  INSIDE_GATE(GATE_SYSTEM);
  LOCKED(&space->lock);
  go_on(space, &space->pass, SIZE_MAX, SIZE_MAX);
}

bool space_has_left(space_t *space)
{
  if (!space->purgeable || space->purge_delay_ms == PURGE_NEVER)
    return false;
  lock_acquire(&space->lock);
  bool has = space->dirty_units && !space->purge_failed;
  lock_release(&space->lock);
  return has || (!space->own_arena && metadata_has_left());
}

bool space_wants_ticks(space_t *space) { return space->own_arena && space_has_left(space); }
