/* SPDX-License-Identifier: MIT */
#include "arena.h"
#include <string.h>

enum {
  ARENA_LOG2 = 30,
  ARENA_WINDOWED_LOG2 = 24,
  COMMIT_UNITS = 64,              /* 4 MiB a step: one call for a thousand faults */
  COMMIT_UNITS_WINDOWED = 8,
  KEEP_LEAST_UNITS = 16,          /* 1 MiB */
  KEEP_BREATH_UNITS = 512,        /* 32 MiB: mstress .54 s when 4 MiB, .43 when 32 */
  HUGE_PAGE_UNITS = 32,
  CACHE_LINE = 64,
  REGION_ALIGNMENT = 64           /* of the units of a region that is too small to lose more */
};

space_t space_of_process;
arena_t *space_arenas[ARENA_LIMIT];
uint32_t space_arena_count;
uint32_t space_arena_log2;

/* Which slots of the address space hold an arena: bit address >> arena_log2. Set with release before any block of the arena
 * escapes, read with acquire by questions about foreign addresses; cleared only where address space is
 * short. */
static uint64_t arena_slots[((size_t)1 << (ADDRESS_LOG2 - ARENA_LOG2)) / WORD_BITS];
_Static_assert(WINDOW_ADDRESS_LOG2 - ARENA_WINDOWED_LOG2 <= ADDRESS_LOG2 - ARENA_LOG2, "a window has fewer slots");

bool space_init(void)
{
  space_t *space = &space_of_process;
  if (!class_map_init())
    return false;
  space->unit_log2 = UNIT_LOG2;
  space->alignment = UNIT;
  space->purgeable = true;
  space_arena_log2 = class_map_windowed ? ARENA_WINDOWED_LOG2 : ARENA_LOG2;
  space->purge_delay_ms = settings.purge_delay_ms;
  space->huge_pages = settings.huge_pages;
  return true;
}

size_t space_longest_run(void) { return (size_t)1 << (space_arena_log2 - UNIT_LOG2 - 2); }

/* ---- arenas ---- */

static void *reserve_arena_in_window(void)
{
  size_t size = (size_t)1 << space_arena_log2;
  uintptr_t end = (uintptr_t)1 << WINDOW_ADDRESS_LOG2, at = 4 * GIB;
  for (; at + size <= end; at += size) {
    void *p = os_reserve_at((void *)at, size);
    if (p)
      return p;
    if (os_address_space_limit() == SIZE_MAX)
      continue;
    /* Refused for good, or is something there? A page answers. */
    void *page = os_reserve_at((void *)at, os_page_size());
    if (page) {
      os_release(page, os_page_size());
      return NULL;
    }
  }
  return NULL;
}

/* Where an arena's records stand, from `at` on; returns the first byte behind them. */
static char *arena_lay_out(arena_t *arena, char *at, uint32_t units, bool long_bitmaps)
{
  size_t words = (units + WORD_BITS - 1) / WORD_BITS;
  arena->unit_count = units;
  arena->free = (uint64_t *)round_up((uintptr_t)at, sizeof(uint64_t));
  arena->dirty = arena->free + words;
  arena->start = arena->dirty + words;
  at = (char *)round_up((uintptr_t)(arena->start + words), CACHE_LINE);
  arena->runs = (run_t *)at;
  at += units * sizeof(run_t);
  arena->long_bitmaps = long_bitmaps ? (uint64_t *)at : NULL;
  return at + (long_bitmaps ? (size_t)units * LONG_BITMAP_WORDS * sizeof(uint64_t) : 0);
}

/* The head as far as it is made usable with the arena; the long bitmaps behind it follow the units they are for, so that a
 * limit on writable memory sees what is used. */
static size_t arena_head_bytes(uint32_t units)
{
  arena_t head;
  return round_up((uintptr_t)arena_lay_out(&head, (char *)sizeof head, units, false), UNIT);
}

static size_t arena_long_bitmap_bytes(size_t units) { return units * LONG_BITMAP_WORDS * sizeof(uint64_t); }

