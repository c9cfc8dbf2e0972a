/* SPDX-License-Identifier: MIT
 * Free memory of a space goes back to the system: how much, and from where. */
#include "option.h"
#include "os/os.h"
#include "space/gate.h"
#include "space/huge_edge.h"
#include "space/space.h"
#include "space/units.h"

enum {
  KEEP_LEAST_UNITS = 16,      /* 1 MiB */
  RETAINED_LEAST_UNITS = 512, /* 32 MiB: mstress .54 s when 4 MiB, .43 when 32 */
  STEP_RANGES = 8,            /* one caller asks the system so often, at some 20 us, */
  STEP_UNITS = 32,            /* and for 2 MiB, in one step */
  FAR_RANGES_MOST = 32        /* at a give of many units where far too much is dirty */
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

/* Purges the highest dirty range of the arena below where the pass is, at most `most` units of it. The pass moves on before the
 * lock is opened: it only falls, so nothing that is refused is asked for twice, and another caller goes on behind it. False:
 * the arena has none left. */
static bool purge_range(arena_t *arena, purge_pass_t *pass, size_t most, size_t *purged)
{
  size_t from, to;
  if (!arena_highest_dirty(arena, pass->below, &from, &to))
    return false;
  from = to - min_size(to - from, most);
  pass->below = from;
  if (purge_units(arena, from, to))
    *purged += to - from;
  else if (to - from > 1)
    *purged += purge_each(arena, from, to);
  return true;
}

/* Atomic, because space_purge_is_under_way() reads it without the lock. */
static void set_arenas_left(purge_pass_t *pass, size_t left) { __atomic_store_n(&pass->arenas_left, left, __ATOMIC_RELAXED); }

/* The highest arena is purged first, since the lowest serves the next runs; in each, low units are the next to be taken. */
static void begin_pass(const space_t *space, purge_pass_t *pass, size_t keep)
{
  pass->keep = keep;
  pass->below = SIZE_MAX;
  pass->pace = 0;
  set_arenas_left(pass, space->fixed ? 1 : window_slots_open());
}

/* The arena that the pass is at; NULL: the slot is not the space's. */
static arena_t *arena_of_pass(const space_t *space, const purge_pass_t *pass)
{
  arena_t *arena = space->fixed ? space->fixed : space_arena_at(pass->arenas_left - 1);
  return arena && arena->space == space ? arena : NULL;
}

/* If nothing is to be kept, arenas without dirty units are visited too: their high end may go. */
static void leave_arena(const space_t *space, purge_pass_t *pass, arena_t *arena)
{
  if (arena && !space->fixed)
    arena_contract(arena, pass->keep == 0);
  bool done = pass->keep && space->dirty_units <= pass->keep;
  pass->below = SIZE_MAX;
  set_arenas_left(pass, done ? 0 : pass->arenas_left - 1);
}

/* Goes on with a pass, until so many ranges, or about so many units, were asked for or it is done. Returns the units that have
 * gone. */
static size_t go_on(space_t *space, purge_pass_t *pass, size_t ranges, size_t units)
{
  size_t purged = 0;
  while (pass->arenas_left && ranges && purged < units) {
    arena_t *arena = arena_of_pass(space, pass);
    size_t over = space->dirty_units - min_size(space->dirty_units, pass->keep);
    if (arena && over && purge_range(arena, pass, min_size(over, units - purged), &purged))
      ranges--;
    else
      leave_arena(space, pass, arena);
  }
  return purged;
}

/* A fork in the middle would leave the child units that are neither free nor of a run, so the gate is entered first. */
static size_t purge_until(space_t *space, size_t keep)
{
  purge_pass_t pass;
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&space->lock);
  begin_pass(space, &pass, keep);
  size_t purged = go_on(space, &pass, SIZE_MAX, SIZE_MAX);
  lock_release(&space->lock);
  gate_leave(gate);
  return purged << space->unit_log2;
}

