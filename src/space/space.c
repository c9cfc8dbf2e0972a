/* SPDX-License-Identifier: MIT
 * A space with an arena of its own is a region. The one without is the process's, and searches the slots. Taking, giving and
 * queries are the same code for both. */
#include "space/space.h"
#include "option.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/arena.h"
#include "space/budget.h"
#include <string.h>

enum {
  /* Longer blocks are mappings of their own. */
  LONGEST_RUN_UNITS = (int)(SLOT >> UNIT_LOG2) / 4,         /* a quarter of an arena */
  LONGEST_GROWN_UNITS = (int)(SLOT >> UNIT_LOG2) / 16 * 15, /* a growing block may fill an arena, except for its records */
  LONGEST_RUN_UNITS_LIMITED = 64, /* 4 MiB under a limit: a mapping needs no second place to grow, and is returned at once */
  LONGEST_RUN_UNITS_SHORT = 2,    /* 128 KiB if memory is short: a mapping wastes no end of a unit */
  SHORT_LIMIT = 256 << 20,
  DIRTY_LIMIT_SHARE = 16 /* 1/16 of a limit may be dirty, because the program maps memory too */
};

space_t space_of_process = {.dirty_most = SIZE_MAX};
bool space_is_short;

size_t space_longest_run(void)
{
  if (likely(os_memory_limit == SIZE_MAX))
    return LONGEST_RUN_UNITS;
  return space_is_short ? LONGEST_RUN_UNITS_SHORT : LONGEST_RUN_UNITS_LIMITED;
}

/* A growing run stays a run as long as possible: a mapping would need a copy, and room for both in the heap's budget. */
size_t space_longest_grown(void) { return os_memory_limit == SIZE_MAX ? LONGEST_GROWN_UNITS : space_longest_run(); }

static size_t dirty_most(uint32_t purge_delay_ms)
{
  if (!purge_delay_ms)
    return 0;
  bool bounded = os_memory_limit != SIZE_MAX && purge_delay_ms != PURGE_NEVER;
  return bounded ? os_memory_limit / DIRTY_LIMIT_SHARE >> UNIT_LOG2 : SIZE_MAX;
}

/* Called at startup, when the options are known. A limit that is set later changes nothing here. */
bool space_init(void)
{
  space_t *space = &space_of_process;
  if (!window_init())
    return false;
  space->purgeable = true;
  space->purge_delay_ms = settings.purge_delay_ms;
  space->huge_pages = huge_pages_choose();
  os_read_limits();
  space_is_short = os_memory_limit < SHORT_LIMIT;
  space->dirty_most = dirty_most(space->purge_delay_ms);
  return true;
}

/* ---- which arena serves a run, or grows for it ---- */

/* An arena's longest free stretch, in units, and its NUMA node; zero in other slots. Under the lock of the process's space. */
static struct {
  uint16_t longest;
  uint8_t node;
} room_in[SLOTS_MOST];
_Static_assert(SLOT >> UNIT_LOG2 <= UINT16_MAX, "an arena of one slot has so many units");

size_t space_longest_in(size_t slot) { return room_in[slot].longest; }

/* A space with an arena of its own has no other to skip, so it needs no entry. */
void space_note_longest(const arena_t *arena)
{
  if (!arena->space->own_arena)
    room_in[arena->slot].longest = (uint16_t)span_longest(&arena->room);
}

static void count_units_taken(space_t *space, size_t units, past_t past)
{
  space->used_units += units;
  if (past.mixed)
    space->mixed_units += units;
  space->dirty_units -= past.dirty;
  low_water_note(&space->low_dirty, space->dirty_units);
}

/* On NUMA machines, an arena is for threads of the node that created it, because they touch its pages first. Memory of other
 * nodes is used when the own arenas cannot grow. Slabs belong to bins, so a free block may still reach another node. */
enum { ANY_NODE = 256 };

static unsigned near_node(void) { return likely(!os_has_nodes) ? ANY_NODE : os_node(); }
static bool is_near(size_t slot, unsigned node) { return node == ANY_NODE || room_in[slot].node == node; }

