/* SPDX-License-Identifier: MIT
 *
 * A unit has a bit in each of three bitmaps (free, dirty, start). A run has a descriptor at the number of its first unit. The
 * bitmaps, `huge`, and the tree over the free units are mapped entirely; descriptors and long bitmaps are mapped with their
 * units. */
#include "space/arena.h"
#include "os/os.h"
#include "space/budget.h"
#include <string.h>

enum {
  RECORDS_STEP = 32 << 10,       /* bytes of runs or bitmaps mapped at a time */
  FIRST_UNIT_ALIGNMENT = 2 << 20 /* a huge page */
};

/* ---- records ---- */

/* Computes with integers: a layout that is only measured begins at address 0, and pointer arithmetic on NULL is undefined. */
static char *place(char **at, size_t bytes, size_t alignment)
{
  uintptr_t start = round_up((uintptr_t)*at, alignment);
  *at = (char *)(start + bytes);
  return (char *)start;
}

static word_t *place_map(char **at, size_t bits)
{
  return (word_t *)place(at, bits_words(bits) * sizeof(word_t), sizeof(word_t));
}

/* What is written at once comes first, and what small programs never write comes later: they touch fewer pages. */
static char *lay_out_maps(arena_t *arena, char *records, size_t units)
{
  arena->room.map = place_map(&records, units);
  arena->room.node = (uint64_t *)place(&records, span_tree_words(units) * sizeof(uint64_t), sizeof(uint64_t));
  arena->start = place_map(&records, units);
  arena->dirty = place_map(&records, units);
  return records;
}

static size_t long_bitmap_bytes(size_t units) { return units * LONG_BITMAP_WORDS * sizeof(word_t); }

char *arena_lay_out(arena_t *arena, char *records, size_t units)
{
  records = lay_out_maps(arena, records, units);
  arena->runs = (run_t *)place(&records, units * sizeof(run_t), 64);
  arena->long_bitmaps = (word_t *)place(&records, long_bitmap_bytes(units), 64);
  return records;
}

/* Records outside the window may be in used memory. Those in the window are new, and read as zero. */
void arena_begin(arena_t *arena, char *base, size_t units, bool dirty)
{
  arena->base = base;
  arena->unit_count = (uint32_t)units;
  if (!arena_is_in_window(arena))
    memset(arena->room.map, 0, (size_t)((char *)arena->runs - (char *)arena->room.map));
  bits_set(arena->room.map, 0, units);
  span_tree_init(&arena->room, arena->room.map, arena->room.node, units);
  if (dirty)
    bits_set(arena->dirty, 0, units);
  arena->dirty_count = dirty ? (uint32_t)units : 0;
}

/* ---- arenas of the window: records and units are mapped as they are needed ---- */

/* Runs and long bitmaps are each followed by room for one step: map_more() must not overlap the next records. */
static size_t lay_out_slot(arena_t *arena, char *slot, size_t units)
{
  char *end = slot;
  place(&end, ARENA_GAP + sizeof *arena, 1);
  arena->huge = place_map(&end, HUGE_PAGES_MOST);
  arena->shared = place_map(&end, HUGE_PAGES_MOST);
  arena->holes = place_map(&end, HUGE_PAGES_MOST);
  end = lay_out_maps(arena, end, units);
  arena->moved = place_map(&end, units);
  if (units > SLOT >> UNIT_LOG2)
    arena->holes = arena->moved = NULL;
  arena->runs = (run_t *)place(&end, units * sizeof(run_t), 64);
  place(&end, RECORDS_STEP, 1);
  arena->long_bitmaps = (word_t *)place(&end, long_bitmap_bytes(units), ARENA_GAP);
  return round_up((uintptr_t)end - (uintptr_t)slot + ARENA_GAP + RECORDS_STEP, FIRST_UNIT_ALIGNMENT);
}

static size_t first_unit_offset(size_t units)
{
  arena_t scratch;
  return lay_out_slot(&scratch, NULL, units);
}

static size_t units_of_slot(void) { return (SLOT - first_unit_offset(SLOT >> UNIT_LOG2)) >> UNIT_LOG2; }

size_t arena_slots_for(size_t units) { return (first_unit_offset(units) + (units << UNIT_LOG2) + SLOT - 1) >> SLOT_LOG2; }