static arena_t *arena_create(space_t *space)
{
  size_t size = (size_t)1 << space_arena_log2;
  uint32_t units = (uint32_t)(size >> UNIT_LOG2);
  if (space_arena_count == ARENA_LIMIT)
    return NULL;
  arena_t *arena = class_map_windowed ? reserve_arena_in_window() : os_reserve(size, size);
  if (!arena)
    return NULL;
  if ((uintptr_t)arena >> ADDRESS_LOG2 || !os_commit(arena, arena_head_bytes(units)) || !class_map_open(arena, size)) {
    os_release(arena, size);
    return NULL;
  }
  size_t head = arena_head_bytes(units);
  arena_lay_out(arena, (char *)(arena + 1), units, false);
  arena->long_bitmaps = (uint64_t *)((char *)arena + head);
  arena->space = space;
  arena->base = (char *)arena;
  arena->unit_log2 = UNIT_LOG2;
  head = round_up(head + arena_long_bitmap_bytes(units), UNIT);
  arena->first_unit = arena->hint = arena->used_end = arena->committed = (uint32_t)(head >> UNIT_LOG2);
  bits_set(arena->free, arena->first_unit, units);
  space_arenas[space_arena_count] = arena;
  __atomic_store_n(&space_arena_count, space_arena_count + 1, __ATOMIC_RELEASE);
  size_t slot = (uintptr_t)arena >> space_arena_log2;
  __atomic_fetch_or(&arena_slots[slot / WORD_BITS], (uint64_t)1 << slot % WORD_BITS, __ATOMIC_RELEASE);
  return arena;
}

/* As many units as the memory has room for with their records. Blocks of a unit of up to 4 KiB need no long bitmap. */
char *space_init_region(space_t *space, arena_t *arena, void *memory, size_t size, unsigned unit_log2, bool system, bool zeroed)
{
  size_t unit = (size_t)1 << unit_log2, alignment = size < 64 * KIB ? REGION_ALIGNMENT : unit;
  uintptr_t end = round_down((uintptr_t)memory + size, alignment);
  *space = (space_t){.fixed = arena, .unit_log2 = unit_log2, .alignment = (uint32_t)alignment, .purgeable = system && unit >= os_page_size(),
                     .purge_delay_ms = PURGE_NEVER};
  *arena = (arena_t){.space = space, .unit_log2 = unit_log2};
  for (size_t units = size >> unit_log2; units > 0; units--) {
    char *records = arena_lay_out(arena, memory, (uint32_t)units, unit > 4 * KIB);
    if ((uintptr_t)records > end || (end - (uintptr_t)records) >> unit_log2 < units)
      continue;
    arena->base = (char *)(end - (units << unit_log2));
    arena->committed = (uint32_t)units;
    space->alignment = (uint32_t)min_size(unit, (uintptr_t)arena->base & -(uintptr_t)arena->base);
    memset(arena->free, 0, 3 * ((units + WORD_BITS - 1) / WORD_BITS) * sizeof(uint64_t));
    bits_set(arena->free, 0, units);
    if (!zeroed)
      bits_set(arena->dirty, 0, units);
    space->dirty_units = zeroed ? 0 : units;
    return records;
  }
  return NULL;
}

/* ---- taking and giving runs, under the space's lock ---- */

static bool arena_commit_units(arena_t *arena, uint32_t end)
{
  size_t from = arena->committed, bytes = (size_t)(end - from) << arena->unit_log2;
  char *start = arena->base + (from << arena->unit_log2);
  size_t page = os_page_size(), bitmaps = (uintptr_t)arena->long_bitmaps;
  size_t first = round_down(bitmaps + arena_long_bitmap_bytes(from), page), last = bitmaps + arena_long_bitmap_bytes(end);
  if (!os_commit((void *)first, round_up(last - first, page)) || !os_commit(start, bytes))
    return false;
  if (arena->space->huge_pages == HUGE_PAGES_ALWAYS)
    os_wish_huge_pages(start, bytes, true);
  arena->committed = end;
  return true;
}

/* A step at a time, or no more than needed where a whole step is refused. */
static bool arena_commit(arena_t *arena, uint32_t end)
{
  uint32_t step = class_map_windowed ? COMMIT_UNITS_WINDOWED : COMMIT_UNITS;
  uint32_t whole = (uint32_t)min_size(round_up(end, step), arena->unit_count);
  return end <= arena->committed || arena_commit_units(arena, whole) || (end < whole && arena_commit_units(arena, end));
}