/* The slot is set last: queries may then find the arena. */
static arena_t *new_arena(space_t *space)
{
  arena_t *arena;
  if (slots_create_arena(space, 0, 1, &arena) != TAKEN)
    return NULL;
  arena->huge_pages = space->huge_pages;
  room_in[arena->slot].node = (uint8_t)os_node();
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
    count_units_taken(arena->space, units, past);
  space_note_longest(arena);
  return taken;
}

__attribute__((always_inline)) static inline taken_t search_arenas(size_t units, size_t alignment, bool may_grow, unsigned node,
                                                                   run_t **run)
{
  taken_t result = NO_ROOM;
  for (size_t slot = 0, open = window_slots_open(); slot < open; slot++) {
    if (room_in[slot].longest < units || !is_near(slot, node))
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

static run_t *search_for_run(space_t *space, size_t units, size_t alignment)
{
  run_t *run = NULL;
  if (space->own_arena)
    return take_from(space->own_arena, units, alignment, true, &run) == TAKEN ? run : NULL;
  if (search_arenas(units, alignment, false, near_node(), &run) == TAKEN)
    return run;
  return search_further(space, units, alignment);
}

/* ---- regions ---- */

/* The caller's memory holds old data, so every unit is dirty at first. */
char *space_init_guest(space_t *space, arena_t *arena, void *memory, size_t size)
{
  uintptr_t end = round_down((uintptr_t)memory + size, UNIT);
  *space = (space_t){.own_arena = arena, .purge_delay_ms = PURGE_NEVER, .dirty_most = SIZE_MAX};
  *arena = (arena_t){.space = space};
  /* as many units as fit with their records */
  for (size_t units = min_size(size >> UNIT_LOG2, SPAN_BITS_MOST); units > 0; units--) {
    char *records = arena_lay_out(arena, memory, units);
    if ((uintptr_t)records > end || (end - (uintptr_t)records) >> UNIT_LOG2 < units)
      continue;
    arena_begin(arena, (char *)(end - (units << UNIT_LOG2)), units, true);
    arena->committed = (uint32_t)units;
    space->dirty_units = units;
    return records;
  }
  return NULL;
}

size_t space_region_records(size_t units)
{
  arena_t scratch;
  return (uintptr_t)arena_lay_out(&scratch, NULL, units);
}

/* Ended reserves may hold the missing memory, so there is a second attempt without them. */
bool space_init_slots(space_t *space, size_t units)
{
  arena_t *arena;
  if (units > SPAN_BITS_MOST)
    return false;
  taken_t taken = slots_create_arena(space, units, arena_slots_for(units), &arena);
  if (taken == NO_MEMORY && space_destroy_left())
    taken = slots_create_arena(space, units, arena_slots_for(units), &arena);
  if (taken != TAKEN)
    return false;
  *space = (space_t){.own_arena = arena, .purgeable = true, .purge_delay_ms = PURGE_NEVER, .dirty_most = SIZE_MAX};
  slots_set(arena->slot, arena->slots, arena);
  return true;
}

void space_hide_slots(space_t *space) { slots_set(space->own_arena->slot, space->own_arena->slots, SLOT_RESERVED); }

void space_destroy_slots(space_t *space)
{
  space_hide_slots(space);
  space->own_arena->dirty_count = space->own_arena->committed; /* it may have been prefaulted */
  arena_purge_to_end(space->own_arena);                        /* without the lock */
  LOCKED(&space_slots_lock);
  slots_destroy_arena(space->own_arena);
}

/* ---- taking runs ---- */

bool space_is_refused(const space_t *space, size_t units)
{
  return !space->own_arena && refusals_answer(units, __atomic_load_n(&space->changes, __ATOMIC_RELAXED));
}

static run_t *take_units(space_t *space, size_t units, size_t alignment, bool filled)
{
  if (units > (space->own_arena ? space->own_arena->unit_count : LONGEST_GROWN_UNITS) || alignment > LONGEST_RUN_UNITS)
    return NULL;
  LOCKED(&space->lock);
  run_t *run = search_for_run(space, units, alignment);
  if (!run && !space->own_arena && alignment == 1) /* an aligned run is found more seldom than others */
    refusals_note_search(units, space->changes);
  if (run && filled)
    huge_pages_open(arena_of(space, run->start), run);
  return run;
}

run_t *space_take(space_t *space, size_t units, size_t alignment) { return take_units(space, units, alignment, false); }

/* The charge comes before the memory, so that `held` never exceeds the limit. It is undone if there is no memory. A refused
 * charge does not end the search: a prepaid region costs nothing. */
static run_t *take_charged(space_t *space, budget_t *budget, size_t bytes, size_t alignment, bool filled)
{
  size_t units = units_for(bytes);
  for (; space; space = space->fallback) {
    size_t price = space_price(space, units);
    if (space_is_refused(space, units) || !budget_charge(budget, price))
      continue;
    run_t *run = take_units(space, units, units_for(alignment), filled);
    if (run) {
      budget_note_peak(budget);
      return run;
    }
    budget_discharge(budget, price);
  }
  return NULL;
}

run_t *space_take_charged(space_t *space, budget_t *budget, size_t bytes, size_t alignment)
{
  return take_charged(space, budget, bytes, alignment, false);
}

run_t *space_take_filled(space_t *space, budget_t *budget, size_t bytes) { return take_charged(space, budget, bytes, 1, true); }

/* A prepaid region was charged at its creation, so only its room counts. */
size_t space_room_left(space_t *space, budget_t *budget)
{
  size_t room = SIZE_MAX;
  if (space->own_arena) {
    lock_acquire(&space->lock);
    room = span_longest(&space->own_arena->room) << UNIT_LOG2;
    lock_release(&space->lock);
  }
  size_t allowed = space->prepaid ? SIZE_MAX : budget_room(budget);
  return min_size(room, round_down(allowed, UNIT));
}

/* A run of the process's space does not grow beyond the longest one: a mapping serves such blocks better. */
bool space_lengthen(space_t *space, run_t *run, size_t units)
{
  arena_t *arena = arena_of(space, run->start);
  space = arena->space;
  past_t past;
  size_t had = run->units;
  LOCKED(&space->lock);
  bool longer = (space->own_arena || units <= space_longest_grown()) && arena_lengthen(arena, run, units, &past);
  if (longer)
    count_units_taken(space, units - had, past);
  space_note_longest(arena);
  return longer;
}

/* ---- giving runs back ---- */

uint64_t space_changes(const space_t *space)
{
  uint64_t changes = 0;
  for (; space; space = space->fallback)
    changes += __atomic_load_n(&space->changes, __ATOMIC_RELAXED);
  return changes;
}

/* Makes units [from, to) free, and releases the lock of the space, because a purge that may follow takes it itself. */
static void give_units(arena_t *arena, size_t from, size_t to)
{
  space_t *space = arena->space;
  arena_give(arena, from, to);
  space_note_longest(arena);
  space->used_units -= to - from;
  space_note_change(space);
  space->dirty_units += to - from;
  bool at_once = unlikely(space->dirty_units > space->dirty_most) && !space->purge_failed;
  lock_release(&space->lock);
  sleeper_note();
  if (at_once)
    space_purge_at_once(space);
}

/* The run ends before its units become free, because they can be taken the next moment. */
void space_give(space_t *space, run_t *run)
{
  arena_t *arena = arena_of(space, run->start);
  size_t at = (size_t)(run - arena->runs);
  lock_acquire(&arena->space->lock);
  arena_set_start(arena, at, false);
  run_become(run, RUN_NONE, NULL);
  give_units(arena, at, at + run->units);
}

/* The discharge comes last, so that the budget never counts less than is held. */
void space_give_charged(space_t *space, budget_t *budget, run_t *run)
{
  size_t price = space_price(arena_of(space, run->start)->space, run->units);
  space_give(space, run);
  budget_discharge(budget, price);
}

size_t space_longest_free(space_t *space, size_t room)
{
  lock_acquire(&space->lock);
  size_t bytes = span_longest(&space->own_arena->room) << UNIT_LOG2;
  lock_release(&space->lock);
  return space->prepaid ? bytes : min_size(bytes, round_down(room, UNIT));
}

void space_shorten(space_t *space, run_t *run, size_t units)
{
  arena_t *arena = arena_of(space, run->start);
  size_t at = (size_t)(run - arena->runs), had = run->units;
  lock_acquire(&arena->space->lock);
  run->units = (uint32_t)units;
  give_units(arena, at + units, at + had);
}

void space_note_fork(void)
{
  for (size_t slot = 0; slot < window_slots_open(); slot++) {
    arena_t *arena = space_arena_at(slot);
    if (arena && arena->space == &space_of_process)
      huge_pages_note_fork(arena);
  }
}

/* ---- queries ---- */

/* A prepaid region counts as held from its creation, so its free units count whether they hold memory or not. */
space_figures_t space_figures(space_t *space)
{
  LOCKED(&space->lock);
  size_t unused_units = space->prepaid ? space->own_arena->unit_count - space->used_units : 0;
  space_figures_t f = {.dirty_bytes = space->dirty_units << UNIT_LOG2,
                       .unused_bytes = unused_units << UNIT_LOG2,
                       .purged_bytes = space->purged_bytes};
  return f;
}

/* Skips arenas of regions, whose records are charged to their heaps. */
arena_figures_t space_arena_figures(void)
{
  arena_figures_t f = {.record_bytes = window_map_bytes(), .mapped_bytes = window_map_bytes()};
  LOCKED(&space_of_process.lock);
  for (size_t slot = 0; slot < window_slots_open(); slot++) {
    const arena_t *arena = space_arena_at(slot);
    if (!arena || arena->space != &space_of_process)
      continue;
    f.record_bytes += arena_record_bytes(arena);
    f.mapped_bytes += arena_mapped_bytes(arena);
    for (size_t page = 0; page < HUGE_PAGES_MOST; page++)
      f.advised_bytes += huge_pages_may_be(arena, page) ? (size_t)HUGE_PAGE_UNITS << UNIT_LOG2 : 0;
  }
  return f;
}

/* The lock keeps the run unchanged while `ask` reads it. */
bool space_ask(arena_t *arena, const void *address, run_ask_fn *ask, void *context)
{
  if (!arena)
    return false;
  LOCKED(&arena->space->lock);
  run_t *run = arena_find(arena, address);
  if (run)
    ask(run, context);
  return run != NULL;
}

/* The record of an ended run changes when its units are taken again, so it is read under the lock too. */
bool space_had_run(const arena_t *arena, const void *address)
{
  if (!arena)
    return false;
  LOCKED(&arena->space->lock);
  return arena_had_run(arena, address);
}

/* Begins at the first unit that starts at or above `from`: the walk has passed the run around `from`. */
static bool next_in(const arena_t *arena, const char *from, run_wanted_fn *wanted, void *context)
{
  size_t at = from > arena->base ? unit_of(arena, from - 1) + 1 : 0, end = arena->used_end;
  for (at = bits_next_set(arena->start, at, end); at < end; at = bits_next_set(arena->start, at + 1, end))
    if (wanted(&arena->runs[at], context))
      return true;
  return false;
}

/* Other slots have reserves of heaps, which are spaces of their own. */
static bool next_in_slots(const char *from, run_wanted_fn *wanted, void *context)
{
  size_t slot = from > (char *)class_window.start ? window_slot_of(from) : 0;
  for (; slot < window_slots_open(); slot++) {
    const arena_t *arena = space_arena_at(slot);
    if (arena && arena->space == &space_of_process && next_in(arena, from, wanted, context))
      return true;
  }
  return false;
}

bool space_next_run(space_t *space, const void *from, run_wanted_fn *wanted, void *context)
{
  LOCKED(&space->lock);
  return space->own_arena ? next_in(space->own_arena, from, wanted, context) : next_in_slots(from, wanted, context);
}
