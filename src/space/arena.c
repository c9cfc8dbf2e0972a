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

/* ---- huge pages ---- */

enum {
  WINDOW_UNITS = HUGE_PAGES_FROM,                 /* units below a page that predict whether it will be filled */
  FILLED_LEAST = WINDOW_UNITS - WINDOW_UNITS / 4, /* units of filled slabs in the window; open slabs take some of the rest */
  OTHERS_MOST = WINDOW_UNITS / 8, /* units of runs of unknown density: a huge page would make them resident entirely */
  UNTOUCHED_SHARE = 16            /* at most one block in 16 of a filled slab was never handed out */
};

/* Marks the pages of these units as possibly huge or not. Atomic, because huge_pages_split() has no lock. */
static void mark_huge(arena_t *arena, size_t from, size_t to, bool huge)
{
  for (size_t page = from / HUGE_PAGE_UNITS; page * HUGE_PAGE_UNITS < to; page++) {
    word_t *word = &arena->huge[page / WORD_BITS], bit = bit_of(page);
    if (huge)
      __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    else
      __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
  }
}

static void wish(arena_t *arena, size_t from, size_t to, bool wanted)
{
  os_wish_huge_pages(arena->base + (from << UNIT_LOG2), (to - from) << UNIT_LOG2, wanted);
  if (wanted)
    mark_huge(arena, from, to, true);
}

/* Atomic, because huge_pages_split() reads it without the lock. */
static void set_open_page(arena_t *arena, uint32_t page) { __atomic_store_n(&arena->open_page, page, __ATOMIC_RELAXED); }
static uint32_t open_page(const arena_t *arena) { return __atomic_load_n(&arena->open_page, __ATOMIC_RELAXED); }

/* ---- opening a page ---- */

/* The first write to each block of at most a page touches all pages. Blocks of a few pages, such as tables or database pages,
 * are mostly filled too. Larger ones are unknown. This reads without the bin's lock, so figures may be some blocks behind. */
READS_BESIDE_OWNER static void count_run(const run_t *run, size_t *filled, size_t *others)
{
  if (run_kind(run) != RUN_SLAB || run->capacity < run_bytes(run) / FILLED_BLOCK_MOST)
    *others += run->units;
  else if (run->fresh >= run->capacity - run->capacity / UNTOUCHED_SHARE)
    *filled += run->units;
}

/* Predicts that memory is filled as densely as the window below it. */
static bool is_dense_below(const arena_t *arena, size_t end)
{
  size_t filled = 0, others = 0;
  for (size_t unit = end - min_size(end, WINDOW_UNITS); unit < end; unit++)
    if (!bit_test(arena->room.map, unit) && bit_test(arena->start, unit))
      count_run(&arena->runs[unit], &filled, &others);
  return filled >= FILLED_LEAST && others <= OTHERS_MOST;
}

static bool hold_nothing(const arena_t *arena, size_t from, size_t to)
{
  return from >= to || (bits_next_clear(arena->room.map, from, to) == to && bits_next_set(arena->dirty, from, to) == to);
}

static void close_page(arena_t *arena)
{
  size_t page = open_page(arena);
  if (page != NO_PAGE)
    wish(arena, page * HUGE_PAGE_UNITS, (page + 1) * HUGE_PAGE_UNITS, false);
  set_open_page(arena, NO_PAGE);
}

static void open_if_dense(arena_t *arena, size_t page)
{
  size_t from = page * HUGE_PAGE_UNITS, to = from + HUGE_PAGE_UNITS;
  if (!is_dense_below(arena, from))
    return;
  if (open_page(arena) == NEVER_OPENED)
    wish(arena, 0, arena->committed, false);
  else
    close_page(arena);
  wish(arena, from, to, true);
  set_open_page(arena, (uint32_t)page);
}

/* A run may begin in one page and end in another, and owns the pages in between. */
void huge_pages_open(arena_t *arena, const run_t *run)
{
  if (arena->huge_pages != HUGE_PAGES_AUTO || arena->committed < HUGE_PAGES_FROM || !run->zeroed)
    return;
  size_t from = (size_t)(run - arena->runs), to = from + run->units, page = from / HUGE_PAGE_UNITS;
  if (page == open_page(arena)) /* the most frequent case */
    page++;
  for (; page * HUGE_PAGE_UNITS < to; page++) {
    size_t begin = page * HUGE_PAGE_UNITS, end = begin + HUGE_PAGE_UNITS;
    if (end <= arena->committed && hold_nothing(arena, begin, from) && hold_nothing(arena, to, end))
      open_if_dense(arena, page);
  }
}

void huge_pages_close_for(arena_t *arena, const run_t *run)
{
  size_t page = open_page(arena), from = (size_t)(run - arena->runs);
  if (page == NEVER_OPENED || page == NO_PAGE)
    return;
  if (from < (page + 1) * HUGE_PAGE_UNITS && from + run->units > page * HUGE_PAGE_UNITS)
    close_page(arena);
}

/* ---- mapping and unmapping units ---- */

/* Linux merges two mappings only if they have the same huge page advice when the second is first touched. So an open page that
 * ends where the new units begin is closed first. */
void huge_pages_map(arena_t *arena, size_t from, size_t to)
{
  if (from >= to)
    return;
  if (arena->huge_pages == HUGE_PAGES_ALWAYS) {
    wish(arena, from, to, true);
    set_open_page(arena, NO_PAGE);
  } else if (open_page(arena) != NEVER_OPENED) {
    if (((size_t)open_page(arena) + 1) * HUGE_PAGE_UNITS == from)
      close_page(arena);
    wish(arena, from, to, false);
  }
}

void huge_pages_unmap(arena_t *arena, size_t from, size_t to)
{
  uint32_t open = open_page(arena);
  if (open == NEVER_OPENED)
    return;
  mark_huge(arena, from, to, false);
  if (open != NO_PAGE && open >= from / HUGE_PAGE_UNITS && (size_t)open * HUGE_PAGE_UNITS < to)
    set_open_page(arena, NO_PAGE);
}

/* The page around `end` loses units, so it can no longer be huge. */
void huge_pages_contract(arena_t *arena, size_t end)
{
  huge_pages_unmap(arena, round_down(end, HUGE_PAGE_UNITS), (size_t)HUGE_PAGES_MOST * HUGE_PAGE_UNITS);
}

/* ---- returning memory ---- */

void huge_pages_note_fork(arena_t *arena) { __atomic_store_n(&arena->forked, true, __ATOMIC_RELAXED); }

/* The mark is cleared after the page has been split, so that no other thread purges in a page that is still whole. */
static void split_around(arena_t *arena, const char *address)
{
  size_t unit = unit_of(arena, address), page = unit / HUGE_PAGE_UNITS;
  if ((uintptr_t)address % huge_page_of_system == 0 || !huge_pages_may_be(arena, page))
    return;
  os_split_huge_page((char *)(uintptr_t)round_down((uintptr_t)address, os_page_size()));
  if (arena->huge_pages == HUGE_PAGES_AUTO && page != open_page(arena) && !__atomic_load_n(&arena->forked, __ATOMIC_RELAXED))
    mark_huge(arena, unit, unit + 1, false);
}

void huge_pages_split(arena_t *arena, const char *from, const char *to)
{
  if (open_page(arena) == NEVER_OPENED)
    return;
  split_around(arena, from);
  split_around(arena, to);
}
