/* SPDX-License-Identifier: MIT
 * Units are mapped in steps, become runs, and go back. */
#include "os/os.h"
#include "space/arena.h"
#include "space/budget.h"

enum {
  COMMIT_LEAST_UNITS = 4,   /* 256 KiB: the least that is mapped beyond the need */
  COMMIT_MOST_UNITS = 64,   /* 4 MiB: the most */
  COMMIT_SHARE = 8,         /* in between, 1/8 of the mapped units */
  COMMIT_LIMIT_SHARE = 256, /* at most 1/256 of a memory limit */
  HOLES_MOST = 16 << 10     /* stretches of holes: each may split a mapping, and Linux allows a process 65,530 */
};

/* ---- holes: unmapped 2 MiB pages below `committed`, only in arenas of the process's space ---- */

static size_t hole_stretches; /* of all arenas; under the lock of the process's space */

/* Counts the stretches of holes that begin at pages [from, to). */
static size_t stretches_from(const word_t *holes, size_t from, size_t to)
{
  size_t count = 0;
  for (size_t page = from; page < to; page++)
    count += bit_test(holes, page) && !(page && bit_test(holes, page - 1));
  return count;
}

static void mark_holes(arena_t *arena, size_t from, size_t to, bool holes)
{
  size_t end = min_size(to + 1, HUGE_PAGES_MOST);
  arena->hole_count -= (uint32_t)bits_count(arena->holes, from, to);
  hole_stretches -= stretches_from(arena->holes, from, end);
  holes ? bits_set(arena->holes, from, to) : bits_clear(arena->holes, from, to);
  arena->hole_count += (uint32_t)bits_count(arena->holes, from, to);
  hole_stretches += stretches_from(arena->holes, from, end);
}

/* ---- moved units (move.c), whose mappings differ from those of their neighbours ---- */

static size_t moved_units; /* of all arenas; changed under the lock of the process's space */

size_t arena_moved_units(void) { return __atomic_load_n(&moved_units, __ATOMIC_RELAXED); }

static void count_moved(size_t units) { __atomic_store_n(&moved_units, moved_units + units, __ATOMIC_RELAXED); }

void arena_mark_moved(arena_t *arena, size_t from, size_t to)
{
  count_moved(to - from - bits_count(arena->moved, from, to));
  bits_set(arena->moved, from, to);
}

static void forget_moved(arena_t *arena, size_t from, size_t to)
{
  if (!moved_units)
    return;
  count_moved(-bits_count(arena->moved, from, to));
  bits_clear(arena->moved, from, to);
}

/* ---- idle pages ---- */

static char *huge_page_start(const arena_t *arena, size_t page)
{
  return arena->base + ((page * HUGE_PAGE_UNITS) << UNIT_LOG2);
}

static size_t huge_pages_bytes(size_t pages) { return pages * HUGE_PAGE_UNITS << UNIT_LOG2; }

static bool page_is_idle(const arena_t *arena, size_t page)
{
  size_t from = page * HUGE_PAGE_UNITS, to = from + HUGE_PAGE_UNITS;
  return !bit_test(arena->holes, page) && bits_next_clear(arena->room.map, from, to) == to &&
         bits_next_set(arena->dirty, from, to) == to;
}

/* Tries each stretch of idle pages once, up to `most`. Returns false if some may be left. */
static bool make_holes(arena_t *arena, size_t most)
{
  size_t end = arena->committed / HUGE_PAGE_UNITS;
  bool all = true;
  for (size_t page = 0; page < end; page++) {
    size_t next = page;
    while (next < end && page_is_idle(arena, next))
      next++;
    if (next == page)
      continue;
    if (!most || hole_stretches >= HOLES_MOST)
      return false;
    if (refusals_unmap(huge_page_start(arena, page), huge_pages_bytes(next - page))) {
      huge_pages_unmap(arena, page * HUGE_PAGE_UNITS, next * HUGE_PAGE_UNITS);
      mark_holes(arena, page, next, true);
      forget_moved(arena, page * HUGE_PAGE_UNITS, next * HUGE_PAGE_UNITS);
    } else {
      all = false;
    }
    most--;
    page = next;
  }
  return all;
}

