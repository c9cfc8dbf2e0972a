/* SPDX-License-Identifier: MIT
 *
 * An arena is a range of addresses, from which runs of units are taken. The lowest fitting units come first, because they
 * already hold memory, and the high end can then be returned.
 *
 * An arena of the window fills whole slots. Nothing is reserved: units are mapped in steps as they are needed, with their
 * records. The high end is unmapped again, and so are 2 MiB pages in between without used or dirty units: holes. So the process
 * maps what it uses, within about an eighth. Unmapped addresses always separate arenas, and records from units:
 *
 *     slot -> | gap | arena | huge, holes | bitmaps | tree | runs[units] | long bitmaps[units] | gap | unit 0 | ... committed |
 *
 * An arena in a caller's memory has all its units from the start, with its records in front of them.
 *
 * A unit is free or part of one run. A free unit is dirty (it holds memory) or clean (it reads as zero and costs nothing).
 *
 *   A1 start <= ~free and dirty <= free, as sets of units; a free unit at or beyond `committed` is clean
 *   A2 a unit that is not free belongs to the run of the last start bit at or below it, and that run reaches it
 *   A4 dirty_count is the number of dirty units
 *   A5 `huge` and `holes` mark no page that is beyond `committed` as a whole, and no page is in both
 *   A6 the units of a hole are free and clean
 *
 * The invariants hold whenever the lock of the arena's space is free, with one exception: between arena_begin_purge() and
 * arena_end_purge() the lock is released, and units that are being purged are neither free nor in a run (A2).
 *
 * Functions are called under the lock of the arena's space, unless stated otherwise. */
#ifndef ARENA_H
#define ARENA_H

#include "base/span_tree.h"
#include "os/os.h"
#include "space/run.h"

struct space;

enum {
  ARENA_GAP = 64 << 10, /* from a slot's first address to the arena there */
  HUGE_PAGE_UNITS = (2 << 20) >> UNIT_LOG2,
  HUGE_PAGES_MOST = (int)(SLOT >> UNIT_LOG2) / HUGE_PAGE_UNITS /* in an arena of one slot; longer arenas have none */
};

/* Values of open_page: no page is open; no page was ever opened. */
#define NO_PAGE      ((uint32_t)-1)
#define NEVER_OPENED ((uint32_t)0) /* below HUGE_PAGES_FROM, so never an open page */

typedef struct arena {
  struct space *space;
  char *base; /* unit 0 */
  uint32_t unit_count;
  uint32_t committed; /* units below it are mapped, except holes */
  uint32_t used_end;  /* no unit at or beyond it was ever taken */
  uint32_t dirty_count;
  uint32_t forgotten; /* units that cannot be mapped: neither free nor counted as used */
  run_t *runs;
  word_t *long_bitmaps; /* LONG_BITMAP_WORDS for the slab of each unit */
  word_t *dirty, *start;
  span_tree_t room;   /* its map has the free units */
  size_t slot, slots; /* of the window; 0 slots: it is in none */
  uint8_t huge_pages;
  bool refused;       /* the system refused to map the last units */
  bool forked;        /* since it was created: a child may share its huge pages */
  uint32_t open_page; /* the last 2 MiB page that was opened (huge_pages.h), NO_PAGE, or NEVER_OPENED */
  word_t *huge;       /* in the window: a bit for each 2 MiB page that may be huge */
  word_t *holes;      /* a bit for each page that is not mapped; NULL if there are none */
  uint32_t hole_count;
  word_t *moved;                     /* a bit for each unit into which pages have moved (move.c); NULL like holes */
  char *runs_end, *long_bitmaps_end; /* how far those are mapped */
  struct arena *next_left;           /* in the list of ended arenas that could not be destroyed */
} arena_t;

typedef enum taken { TAKEN, NO_ROOM, NO_MEMORY } taken_t;

static inline taken_t taken_of(os_mapped_t mapped)
{
  return mapped == OS_MAPPED ? TAKEN : mapped == OS_OCCUPIED ? NO_ROOM : NO_MEMORY;
}

/* Maps the records of an arena in the caller's open slots. `units` 0 means as many as fit in one. NO_ROOM: they are
 * occupied. */
taken_t arena_create(struct space *space, size_t slot, size_t units, arena_t **arena);

/* Map the records of `units` units, and return those of unmapped units beyond. */
os_mapped_t arena_map_records(arena_t *arena, size_t units);
void arena_give_records(arena_t *arena, size_t units);

size_t arena_slots_for(size_t units);

/* For an arena that is about to end and has no user: returns much memory in steps. arena_destroy() counts it. */
void arena_purge_to_end(arena_t *arena);

/* Unmaps the arena. Returns false if the system refuses a part, which loses its contents and can be tried again. */
bool arena_destroy(arena_t *arena);

size_t arena_record_bytes(const arena_t *arena);

/* Returns the bytes mapped for an arena of the window, units and records. */
size_t arena_mapped_bytes(const arena_t *arena);

/* Returns the memory that an arena that could not be destroyed may still hold. */
size_t arena_left(const arena_t *arena);

/* Lays out the records of an arena of at most `units` units from `records` on, without touching them. Returns their end. */
char *arena_lay_out(arena_t *arena, char *records, size_t units);

/* Makes all units of [base, base + units) free; `dirty` if they hold old data. The records must be laid out. */
void arena_begin(arena_t *arena, char *base, size_t units, bool dirty);

/* Returns the run that holds `address`, or NULL. */
run_t *arena_find(const arena_t *arena, const void *address);

/* Returns whether a large block that was freed began at `address`. It may be wrong; it only selects the text of a message. */
bool arena_had_run(const arena_t *arena, const void *address);

/* Returns the lowest free run of `units` units whose address is a multiple of `alignment` units; SPAN_NONE if there is none. */
size_t arena_room_for(const arena_t *arena, size_t units, size_t alignment);

/* Finds the lowest mapped run of `units` free units below `end`. Visits each free stretch: for arenas that cannot map more. */
size_t arena_mapped_room_for(const arena_t *arena, size_t end, size_t units, size_t alignment);

static inline size_t unit_of(const arena_t *arena, const void *address)
{
  return (uintptr_t)((const char *)address - arena->base) >> UNIT_LOG2;
}
/* Needs no lock. */
static inline size_t arena_used_end(const arena_t *arena) { return __atomic_load_n(&arena->used_end, __ATOMIC_RELAXED); }
static inline word_t *arena_long_bitmap(const arena_t *arena, size_t unit)
{
  return arena->long_bitmaps + unit * LONG_BITMAP_WORDS;
}
static inline char *arena_end(const arena_t *arena) { return arena->base + ((size_t)arena->unit_count << UNIT_LOG2); }
static inline size_t run_bytes(const run_t *run) { return (size_t)run->units << UNIT_LOG2; }

/* Returns the run of a live block. Needs no lock: other bits of the word may change, but not this run's. */
static inline run_t *run_of(const arena_t *arena, const void *block)
{
  size_t unit = unit_of(arena, block);
  word_t starts =
    __atomic_load_n(&arena->start[unit / WORD_BITS], __ATOMIC_RELAXED) & ~(word_t)0 >> (WORD_BITS - 1 - unit % WORD_BITS);
  if (unlikely(!starts))
    return &arena->runs[bits_previous_set(arena->start, unit)];
  return &arena->runs[round_down(unit, WORD_BITS) + highest_bit(starts)];
}

#endif
