/* SPDX-License-Identifier: MIT
 *
 * A unit has a bit in each of three bitmaps (free, dirty, start), and a run has a descriptor at the number of its first unit.
 * The bitmaps and the tree over the free units are mapped whole; descriptors and long bitmaps are mapped with the units they
 * describe. */
#include "space/arena.h"
#include "os/os.h"
#include <string.h>

enum {
  RECORDS_STEP = 32 << 10,       /* bytes of runs or bitmaps that are mapped at a time */
  COMMIT_LEAST_UNITS = 4,        /* 256 KiB: the least that is mapped beyond what is needed */
  COMMIT_MOST_UNITS = 64,        /* 4 MiB: the most of it */
  COMMIT_SHARE = 8,              /* in between it is this part of what is mapped */
  COMMIT_LIMIT_SHARE = 256,      /* it is never more than this part of a limit on memory */
  CONTRACT_LEAST_UNITS = 16,     /* 1 MiB: less is not unmapped at the high end, nor less than an eighth of what is mapped */
  FIRST_UNIT_ALIGNMENT = 2 << 20 /* a huge page */
};

/* ---- records ---- */

/* Reckons with integers: a layout that is only measured begins at address 0, where no pointer may have an offset. */
static char *place(char **at, size_t bytes, size_t alignment)
{
  uintptr_t start = round_up((uintptr_t)*at, alignment);
  *at = (char *)(start + bytes);
  return (char *)start;
}

static size_t map_words(size_t units) { return (units + WORD_BITS - 1) / WORD_BITS; }

/* The three bitmaps lie behind each other, so that arena_begin() can clear them at once. */
static char *lay_out(arena_t *arena, char *records, size_t units)
{
  size_t words = map_words(units);
  arena->room.map = (uint64_t *)place(&records, words * sizeof(uint64_t), sizeof(uint64_t));
  arena->dirty = (uint64_t *)place(&records, words * sizeof(uint64_t), sizeof(uint64_t));
  arena->start = (uint64_t *)place(&records, words * sizeof(uint64_t), sizeof(uint64_t));
  arena->room.node = (uint64_t *)place(&records, span_tree_words(units) * sizeof(uint64_t), sizeof(uint64_t));
  arena->runs = (run_t *)place(&records, units * sizeof(run_t), 64);
  arena->long_bitmaps = NULL;
  return records;
}

static size_t long_bitmap_bytes(size_t units, unsigned unit_log2)
{
  return units * long_bitmap_words(unit_log2) * sizeof(uint64_t);
}

char *arena_lay_out(arena_t *arena, char *records, size_t units, unsigned unit_log2)
{
  records = lay_out(arena, records, units);
  if (needs_long_bitmaps(unit_log2))
    arena->long_bitmaps = (uint64_t *)place(&records, long_bitmap_bytes(units, unit_log2), 64);
  return records;
}

/* The records may lie in memory that was used, so the bitmaps are cleared before they are believed. */
void arena_begin(arena_t *arena, char *base, size_t units, unsigned unit_log2, bool dirty)
{
  arena->base = base;
  arena->unit_log2 = unit_log2;
  arena->unit_count = (uint32_t)units;
  memset(arena->room.map, 0, 3 * map_words(units) * sizeof(uint64_t));
  bits_set(arena->room.map, 0, units);
  span_tree_init(&arena->room, arena->room.map, arena->room.node, units);
  if (dirty)
    bits_set(arena->dirty, 0, units);
  arena->dirty_count = arena->dirty_end = dirty ? (uint32_t)units : 0;
}

/* ---- arenas of the window: records and units are mapped as far as they are used ---- */

/* Behind the runs and behind the long bitmaps there is room for one step each: map_more() maps a whole step, which must not
 * reach what follows. */
static size_t lay_out_slot(arena_t *arena, char *slot, size_t units)
{
  char *end = slot;
  place(&end, ARENA_GAP + sizeof *arena, 1);
  end = lay_out(arena, end, units);
  place(&end, RECORDS_STEP, 1);
  arena->long_bitmaps = (uint64_t *)place(&end, long_bitmap_bytes(units, UNIT_LOG2), ARENA_GAP);
  return round_up((uintptr_t)end - (uintptr_t)slot + ARENA_GAP + RECORDS_STEP, FIRST_UNIT_ALIGNMENT);
}

static size_t first_unit_offset(size_t units)
{
  arena_t scratch;
  return lay_out_slot(&scratch, NULL, units);
}

static size_t units_of_slot(void) { return (SLOT - first_unit_offset(SLOT >> UNIT_LOG2)) >> UNIT_LOG2; }