void space_purge_step(space_t *space, uint64_t now_ms)
{
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&space->lock);
  size_t steps = pace_steps(&space->pass.pace, now_ms);
  go_on(space, &space->pass, steps * STEP_RANGES, steps * STEP_UNITS);
  lock_release(&space->lock);
  gate_leave(gate);
}

/* The high end of what was given, at most `most` units. Somebody may have taken some since. */
static void purge_given(arena_t *arena, size_t from, size_t to, size_t most)
{
  from = to - min_size(to - from, most);
  if (bits_next_clear(arena->dirty, from, to) == to)
    purge_units(arena, from, to);
}

/* A pass that is under way and goes as far goes on, or it would begin at the high end again each time. Most of it is left to
 * slow paths, since one call may give many runs. But where the bound is passed by half, what was given goes back itself, and
 * more with it: the bound falls with what is in use. With a delay of 0 nothing may stay. */
void space_purge_if_over(arena_t *arena, size_t from, size_t to)
{
  space_t *space = arena->space;
  if (!space->purge_delay_ms) {
    purge_until(space, 0);
    return;
  }
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&space->lock);
  size_t retained = units_retained(space), ranges = 1;
  if (!space->pass.arenas_left || space->pass.keep > retained)
    begin_pass(space, &space->pass, retained);
  if (space->dirty_units > retained + retained / 2) {
    purge_given(arena, from, to, space->dirty_units - retained);
    ranges = min_size(2 * (to - from), FAR_RANGES_MOST);
  }
  go_on(space, &space->pass, ranges, 2 * (to - from) + STEP_UNITS);
  lock_release(&space->lock);
  gate_leave(gate);
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

/* What stayed dirty for a whole epoch is to go whatever was taken again, except 1 MiB. A pass that is under way is not begun
 * again, or it would forget how far it was to go. What has become dirty behind it stays in low_dirty, for a later tick. */
static void begin_tick(space_t *space)
{
  /* So many units were dirty at every moment of the epoch: nothing would have been missed without them. */
  size_t unneeded = min_size(space->low_dirty, space->dirty_units), keep = SIZE_MAX;
  if (unneeded > KEEP_LEAST_UNITS)
    keep = space->dirty_units - (unneeded - KEEP_LEAST_UNITS);
  space->low_dirty = space->dirty_units;
  if (space->pass.arenas_left) {
    space->pass.keep = min_size(space->pass.keep, keep);
  } else if (keep != SIZE_MAX) {
    begin_pass(space, &space->pass, keep);
    space->low_dirty = keep;
  }
}

/* Another thread may have ticked since this one has read the clock. */
static bool epoch_has_passed(const space_t *space, uint64_t now_ms)
{
  uint64_t began = __atomic_load_n(&space->epoch_ms, __ATOMIC_RELAXED);
  return now_ms >= began && now_ms - began >= space->purge_delay_ms / TICKS_PER_DELAY;
}

/* The first question is without the lock, since nearly every call is too early. */
bool space_tick(space_t *space, uint64_t now_ms)
{
  if (space->purge_delay_ms == PURGE_NEVER || !epoch_has_passed(space, now_ms))
    return false;
  lock_acquire(&space->lock);
  bool due = epoch_has_passed(space, now_ms);
  if (due) {
    __atomic_store_n(&space->epoch_ms, now_ms, __ATOMIC_RELAXED);
    space->taken_again /= 2;
    space->purge_failed = false;
    begin_tick(space);
  }
  lock_release(&space->lock);
  return due;
}

void space_tick_region(space_t *space, uint64_t now_ms)
{
  if (!space_tick(space, now_ms) || !space_purge_is_under_way(space))
    return;
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&space->lock);
  go_on(space, &space->pass, SIZE_MAX, SIZE_MAX);
  lock_release(&space->lock);
  gate_leave(gate);
}

bool space_wants_ticks(space_t *space)
{
  if (!space->fixed || !space->purgeable || space->purge_delay_ms == PURGE_NEVER)
    return false;
  lock_acquire(&space->lock);
  bool wants = space->dirty_units > KEEP_LEAST_UNITS && !space->purge_failed;
  lock_release(&space->lock);
  return wants;
}