/* Maps a whole step if possible, which saves calls, or only what is needed. */
static os_mapped_t map_more(char **end, const void *needed)
{
  if (*end >= (const char *)needed)
    return OS_MAPPED;
  size_t least = round_up((size_t)((const char *)needed - *end), os_page_size()), step = round_up(least, RECORDS_STEP);
  os_mapped_t mapped = refusals_map_at(*end, step);
  if (mapped != OS_MAPPED && least < step)
    mapped = refusals_map_at(*end, step = least);
  if (mapped == OS_MAPPED)
    *end += step;
  return mapped;
}

os_mapped_t arena_map_records(arena_t *arena, size_t units)
{
  os_mapped_t mapped = map_more(&arena->runs_end, arena->runs + units);
  return mapped == OS_MAPPED ? map_more(&arena->long_bitmaps_end, arena_long_bitmap(arena, units)) : mapped;
}

/* The layout begins as a draft, because the arena's own memory is not mapped yet. */
taken_t arena_create(struct space *space, size_t slot, size_t units, arena_t **arena)
{
  units = units ? units : units_of_slot();
  char *start = window_slot(slot);
  arena_t draft = {.space = space, .slot = slot, .slots = arena_slots_for(units)};
  size_t first = lay_out_slot(&draft, start, units);
  draft.runs_end = start + ARENA_GAP;
  draft.long_bitmaps_end = (char *)draft.long_bitmaps;
  os_mapped_t mapped = map_more(&draft.runs_end, draft.runs);
  if (mapped == OS_MAPPED) {
    *arena = memcpy(start + ARENA_GAP, &draft, sizeof draft);
    arena_begin(*arena, start + first, units, false);
  }
  return taken_of(mapped);
}

static size_t unit_bytes(const arena_t *arena) { return (size_t)arena->committed << UNIT_LOG2; }
static size_t bitmap_bytes(const arena_t *arena) { return (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps); }

/* Unmaps the last step in one call, which is short. */
void arena_purge_to_end(arena_t *arena)
{
  if (unit_bytes(arena) > OS_PURGE_STEP)
    os_purge_in_steps(arena->base, unit_bytes(arena));
}

/* The record goes last and stores the progress for the next attempt. If the units cannot be unmapped, they may be purged. */
bool arena_destroy(arena_t *arena)
{
  if (arena->committed && !refusals_unmap(arena->base, unit_bytes(arena))) {
    if (arena->dirty_count && os_purge(arena->base, unit_bytes(arena)))
      arena->dirty_count = 0;
    return false;
  }
  arena->committed = arena->dirty_count = 0;
  if (bitmap_bytes(arena) && !refusals_unmap(arena->long_bitmaps, bitmap_bytes(arena)))
    return false;
  arena->long_bitmaps_end = (char *)arena->long_bitmaps;
  return refusals_unmap(arena, (size_t)(arena->runs_end - (char *)arena));
}

/* Records of units that are not mapped hold no memory (arena_give_records()). */
size_t arena_record_bytes(const arena_t *arena)
{
  uintptr_t end = round_up((uintptr_t)(arena->runs + arena->committed), os_page_size());
  return bitmap_bytes(arena) + min_size(end, (uintptr_t)arena->runs_end) - (uintptr_t)arena;
}

/* Forgotten units are below `committed`, as are all units that are not free. */
size_t arena_mapped_bytes(const arena_t *arena)
{
  size_t absent = arena->hole_count * (size_t)HUGE_PAGE_UNITS + arena->forgotten;
  return unit_bytes(arena) - (absent << UNIT_LOG2) + bitmap_bytes(arena) + (size_t)(arena->runs_end - (const char *)arena);
}

/* If the system took the memory of the units but not their addresses, only the records count. */
size_t arena_left(const arena_t *arena)
{
  size_t units = arena->dirty_count ? unit_bytes(arena) : 0;
  return units + arena_record_bytes(arena);
}

/* Returns the records of unmapped units. The runs are purged, not unmapped: a query or a walk may still read the run of a slab
 * that has ended, and then finds a run of no kind. The bitmaps are unmapped. They are only read under their bin's lock or, if
 * the bin is single-threaded and has none, under the space's, which this caller holds. */
void arena_give_records(arena_t *arena, size_t units)
{
  char *runs = (char *)round_up((uintptr_t)(arena->runs + units), os_page_size());
  char *bitmaps = (char *)round_up((uintptr_t)(arena_long_bitmap(arena, units)), os_page_size());
  if (runs < arena->runs_end)
    os_purge(runs, (size_t)(arena->runs_end - runs));
  if (bitmaps + RECORDS_STEP <= arena->long_bitmaps_end && refusals_unmap(bitmaps, (size_t)(arena->long_bitmaps_end - bitmaps)))
    arena->long_bitmaps_end = bitmaps;
}