/* ---- mapping units ---- */

static uint64_t maps; /* how often units were mapped, of all arenas */

uint64_t arena_maps(void) { return __atomic_load_n(&maps, __ATOMIC_RELAXED); }

static void count_map(void) { __atomic_fetch_add(&maps, 1, __ATOMIC_RELAXED); }

/* The records come first, because a mapped unit needs its descriptor. */
static os_mapped_t commit(arena_t *arena, size_t end)
{
  os_mapped_t mapped = arena_map_records(arena, end);
  char *start = arena->base + ((size_t)arena->committed << UNIT_LOG2);
  size_t bytes = (end - arena->committed) << UNIT_LOG2;
  if (mapped == OS_MAPPED)
    mapped = refusals_map_at(start, bytes);
  if (mapped != OS_MAPPED)
    return mapped;
  count_map();
  huge_pages_map(arena, arena->committed, end);
  arena->committed = (uint32_t)end;
  return OS_MAPPED;
}

/* Ends the arena behind its mapped units, because of a foreign mapping. */
static void cut(arena_t *arena)
{
  span_clear(&arena->room, arena->committed, arena->unit_count);
  arena->unit_count = arena->committed;
}

/* Maps some units more than needed, which saves calls; if that is refused, only those needed. Until the system maps again,
 * requests ask for no more than they need. Mapped memory counts against a limit, so under one the extra is small; otherwise it
 * may extend to a huge page. */
static taken_t grow(arena_t *arena, size_t end)
{
  size_t more = arena->committed / COMMIT_SHARE, limit = os_memory_limit;
  more = min_size(max_size(more, COMMIT_LEAST_UNITS), COMMIT_MOST_UNITS);
  if (limit != SIZE_MAX)
    more = min_size(more, limit / COMMIT_LIMIT_SHARE >> UNIT_LOG2);
  else if (huge_pages_are_wanted(arena, end + more))
    more = round_up(end + more, HUGE_PAGE_UNITS) - end;
  os_mapped_t mapped = arena->refused ? OS_NO_MEMORY : commit(arena, min_size(end + more, arena->unit_count));
  if (mapped != OS_MAPPED)
    mapped = commit(arena, end);
  arena->refused = mapped == OS_NO_MEMORY;
  if (mapped == OS_OCCUPIED)
    cut(arena);
  return taken_of(mapped);
}

taken_t arena_commit_all(arena_t *arena) { return taken_of(commit(arena, arena->unit_count)); }

/* ---- taking and giving units ---- */

/* Puts the free units [from, to) to use. */
static past_t occupy(arena_t *arena, size_t from, size_t to)
{
  past_t past = {.dirty = arena->dirty_count ? bits_count(arena->dirty, from, to) : 0};
  span_clear(&arena->room, from, to);
  if (past.dirty) {
    bits_clear(arena->dirty, from, to);
    past.mixed = from + past.dirty < min_size(to, arena->used_end);
  }
  arena->dirty_count -= (uint32_t)past.dirty;
  if (to > arena->used_end)
    __atomic_store_n(&arena->used_end, (uint32_t)to, __ATOMIC_RELAXED);
  return past;
}

/* The start bit is set last, because it leads to the descriptor. A size of 0 means no large block (arena_had_run()). */
static inline taken_t begin_run(arena_t *arena, size_t at, size_t units, run_t **taken, past_t *past)
{
  run_t *run = *taken = &arena->runs[at];
  *past = occupy(arena, at, at + units);
  run->units = (uint32_t)units;
  run->size = 0;
  run->start = arena->base + (at << UNIT_LOG2);
  run->zeroed = past->dirty == 0;
  run->fresh = (uint32_t)past->dirty;
  run_become(run, RUN_NONE, NULL);
  arena_set_start(arena, at, true);
  return TAKEN;
}