size_t arena_slots_for(size_t units) { return (first_unit_offset(units) + (units << UNIT_LOG2) + SLOT - 1) >> SLOT_LOG2; }

/* Maps a whole step if it can, so that there are few calls; else only what is needed. */
static os_mapped_t map_more(char **end, const void *needed)
{
  if (*end >= (const char *)needed)
    return OS_MAPPED;
  size_t least = round_up((size_t)((const char *)needed - *end), os_page_size()), step = round_up(least, RECORDS_STEP);
  os_mapped_t mapped = os_map_at(*end, step);
  if (mapped != OS_MAPPED && least < step)
    mapped = os_map_at(*end, step = least);
  if (mapped == OS_MAPPED)
    *end += step;
  return mapped;
}

static os_mapped_t map_records(arena_t *arena, size_t units)
{
  os_mapped_t mapped = map_more(&arena->runs_end, arena->runs + units);
  return mapped == OS_MAPPED ? map_more(&arena->long_bitmaps_end, arena_long_bitmap(arena, units)) : mapped;
}

static taken_t taken_of(os_mapped_t mapped)
{
  return mapped == OS_MAPPED ? TAKEN : mapped == OS_OCCUPIED ? NO_ROOM : NO_MEMORY;
}

/* The arena is laid out in a draft first, because its own memory is not mapped yet. */
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
    arena_begin(*arena, start + first, units, UNIT_LOG2, false);
  }
  return taken_of(mapped);
}

static size_t unit_bytes(const arena_t *arena) { return (size_t)arena->committed << arena->unit_log2; }
static size_t bitmap_bytes(const arena_t *arena) { return (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps); }

/* Up to one step is left to the unmapping itself, which then does not take long. */
void arena_purge_to_end(arena_t *arena)
{
  if (unit_bytes(arena) > OS_PURGE_STEP)
    os_purge_in_steps(arena->base, unit_bytes(arena));
}

/* The record itself goes last, and notes what has gone before, so that the next try goes on from there. If the system refuses
 * to unmap the units, it may still take their memory. */
bool arena_destroy(arena_t *arena)
{
  if (arena->committed && !os_unmap(arena->base, unit_bytes(arena))) {
    if (arena->dirty_count && os_purge(arena->base, unit_bytes(arena)))
      arena->dirty_count = 0;
    return false;
  }
  arena->committed = arena->dirty_count = 0;
  if (bitmap_bytes(arena) && !os_unmap(arena->long_bitmaps, bitmap_bytes(arena)))
    return false;
  arena->long_bitmaps_end = (char *)arena->long_bitmaps;
  return os_unmap(arena, (size_t)(arena->runs_end - (char *)arena));
}

size_t arena_record_bytes(const arena_t *arena)
{
  return bitmap_bytes(arena) + (size_t)(arena->runs_end - (const char *)arena);
}

/* If the system took the memory of the units but not their addresses, they count for nothing any more. */
size_t arena_left(const arena_t *arena)
{
  size_t units = arena->dirty_count ? unit_bytes(arena) : 0;
  return units + arena_record_bytes(arena);
}

/* The records come first: a unit is mapped only when its descriptor is there. */
static os_mapped_t commit(arena_t *arena, size_t end)
{
  os_mapped_t mapped = map_records(arena, end);
  char *start = arena->base + ((size_t)arena->committed << arena->unit_log2);
  size_t bytes = (end - arena->committed) << arena->unit_log2;
  if (mapped == OS_MAPPED)
    mapped = os_map_at(start, bytes);
  if (mapped != OS_MAPPED)
    return mapped;
  if (arena->wants_huge_pages)
    os_wish_huge_pages(start, bytes, true);
  arena->committed = (uint32_t)end;
  return OS_MAPPED;
}

/* Ends the arena behind the units that are mapped, because somebody else has mapped something there. */
static void cut(arena_t *arena)
{
  span_clear(&arena->room, arena->committed, arena->unit_count);
  arena->unit_count = arena->committed;
}

/* Maps some units more than needed, so that there are few calls; if that is refused, only those needed. What is mapped counts
 * against a limit on memory, so under one the extra is small. */
static taken_t commit_step(arena_t *arena, size_t end)
{
  if (end <= arena->committed)
    return TAKEN;
  size_t more = arena->committed / COMMIT_SHARE, limit = os_memory_limit();
  more = min_size(max_size(more, COMMIT_LEAST_UNITS), COMMIT_MOST_UNITS);
  if (limit != SIZE_MAX)
    more = min_size(more, limit / COMMIT_LIMIT_SHARE >> arena->unit_log2);
  os_mapped_t mapped = commit(arena, min_size(end + more, arena->unit_count));
  if (mapped != OS_MAPPED)
    mapped = commit(arena, end);
  if (mapped == OS_OCCUPIED)
    cut(arena);
  return taken_of(mapped);
}