#define NO_UNIT UINT32_MAX

static uint32_t arena_search(arena_t *arena, uint32_t units, uint32_t alignment)
{
  size_t end = arena->unit_count, base = (uintptr_t)arena->base >> arena->unit_log2;
  bool skewed = (uintptr_t)arena->base & (((size_t)1 << arena->unit_log2) - 1);
  if (alignment > 1 && skewed)
    return NO_UNIT;
  size_t at = bits_next_set(arena->free, arena->hint, end);
  arena->hint = (uint32_t)at;
  while (at + units <= end) {
    size_t aligned = round_up(base + at, alignment) - base;
    if (aligned + units > end)
      break;
    size_t gap = bits_next_clear(arena->free, aligned, aligned + units);
    if (gap >= aligned + units)
      return (uint32_t)aligned;
    at = bits_next_set(arena->free, gap, end);
  }
  return NO_UNIT;
}

/* Units [from, to), all free, are used from now on. Returns how many were dirty. */
static size_t arena_occupy(arena_t *arena, uint32_t from, uint32_t to)
{
  space_t *space = arena->space;
  size_t dirty = bits_count(arena->dirty, from, to);
  bits_clear(arena->free, from, to);
  if (dirty)
    bits_clear(arena->dirty, from, to);
  space->dirty_units -= dirty;
  space->low_dirty = min_size(space->low_dirty, space->dirty_units);
  space->used_units += to - from;
  space->peak_units = max_size(space->peak_units, space->used_units + space->dirty_units);
  if (from < arena->used_end)
    space->taken_again += min_size(to, arena->used_end) - from;
  if (to > arena->used_end)
    arena->used_end = to;
  return dirty;
}

static void arena_vacate(arena_t *arena, uint32_t from, uint32_t to, bool dirty)
{
  space_t *space = arena->space;
  bits_set(arena->free, from, to);
  if (dirty) {
    bits_set(arena->dirty, from, to);
    space->dirty_units += to - from;
  }
  space->used_units -= to - from;
  if (from < arena->hint)
    arena->hint = from;
}

/* Relaxed: who frees a block looks for its run's bit in a word whose other bits change. */
static void start_set(arena_t *arena, uint32_t at, bool value)
{
  uint64_t *word = &arena->start[at / WORD_BITS], bit = (uint64_t)1 << at % WORD_BITS;
  __atomic_store_n(word, value ? *word | bit : *word & ~bit, __ATOMIC_RELAXED);
}

typedef enum taken { TAKEN, NO_ROOM, NO_MEMORY } taken_t;

static taken_t arena_take(arena_t *arena, uint32_t units, uint32_t alignment, run_t **taken)
{
  uint32_t at = arena_search(arena, units, alignment);
  if (at == NO_UNIT)
    return NO_ROOM;
  if (!arena_commit(arena, at + units))
    return NO_MEMORY;
  run_t *run = *taken = &arena->runs[at];
  run->units = units;
  run->size = 0;
  run->start = arena->base + ((size_t)at << arena->unit_log2);
  run->zeroed = arena_occupy(arena, at, at + units) == 0;
  run_become(run, RUN_NONE, NULL);
  start_set(arena, at, true);
  return TAKEN;
}

/* Another arena helps where there was no room, not where the system has no memory left. */
static run_t *space_search(space_t *space, uint32_t units, uint32_t alignment)
{
  run_t *run = NULL;
  taken_t taken = NO_ROOM;
  if (space->fixed) {
    arena_take(space->fixed, units, alignment, &run);
    return run;
  }
  for (uint32_t i = 0; i < space_arena_count && taken == NO_ROOM; i++)
    taken = arena_take(space_arenas[i], units, alignment, &run);
  arena_t *fresh = taken == NO_ROOM ? arena_create(space) : NULL;
  if (fresh)
    arena_take(fresh, units, alignment, &run);
  return run;
}