void arena_forget(arena_t *arena, size_t from, size_t to)
{
  run_t *run;
  past_t past;
  begin_run(arena, from, to - from, &run, &past);
  run_become(run, RUN_REGION, NULL);
  arena->forgotten += (uint32_t)(to - from);
}

static taken_t fill_holes(arena_t *arena, size_t from, size_t to)
{
  size_t end = (to + HUGE_PAGE_UNITS - 1) / HUGE_PAGE_UNITS, page = bits_next_set(arena->holes, from / HUGE_PAGE_UNITS, end);
  while (page < end) {
    size_t next = bits_next_clear(arena->holes, page, end);
    os_mapped_t mapped = refusals_map_at(huge_page_start(arena, page), huge_pages_bytes(next - page));
    if (mapped == OS_NO_MEMORY)
      return NO_MEMORY;
    mark_holes(arena, page, next, false);
    if (mapped == OS_OCCUPIED) { /* a foreign mapping */
      arena_forget(arena, page * HUGE_PAGE_UNITS, next * HUGE_PAGE_UNITS);
      return NO_ROOM;
    }
    count_map();
    huge_pages_map(arena, page * HUGE_PAGE_UNITS, next * HUGE_PAGE_UNITS);
    page = bits_next_set(arena->holes, next, end);
  }
  return TAKEN;
}

static taken_t commit_step(arena_t *arena, size_t from, size_t to)
{
  taken_t mapped = arena->hole_count ? fill_holes(arena, from, min_size(to, arena->committed)) : TAKEN;
  return mapped == TAKEN && to > arena->committed ? grow(arena, to) : mapped;
}

/* A step that meets a foreign mapping has cut the arena, so the search is repeated in the rest. */
taken_t arena_take(arena_t *arena, size_t units, size_t alignment, run_t **taken, past_t *past)
{
  size_t at;
  taken_t committed;
  do {
    at = arena_room_for(arena, units, alignment);
    if (at == SPAN_NONE)
      return NO_ROOM;
    committed = commit_step(arena, at, at + units);
  } while (committed == NO_ROOM);
  return committed == NO_MEMORY ? NO_MEMORY : begin_run(arena, at, units, taken, past);
}

/* If the system maps no more, units that are mapped above a hole still serve. */
taken_t arena_take_below(arena_t *arena, size_t end, size_t units, size_t alignment, run_t **taken, past_t *past)
{
  size_t at = arena_room_for(arena, units, alignment);
  if (at == SPAN_NONE || at + units > end)
    return NO_ROOM;
  taken_t committed = likely(!arena->hole_count) ? TAKEN : commit_step(arena, at, at + units);
  if (unlikely(committed == NO_MEMORY) && (at = arena_mapped_room_for(arena, end, units, alignment)) != SPAN_NONE)
    committed = TAKEN;
  return committed == TAKEN ? begin_run(arena, at, units, taken, past) : committed;
}

/* mremap() moves one mapping at a time, so a run of two mappings would have to be copied. */
static bool is_one_mapping(const arena_t *arena, size_t from, size_t to)
{
  size_t moved = arena->moved && arena_moved_units() ? bits_count(arena->moved, from, to) : 0;
  return !moved || moved == to - from;
}

/* The run keeps its start, so only the units right behind it help. */
bool arena_lengthen(arena_t *arena, run_t *run, size_t units, past_t *past)
{
  size_t at = (size_t)(run - arena->runs), end = at + run->units, to = at + units;
  if (to > arena->unit_count || !is_one_mapping(arena, at, to) || bits_next_clear(arena->room.map, end, to) < to ||
      commit_step(arena, end, to) != TAKEN)
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
}

void arena_give_unmapped(arena_t *arena, size_t from, size_t to)
{
  forget_moved(arena, from, to);
  if (os_map_at(arena->base + (from << UNIT_LOG2), (to - from) << UNIT_LOG2) == OS_MAPPED) {
    count_map();
    huge_pages_map(arena, from, to);
    span_set(&arena->room, from, to);
  } else {
    arena_forget(arena, from, to);
  }
}