taken_t arena_commit_all(arena_t *arena) { return taken_of(commit(arena, arena->unit_count)); }

/* ---- taking and giving units ---- */

/* Looks first for a stretch that is long enough to have an aligned run in any case, which the tree finds quickly. If there is
 * none, each stretch is tried. Units that do not begin at a multiple of their size cannot be aligned to several units. */
static size_t find_room(const arena_t *arena, size_t units, size_t alignment)
{
  if (alignment <= 1)
    return span_find(&arena->room, units);
  size_t base = (uintptr_t)arena->base >> arena->unit_log2, end = arena->unit_count;
  if ((uintptr_t)arena->base & (((size_t)1 << arena->unit_log2) - 1))
    return SPAN_NONE;
  size_t at = span_find(&arena->room, units + alignment - 1);
  if (at != SPAN_NONE)
    return round_up(base + at, alignment) - base;
  /* No stretch is long enough for certain. One that is just long enough may be aligned by chance. */
  for (at = span_find(&arena->room, units); at < end;) {
    size_t aligned = round_up(base + at, alignment) - base;
    if (aligned + units > end)
      break;
    size_t gap = bits_next_clear(arena->room.map, at, aligned + units);
    if (gap >= aligned + units)
      return aligned;
    at = bits_next_set(arena->room.map, gap, end);
  }
  return SPAN_NONE;
}

/* Units [from, to), all free, are in use from now on. Those below used_end were in use before: they count as taken again, and
 * as many are retained (purge.c). */
static past_t occupy(arena_t *arena, size_t from, size_t to)
{
  past_t past = {bits_count(arena->dirty, from, to), from < arena->used_end ? min_size(to, arena->used_end) - from : 0};
  span_clear(&arena->room, from, to);
  if (past.dirty)
    bits_clear(arena->dirty, from, to);
  arena->dirty_count -= (uint32_t)past.dirty;
  if (to > arena->used_end)
    __atomic_store_n(&arena->used_end, (uint32_t)to, __ATOMIC_RELAXED);
  return past;
}

/* A step that meets somebody else's mapping has cut the arena, so the search begins again in what is left. The start bit is set
 * last: it leads others to the descriptor. A size of 0 says that no large block has begun here (arena_had_run()). */
taken_t arena_take(arena_t *arena, size_t units, size_t alignment, run_t **taken, past_t *past)
{
  size_t at;
  taken_t committed;
  do {
    at = find_room(arena, units, alignment);
    if (at == SPAN_NONE)
      return NO_ROOM;
    committed = commit_step(arena, at + units);
  } while (committed == NO_ROOM);
  if (committed == NO_MEMORY)
    return NO_MEMORY;
  run_t *run = *taken = &arena->runs[at];
  *past = occupy(arena, at, at + units);
  run->units = (uint32_t)units;
  run->size = 0;
  run->start = arena->base + (at << arena->unit_log2);
  run->zeroed = past->dirty == 0;
  run_become(run, RUN_NONE, NULL);
  arena_set_start(arena, at, true);
  return TAKEN;
}

/* The run keeps its start, so the units that are needed must be those right behind it. */
bool arena_lengthen(arena_t *arena, run_t *run, size_t units, past_t *past)
{
  size_t at = (size_t)(run - arena->runs), end = at + run->units, to = at + units;
  if (to > arena->unit_count || bits_next_clear(arena->room.map, end, to) < to || commit_step(arena, to) != TAKEN)
    return false;
  *past = occupy(arena, end, to);
  run->zeroed &= past->dirty == 0;
  run->units = (uint32_t)units;
  return true;
}

static void set_dirty(arena_t *arena, size_t from, size_t to)
{
  bits_set(arena->dirty, from, to);
  arena->dirty_count += (uint32_t)(to - from);
  arena->dirty_end = (uint32_t)max_size(arena->dirty_end, to);
}

void arena_give(arena_t *arena, size_t from, size_t to)
{
  span_set(&arena->room, from, to);
  set_dirty(arena, from, to);
}

/* The store is atomic, because a thread that frees a block reads its run's bit in a word whose other bits change (run_of()). */
void arena_set_start(arena_t *arena, size_t unit, bool is_start)
{
  uint64_t *word = &arena->start[unit / WORD_BITS], bit = (uint64_t)1 << unit % WORD_BITS;
  __atomic_store_n(word, is_start ? *word | bit : *word & ~bit, __ATOMIC_RELAXED);
}