run_t *space_take(space_t *space, size_t units, size_t alignment)
{
  if (units > (space->fixed ? space->fixed->unit_count : space_longest_run()) || alignment > space_longest_run())
    return NULL;
  lock_acquire(&space->lock);
  run_t *run = space_search(space, (uint32_t)units, (uint32_t)max_size(alignment, 1));
  lock_release(&space->lock);
  if (run && space->huge_pages == HUGE_PAGES_AUTO && units >= 2 * HUGE_PAGE_UNITS)
    os_wish_huge_pages(run->start, units << UNIT_LOG2, true);
  return run;
}

/* ---- giving memory back ---- */

static size_t kept_units(const space_t *space)
{
  size_t breath = min_size(space->taken_again, max_size(space->used_units, KEEP_BREATH_UNITS));
  return max_size(max_size(KEEP_LEAST_UNITS, space->used_units / 8), breath);
}

/* The highest dirty units of an arena, at most one word of them: [*from, *to). */
static bool highest_dirty(const arena_t *arena, uint32_t *from, uint32_t *to)
{
  for (uint32_t w = (arena->used_end + WORD_BITS - 1) / WORD_BITS; w--;) {
    uint64_t word = arena->dirty[w];
    if (!word)
      continue;
    unsigned high = log2_floor(word);
    uint64_t below = ~word & ~(uint64_t)0 >> (WORD_BITS - 1 - high);   /* the clean ones under it */
    *to = w * WORD_BITS + high + 1;
    *from = w * WORD_BITS + (below ? log2_floor(below) + 1 : 0);
    return true;
  }
  return false;
}

static arena_t *arena_to_purge(const space_t *space, uint32_t *from, uint32_t *to)
{
  if (space->fixed)
    return highest_dirty(space->fixed, from, to) ? space->fixed : NULL;
  for (uint32_t i = space_arena_count; i--;)
    if (highest_dirty(space_arenas[i], from, to))
      return space_arenas[i];
  return NULL;
}

/* The system is asked with the lock open: meanwhile the units are neither free nor dirty, so nobody takes them. */
static size_t purge_step(space_t *space, size_t most)
{
  uint32_t from, to;
  arena_t *arena = arena_to_purge(space, &from, &to);
  if (!arena)
    return 0;
  if (to - from > most)
    from = to - (uint32_t)most;
  uint32_t units = to - from;
  bits_clear(arena->free, from, to);
  bits_clear(arena->dirty, from, to);
  space->dirty_units -= units;
  lock_release(&space->lock);
  bool purged = os_purge(arena->base + ((size_t)from << arena->unit_log2), (size_t)units << arena->unit_log2);
  lock_acquire(&space->lock);
  bits_set(arena->free, from, to);
  if (from < arena->hint)
    arena->hint = from;
  if (!purged) {
    bits_set(arena->dirty, from, to);
    space->dirty_units += units;
    return 0;
  }
  space->low_dirty = min_size(space->low_dirty, space->dirty_units);
  space->purged_bytes += (uint64_t)units << arena->unit_log2;
  return units;
}

static size_t purge_until(space_t *space, size_t keep_units)
{
  size_t purged = 0, step;
  while (space->dirty_units > keep_units && (step = purge_step(space, space->dirty_units - keep_units)) != 0)
    purged += step;
  return purged;
}

size_t space_dirty_bytes(space_t *space)
{
  lock_acquire(&space->lock);
  size_t bytes = space->dirty_units << space->unit_log2;
  lock_release(&space->lock);
  return bytes;
}

size_t space_purge(space_t *space, size_t keep)
{
  if (!space->purgeable)
    return 0;
  lock_acquire(&space->lock);
  size_t purged = purge_until(space, keep >> space->unit_log2);
  lock_release(&space->lock);
  return purged << space->unit_log2;
}

size_t space_purge_inside(space_t *space, char *from, char *to)
{
  char *first = (char *)round_up((uintptr_t)from, os_page_size());
  size_t bytes = round_down((uintptr_t)to, os_page_size()) - (uintptr_t)first;
  if (!os_purge(first, bytes))
    return 0;
  lock_acquire(&space->lock);
  space->purged_bytes += bytes;
  lock_release(&space->lock);
  return bytes;
}