void arena_give(arena_t *arena, size_t from, size_t to)
{
  span_set(&arena->room, from, to);
  set_dirty(arena, from, to);
}

/* The store is atomic, because a freeing thread reads its run's bit in the same word (run_of()). */
void arena_set_start(arena_t *arena, size_t unit, bool is_start)
{
  word_t *word = &arena->start[unit / WORD_BITS], bit = bit_of(unit);
  __atomic_store_n(word, is_start ? *word | bit : *word & ~bit, __ATOMIC_RELAXED);
}

/* ---- returning memory ---- */

bool arena_highest_dirty(const arena_t *arena, size_t below, size_t *from, size_t *to)
{
  for (size_t end = min_size(below, arena->committed); end && arena->dirty_count; end = (end - 1) / WORD_BITS * WORD_BITS) {
    size_t w = (end - 1) / WORD_BITS;
    word_t word = arena->dirty[w] & ~(word_t)0 >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
    if (!word)
      continue;
    unsigned high = highest_bit(word);
    word_t clean = ~word & ~(word_t)0 >> (WORD_BITS - 1 - high); /* the clean bits below it in the word */
    *to = w * WORD_BITS + high + 1;
    *from = w * WORD_BITS + (clean ? highest_bit(clean) + 1 : 0);
    return true;
  }
  return false;
}

_Static_assert(WORD_BITS % HUGE_PAGE_UNITS == 0, "the bits of a page are in one word");

bool arena_highest_dirty_page(const arena_t *arena, size_t below, size_t *from, size_t *to)
{
  const word_t all = (~(word_t)0) >> (WORD_BITS - HUGE_PAGE_UNITS);
  const size_t least = arena->huge_pages == HUGE_PAGES_AUTO ? ALL_HUGE_TO / HUGE_PAGE_UNITS : 0;
  for (size_t page = arena->dirty_count ? min_size(below, arena->committed) / HUGE_PAGE_UNITS : 0; page-- > least;) {
    size_t unit = page * HUGE_PAGE_UNITS;
    if (!huge_pages_may_be(arena, page) || (arena->dirty[unit / WORD_BITS] >> unit % WORD_BITS & all) != all)
      continue;
    *from = unit;
    *to = unit + HUGE_PAGE_UNITS;
    return true;
  }
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

static size_t end_of_use(const arena_t *arena)
{
  size_t end = arena->committed;
  while (end) {
    size_t w = (end - 1) / WORD_BITS;
    word_t word = (~arena->room.map[w] | arena->dirty[w]) & ~(word_t)0 >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
    if (word)
      return w * WORD_BITS + highest_bit(word) + 1;
    end = w * WORD_BITS;
  }
  return 0;
}

bool arena_unmap_idle(arena_t *arena, size_t most_holes)
{
  size_t end = end_of_use(arena);
  if (end % HUGE_PAGE_UNITS && arena->huge_pages != HUGE_PAGES_NEVER && huge_pages_may_be(arena, end / HUGE_PAGE_UNITS))
    end = min_size(round_up(end, HUGE_PAGE_UNITS), arena->committed);
  size_t units = arena->committed - end, pages = (end + HUGE_PAGE_UNITS - 1) / HUGE_PAGE_UNITS;
  bool unmapped = !units || refusals_unmap(arena->base + (end << UNIT_LOG2), units << UNIT_LOG2);
  if (units && unmapped) {
    arena->committed = (uint32_t)end;
    if (arena->holes) {
      mark_holes(arena, pages, HUGE_PAGES_MOST, false);
      forget_moved(arena, end, arena->unit_count);
    }
    huge_pages_unmap(arena, end, (size_t)HUGE_PAGES_MOST * HUGE_PAGE_UNITS);
    arena_give_records(arena, end);
  }
  return (!arena->holes || make_holes(arena, most_holes)) && unmapped;
}