/* ---- room for a run ---- */

/* Returns the bits of the word at which at least `n` set bits begin, n <= WORD_BITS. They may end in the next word. */
static word_t stretch_starts(word_t word, word_t behind, size_t n)
{
  for (size_t known = 1, step; known < n; known += step) {
    step = min_size(known, n - known);
    word &= word >> step | behind << (WORD_BITS - step);
    behind &= behind >> step;
  }
  return word;
}

/* Returns the bits of a word that are multiples of an alignment below WORD_BITS. */
static word_t aligned_bits(size_t alignment)
{
  word_t bits = 1;
  for (size_t step = alignment; step < WORD_BITS; step *= 2)
    bits |= bits << step;
  return bits;
}

static bool fits_at(const arena_t *arena, size_t at, size_t units)
{
  return at + units <= arena->unit_count && bits_next_clear(arena->room.map, at, at + units) == at + units;
}

/* Finds the lowest aligned run for an alignment below a word of units. Tests all positions in a word together. */
static size_t find_aligned_in_words(const arena_t *arena, size_t units, size_t alignment)
{
  const word_t *map = arena->room.map;
  size_t words = (arena->unit_count + WORD_BITS - 1) / WORD_BITS;
  word_t aligned = aligned_bits(alignment);
  for (size_t w = 0; w < words; w++) {
    word_t behind = w + 1 < words ? map[w + 1] : 0, starts = map[w] & aligned;
    for (starts &= starts ? stretch_starts(map[w], behind, min_size(units, WORD_BITS)) : 0; starts; starts &= starts - 1) {
      size_t at = w * WORD_BITS + lowest_bit(starts);
      if (units <= WORD_BITS || fits_at(arena, at, units))
        return at;
    }
  }
  return SPAN_NONE;
}

/* The tree quickly finds a stretch that is long enough for an aligned run wherever it begins. If there is none, a shorter one
 * may be aligned by chance. */
size_t arena_room_for(const arena_t *arena, size_t units, size_t alignment)
{
  if (alignment <= 1)
    return span_find(&arena->room, units);
  size_t base = (uintptr_t)arena->base >> UNIT_LOG2;
  size_t at = span_find(&arena->room, units + alignment - 1);
  if (at != SPAN_NONE)
    return round_up(base + at, alignment) - base;
  if (span_longest(&arena->room) < units)
    return SPAN_NONE;
  if (alignment < WORD_BITS && base % alignment == 0)
    return find_aligned_in_words(arena, units, alignment);
  for (at = round_up(base, alignment) - base; at + units <= arena->unit_count; at += alignment)
    if (fits_at(arena, at, units))
      return at;
  return SPAN_NONE;
}

size_t arena_mapped_room_for(const arena_t *arena, size_t end, size_t units, size_t alignment)
{
  size_t base = (uintptr_t)arena->base >> UNIT_LOG2, step = max_size(alignment, 1);
  for (size_t at = 0; (at = bits_next_set(arena->room.map, at, end)) < end;) {
    at = round_up(base + at, step) - base;
    if (at + units > end)
      break;
    size_t used = bits_next_clear(arena->room.map, at, at + units), pages_end = (at + units - 1) / HUGE_PAGE_UNITS + 1;
    size_t hole = bits_next_set(arena->holes, at / HUGE_PAGE_UNITS, pages_end);
    if (used == at + units && hole == pages_end)
      return at;
    at = used < at + units ? used : (hole + 1) * HUGE_PAGE_UNITS;
  }
  return SPAN_NONE;
}

/* ---- queries ---- */

/* Descriptors at or beyond used_end may not be mapped, and those of free units are not valid. */
run_t *arena_find(const arena_t *arena, const void *address)
{
  size_t unit = unit_of(arena, address);
  if (unit >= arena->used_end || bit_test(arena->room.map, unit))
    return NULL;
  run_t *run = run_of(arena, address);
  bool starts = bit_test(arena->start, (size_t)(run - arena->runs)); /* units that are being purged belong to no run */
  return starts && (size_t)((const char *)address - run->start) < run_bytes(run) ? run : NULL;
}

/* A free unit whose descriptor has a start and a size was a large block. Descriptors beyond `committed` may be purged. */
bool arena_had_run(const arena_t *arena, const void *address)
{
  size_t unit = unit_of(arena, address);
  return unit < min_size(arena->committed, arena->used_end) && bit_test(arena->room.map, unit) &&
         arena->runs[unit].start == address && arena->runs[unit].size;
}