/* ---- giving memory back ---- */

/* A search over the whole arena also brings dirty_end down to what it found, so that the next one begins there. */
bool arena_highest_dirty(arena_t *arena, size_t below, size_t *from, size_t *to)
{
  bool all = below >= arena->dirty_end;
  for (size_t end = min_size(below, arena->dirty_end); end && arena->dirty_count; end = (end - 1) / WORD_BITS * WORD_BITS) {
    size_t w = (end - 1) / WORD_BITS;
    uint64_t word = arena->dirty[w] & ~(uint64_t)0 >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
    if (!word)
      continue;
    unsigned high = log2_floor(word);
    uint64_t clean = ~word & ~(uint64_t)0 >> (WORD_BITS - 1 - high); /* those below it in the word */
    *to = w * WORD_BITS + high + 1;
    *from = w * WORD_BITS + (clean ? log2_floor(clean) + 1 : 0);
    if (all)
      arena->dirty_end = (uint32_t)*to;
    return true;
  }
  if (all)
    arena->dirty_end = 0;
  return false;
}

void arena_begin_purge(arena_t *arena, size_t from, size_t to)
{
  span_clear(&arena->room, from, to);
  bits_clear(arena->dirty, from, to);
  arena->dirty_count -= (uint32_t)(to - from);
}

void arena_end_purge(arena_t *arena, size_t from, size_t to, bool purged)
{
  span_set(&arena->room, from, to);
  if (!purged)
    set_dirty(arena, from, to);
}

/* Returns the unit behind the last that is in use or dirty. */
static size_t end_of_use(const arena_t *arena)
{
  size_t end = arena->committed;
  while (end) {
    size_t w = (end - 1) / WORD_BITS;
    uint64_t word = (~arena->room.map[w] | arena->dirty[w]) & ~(uint64_t)0 >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
    if (word)
      return w * WORD_BITS + log2_floor(word) + 1;
    end = w * WORD_BITS;
  }
  return 0;
}

/* Gives back the records of units that are not there any more. The runs are purged, not unmapped: a question or a walk may
 * still look at the run of a slab that has ended since it was found, and reads a run of no kind. The bitmaps are unmapped. A
 * bitmap is read under its bin's lock alone, or, if the bin is of one thread and has no lock, under the space's, which is held
 * here too. */
static void give_rest(arena_t *arena, size_t units)
{
  char *runs = (char *)round_up((uintptr_t)(arena->runs + units), os_page_size());
  char *bitmaps = (char *)round_up((uintptr_t)(arena_long_bitmap(arena, units)), os_page_size());
  if (runs + RECORDS_STEP <= arena->runs_end)
    os_purge(runs, (size_t)(arena->runs_end - runs));
  if (bitmaps + RECORDS_STEP <= arena->long_bitmaps_end && os_unmap(bitmaps, (size_t)(arena->long_bitmaps_end - bitmaps)))
    arena->long_bitmaps_end = bitmaps;
}

/* Little is not unmapped, or a program that goes back and forth across the end would map and unmap the same units again and
 * again. */
void arena_contract(arena_t *arena, bool all)
{
  size_t page_units = max_size(os_page_size() >> arena->unit_log2, 1), end = round_up(end_of_use(arena), page_units);
  size_t units = arena->committed - end, least = all ? 1 : max_size(CONTRACT_LEAST_UNITS, arena->committed / COMMIT_SHARE);
  if (units < least || !os_unmap(arena->base + (end << arena->unit_log2), units << arena->unit_log2))
    return;
  arena->committed = (uint32_t)end;
  give_rest(arena, end);
}

/* ---- questions ---- */

/* Beyond used_end a descriptor may not even be mapped. A free unit has none that counts. */
run_t *arena_find(const arena_t *arena, const void *address)
{
  size_t unit = unit_of(arena, address);
  if (unit >= arena->used_end || bit_test(arena->room.map, unit))
    return NULL;
  run_t *run = run_of(arena, address);
  bool starts = bit_test(arena->start, (size_t)(run - arena->runs)); /* units that are being purged belong to no run */
  return starts && (size_t)((const char *)address - run->start) < run_bytes(arena, run) ? run : NULL;
}

/* A free unit whose descriptor still has a start and a size was a large block. Beyond `committed` descriptors may have been
 * purged. */
bool arena_had_run(const arena_t *arena, const void *address)
{
  size_t unit = unit_of(arena, address);
  return unit < min_size(arena->committed, arena->used_end) && bit_test(arena->room.map, unit) &&
         arena->runs[unit].start == address && arena->runs[unit].size;
}