/* After units came back: more than a quarter over what is kept is purged at once, so that one call serves many gives. */
static void settle(space_t *space)
{
  if (space->fixed || space->purge_delay_ms == PURGE_NEVER)
    return;
  size_t keep = space->purge_delay_ms ? kept_units(space) : 0;
  if (space->dirty_units > keep + keep / 4)
    purge_until(space, keep);
}

/* Where address space is short, an arena without a run goes back, so that there is room for the stacks of threads. A question
 * about an address in it that is asked at this very moment may fault; blocks have none. */
static bool arena_release_unused(arena_t *arena)
{
  space_t *space = arena->space;
  if (!class_map_windowed || space->fixed || space_arena_count == 1 ||
      bits_next_clear(arena->free, arena->first_unit, arena->unit_count) < arena->unit_count)
    return false;
  size_t slot = (uintptr_t)arena >> space_arena_log2, size = (size_t)1 << space_arena_log2;
  size_t dirty = bits_count(arena->dirty, arena->first_unit, arena->unit_count);
  __atomic_fetch_and(&arena_slots[slot / WORD_BITS], ~((uint64_t)1 << slot % WORD_BITS), __ATOMIC_RELEASE);
  uint32_t at = 0;
  while (space_arenas[at] != arena)
    at++;
  space_arenas[at] = space_arenas[space_arena_count - 1];
  __atomic_store_n(&space_arena_count, space_arena_count - 1, __ATOMIC_RELEASE);
  space->dirty_units -= dirty;
  space->low_dirty = min_size(space->low_dirty, space->dirty_units);
  space->purged_bytes += dirty << UNIT_LOG2;
  os_release(arena, size);
  return true;
}

void space_give(space_t *space, run_t *run, bool dirty)
{
  arena_t *arena = arena_of(space, run->start);
  space = arena->space;
  uint32_t at = (uint32_t)(run - arena->runs);
  lock_acquire(&space->lock);
  start_set(arena, at, false);
  run_become(run, RUN_NONE, NULL);
  arena_vacate(arena, at, at + run->units, dirty);
  if (!arena_release_unused(arena))
    settle(space);
  lock_release(&space->lock);
}

run_t *space_take_charged(space_t *space, budget_t *budget, size_t bytes, size_t alignment)
{
  for (; space; space = space->beyond) {
    size_t units = space_units(space, bytes), price = space_price(space, units);
    bool skewed = space->alignment >> space->unit_log2 == 0;
    if ((skewed && alignment > space->alignment) || !budget_charge(budget, price))
      continue;
    run_t *run = space_take(space, units, space_units(space, alignment));
    if (run) {
      budget_note_peak(budget);
      return run;
    }
    budget_discharge(budget, price);
  }
  return NULL;
}

void space_give_charged(space_t *space, budget_t *budget, run_t *run, bool dirty)
{
  size_t price = space_price(arena_of(space, run->start)->space, run->units);
  space_give(space, run, dirty);
  budget_discharge(budget, price);
}

void space_shorten(space_t *space, run_t *run, size_t units)
{
  arena_t *arena = arena_of(space, run->start);
  space = arena->space;
  uint32_t at = (uint32_t)(run - arena->runs);
  lock_acquire(&space->lock);
  arena_vacate(arena, at + (uint32_t)units, at + run->units, true);
  run->units = (uint32_t)units;
  settle(space);
  lock_release(&space->lock);
}

bool space_lengthen(space_t *space, run_t *run, size_t units)
{
  arena_t *arena = arena_of(space, run->start);
  space = arena->space;
  uint32_t at = (uint32_t)(run - arena->runs), end = at + run->units;
  if (at + units > arena->unit_count)
    return false;
  uint32_t to = at + (uint32_t)units;
  lock_acquire(&space->lock);
  bool longer = bits_next_clear(arena->free, end, to) >= to && arena_commit(arena, to);
  if (longer) {
    if (arena_occupy(arena, end, to))
      run->zeroed = false;
    run->units = (uint32_t)units;
  }
  lock_release(&space->lock);
  return longer;
}

