/* SPDX-License-Identifier: MIT
 *
 * An arena: addresses that are handed out as runs of units, the lowest that will do first, because low units are the ones that
 * hold memory already and the high end can then be given back.
 *
 * An arena of the window fills slots of it. Nothing is reserved: units are mapped in steps as they are needed, with the records
 * that describe them. The high end is unmapped again, and so are pages of 2 MiB in between of which no unit is used or dirty:
 * holes. So what the process has mapped is what it uses, give or take an eighth. Between the arenas, and between records and
 * units, there are always addresses with nothing mapped:
 *
 *     slot -> | gap | arena | huge, holes | bitmaps | tree | runs[units] | long bitmaps[units] | gap | unit 0 | ... committed |
 *
 * The arena of a small region has all its units from the start. Its records are in front of them in the caller's memory, or
 * elsewhere, out of reach of a write past a block, where the memory is the system's.
 *
 * A unit is free or part of one run; a free unit is dirty (it holds memory) or clean (it reads as zero and costs nothing).
 *
 *   A1 start <= ~free and dirty <= free, as sets of units; a free unit at or beyond `committed` is clean
 *   A2 a unit that is not free belongs to the run of the last start bit at or below it, and that run reaches it
 *   A4 dirty_count is the number of dirty units, all of them below dirty_end
 *   A5 `huge` and `holes` mark no page that is beyond `committed` as a whole, and no page is in both
 *   A6 the units of a hole are free and clean
 *
 * They hold whenever the lock of the arena's space is free, with one exception: between arena_begin_purge() and
 * arena_end_purge() the lock is open, and units that are being purged are neither free nor of any run (A2).
 *
 * Functions are called under the lock of the space that the arena belongs to, unless they say otherwise. */
#ifndef ARENA_H
#define ARENA_H

#include "base/span_tree.h"
#include "os/os.h"
#include "space/run.h"

struct space;

enum {
  ARENA_GAP = 64 << 10, /* from a slot's first address to the arena there */
  HUGE_PAGE_UNITS = (2 << 20) >> UNIT_LOG2,
  HUGE_PAGES_MOST = (int)(SLOT >> UNIT_LOG2) / HUGE_PAGE_UNITS /* of an arena of one slot; others have none */
};

/* Instead of the number of an open page; the second until the first page is opened, and where none ever is. */
#define NO_PAGE      ((uint32_t)-1)
#define NEVER_OPENED ((uint32_t)0) /* below HUGE_PAGES_FROM */

typedef struct arena {
  struct space *space;
  char *base; /* unit 0 */
  uint32_t unit_log2;
  uint32_t unit_count;
  uint32_t committed; /* units below it are mapped, but for the holes */
  uint32_t used_end;  /* no unit at or beyond it was ever taken */
  uint32_t dirty_count, dirty_end;
  uint32_t forgotten; /* units that cannot be mapped: neither free nor counted as used */
  run_t *runs;
  word_t *long_bitmaps; /* long_bitmap_words() for the slab of each unit; NULL: no slab has that many blocks */
  word_t *dirty, *start;
  span_tree_t room;                  /* its map: the free units */
  size_t slot, slots;                /* of the window; 0 slots: it is in none */
  uint8_t huge_pages;                /* option.h */
  bool refused;                      /* the system refused the last units that it was asked for */
  bool forked;                       /* since it was made: its huge pages may be a child's too */
  uint32_t open_page;                /* the last page of 2 MiB that was opened (huge_pages.h), NO_PAGE, or NEVER_OPENED */
  word_t *huge;                      /* of an arena of the window: a bit for each 2 MiB that may be a huge page, */
  word_t *holes;                     /* and for each that is not mapped; NULL: there are none */
  uint32_t hole_count;               /* bits of it */
  word_t *moved;                     /* a bit for each unit into which pages have moved (move.c); NULL like holes */
  char *runs_end, *long_bitmaps_end; /* how far those are mapped */
  struct arena *next_left;           /* of those that have ended and could not be destroyed */
} arena_t;

typedef enum taken { TAKEN, NO_ROOM, NO_MEMORY } taken_t;

static inline taken_t taken_of(os_mapped_t mapped)
{
  return mapped == OS_MAPPED ? TAKEN : mapped == OS_OCCUPIED ? NO_ROOM : NO_MEMORY;
}

/* Maps the records of an arena in open slots of the window, which the caller has for itself. `units` 0: as many as one slot has
 * room for. NO_ROOM: something else is mapped there. */
taken_t arena_create(struct space *space, size_t slot, size_t units, arena_t **arena);

/* Maps the records of so many units; and gives back those of the units behind, which are not there any more. */
os_mapped_t arena_map_records(arena_t *arena, size_t units);
void arena_give_records(arena_t *arena, size_t units);

/* Returns how many slots an arena of so many units needs. */
size_t arena_slots_for(size_t units);

/* For an arena that is about to end, whose units nobody uses any more: much memory goes back in steps. arena_destroy() counts
 * it. */
void arena_purge_to_end(arena_t *arena);

/* Unmaps it all. False: the system refuses some of it, which is as it was but for its contents, and may be asked again. */
bool arena_destroy(arena_t *arena);

/* Returns how many bytes are mapped for the records of an arena of the window. */
size_t arena_record_bytes(const arena_t *arena);

/* Returns how many bytes of an arena of the window are mapped, units and records. */
size_t arena_mapped_bytes(const arena_t *arena);

/* Returns how much memory an arena that could not be destroyed may still hold. */
size_t arena_left(const arena_t *arena);

/* Lays the records of an arena of at most `units` units of that length out from `records` on; returns the first byte behind
 * them. Touches none of them. */
char *arena_lay_out(arena_t *arena, char *records, size_t units, unsigned unit_log2);

/* All units of [base, base + units) are free; `dirty`: they hold old data. The records have been laid out. */
void arena_begin(arena_t *arena, char *base, size_t units, unsigned unit_log2, bool dirty);

/* The run that `address` is in; NULL: none. */
run_t *arena_find(const arena_t *arena, const void *address);

/* Says whether a large block started at `address` that has been given back. It may err, and only chooses the words of a
 * message. */
bool arena_had_run(const arena_t *arena, const void *address);

/* Returns the lowest unit at which `units` units are free, and whose address is a multiple of `alignment` units; SPAN_NONE if
 * there is none. */
size_t arena_room_for(const arena_t *arena, size_t units, size_t alignment);

/* Finds the lowest such unit below `end` where all units are mapped. It looks at each free stretch, so it is for an arena for
 * which the system maps no more. */
size_t arena_mapped_room_for(const arena_t *arena, size_t end, size_t units, size_t alignment);

static inline size_t unit_of(const arena_t *arena, const void *address)
{
  return (uintptr_t)((const char *)address - arena->base) >> arena->unit_log2;
}
/* May be asked without the lock. */
static inline size_t arena_used_end(const arena_t *arena) { return __atomic_load_n(&arena->used_end, __ATOMIC_RELAXED); }
static inline word_t *arena_long_bitmap(const arena_t *arena, size_t unit)
{
  return arena->long_bitmaps + unit * long_bitmap_words(arena->unit_log2);
}
static inline char *arena_end(const arena_t *arena) { return arena->base + ((size_t)arena->unit_count << arena->unit_log2); }
static inline size_t run_bytes(const arena_t *arena, const run_t *run) { return (size_t)run->units << arena->unit_log2; }

/* The run that `block`, a block of a live run, is in. No lock: bits of other runs in the same word come and go meanwhile, this
 * block's own do not. */
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