bool space_tick(space_t *space, uint64_t now_ms)
{
  uint32_t delay = space->purge_delay_ms / TICKS_PER_DELAY;
  if (space->purge_delay_ms == PURGE_NEVER || now_ms - __atomic_load_n(&space->epoch_ms, __ATOMIC_RELAXED) < delay)
    return false;
  lock_acquire(&space->lock);
  bool due = now_ms - space->epoch_ms >= delay;
  if (due) {
    __atomic_store_n(&space->epoch_ms, now_ms, __ATOMIC_RELAXED);
    size_t unneeded = space->low_dirty;
    space->taken_again /= 2;
    if (unneeded > KEEP_LEAST_UNITS)
      purge_until(space, space->dirty_units - min_size(unneeded - KEEP_LEAST_UNITS, space->dirty_units));
    space->low_dirty = space->dirty_units;
  }
  lock_release(&space->lock);
  return due;
}

/* ---- questions ---- */

run_t *arena_find(arena_t *arena, const void *address)
{
  size_t unit = (uintptr_t)((const char *)address - arena->base) >> arena->unit_log2;
  run_t *run = NULL;
  lock_acquire(&arena->space->lock);
  if (unit >= arena->first_unit && unit < arena->used_end && !bit_test(arena->free, unit)) {
    run = run_of(arena, address);
    if ((size_t)((const char *)address - run->start) >= run_bytes(arena, run))
      run = NULL;
  }
  lock_release(&arena->space->lock);
  return run;
}

bool arena_had_run(arena_t *arena, const void *address)
{
  size_t unit = (uintptr_t)((const char *)address - arena->base) >> arena->unit_log2;
  return unit >= arena->first_unit && unit < arena->used_end && bit_test(arena->free, unit) && arena->runs[unit].start == address &&
         arena->runs[unit].size;
}

/* The arena of the process that holds the address, or NULL. */
static arena_t *arena_around(const void *address)
{
  uintptr_t a = (uintptr_t)address;
  if (!space_arena_log2 || a >> (class_map_windowed ? WINDOW_ADDRESS_LOG2 : ADDRESS_LOG2))
    return NULL;
  size_t slot = a >> space_arena_log2;
  bool is_arena = __atomic_load_n(&arena_slots[slot / WORD_BITS], __ATOMIC_ACQUIRE) >> slot % WORD_BITS & 1;
  return is_arena ? (arena_t *)round_down(a, (size_t)1 << space_arena_log2) : NULL;
}

run_t *space_find(const void *address)
{
  arena_t *arena = arena_around(address);
  return arena ? arena_find(arena, address) : NULL;
}

bool space_had_run(const void *address)
{
  arena_t *arena = arena_around(address);
  return arena && arena_had_run(arena, address);
}

static run_t *next_run_in(const arena_t *arena, const char *from, run_wanted_fn *wanted, const void *context)
{
  size_t at = from > arena->base ? (size_t)(from - arena->base) >> arena->unit_log2 : 0, end = arena->used_end;
  for (at = bits_next_set(arena->start, at, end); at < end; at = bits_next_set(arena->start, at + 1, end))
    if (wanted(&arena->runs[at], context))
      return &arena->runs[at];
  return NULL;
}

static char *arena_end(const arena_t *arena) { return arena->base + ((size_t)arena->unit_count << arena->unit_log2); }

/* By address, since arenas of the process may change places in the list between two calls. */
static arena_t *arena_from(const space_t *space, const char *from)
{
  if (space->fixed)
    return from < arena_end(space->fixed) ? space->fixed : NULL;
  arena_t *next = NULL;
  for (uint32_t i = 0; i < space_arena_count; i++)
    if (from < arena_end(space_arenas[i]) && (!next || space_arenas[i] < next))
      next = space_arenas[i];
  return next;
}

run_t *space_next_run(space_t *space, const void *from, run_wanted_fn *wanted, const void *context)
{
  run_t *run = NULL;
  lock_acquire(&space->lock);
  for (arena_t *arena; !run && (arena = arena_from(space, from)) != NULL; from = arena_end(arena))
    run = next_run_in(arena, from, wanted, context);
  lock_release(&space->lock);
  return run;
}
