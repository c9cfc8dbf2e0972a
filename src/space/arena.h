/* SPDX-License-Identifier: MIT
 *
 * An arena is a range of addresses, from which runs of units are taken. The lowest fitting units come first, because they
 * already hold memory, and the high end can then be returned.
 *
 * An arena of the window fills whole slots. Nothing is reserved: units are mapped in steps as they are needed, with their
 * records. The high end is unmapped again, and so are 2 MiB pages in between without used or dirty units: holes. So the process
 * maps what it uses, within about an eighth. Unmapped addresses always separate arenas, and records from units:
 *
 *     slot -> | gap | arena | huge, holes | maps, tree | runs[units] | long bitmaps[units] | gap | unit 0 | ... committed |
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
#ifndef SPACE_ARENA_H
#define SPACE_ARENA_H

#include "base/bits.h"
#include "base/trees.h"
#include "option.h"
#include "os/os.h"
#include "space/class_map.h"

/* ---- runs ----
 *
 * A run is consecutive units of an arena: a slab, a large block, the region or the records of a heap, or units that cannot be
 * mapped. Its descriptor is in the arena's records, at the number of its first unit. It has 128 bytes: operations on a slab of
 * large blocks touch both cache lines, those on a slab with a long bitmap only the first. */

/* A spare is a large run that its owner has freed and a thread keeps for its next block of that length. */
typedef enum run_kind { RUN_NONE, RUN_SLAB, RUN_LARGE, RUN_SPARE, RUN_REGION } run_kind_t;

enum { SHORT_BITMAP_WORDS = 7 };

/* For each unit, since a slab of one unit may have more blocks than the short bitmap has bits. */
#define LONG_BITMAP_WORDS ((UNIT >> ALIGNMENT_LOG2) / WORD_BITS)

typedef struct run {
  uint8_t kind;       /* run_kind_t */
  uint8_t size_class; /* slab */
  uint8_t list;       /* slab: its list in the bin */
  uint8_t zeroed;     /* every byte beyond the fresh mark reads as zero */
  uint32_t units;
  uint32_t capacity;   /* slab: its blocks */
  uint32_t free_count; /* slab: set bits of its bitmap */
  uint32_t fresh;      /* slab: blocks from this one on were never handed out; large: units that were dirty when it was taken */
  uint16_t settled;    /* slab: free blocks that a purge has visited since they came back */
  uint8_t shard;       /* slab: of the threads that last freed blocks */
  char *start;
  void *owner; /* slab: its bin; large or spare: its heap */
  struct run *next, *previous;
  word_t
    *bitmap; /* slab: bit i set: block i is free and here. A reader without the lock may find it after the slab has ended */
  /* The size of a large run is exact while its block is live. Other threads only read it as a figure. */
  union {
    size_t size;   /* large: usable bytes; records of a heap: all bytes */
    word_t purged; /* slab: bit i set: part i (bin/slab.c) is free, and holds no memory */
  };
  union {
    word_t short_bitmap[SHORT_BITMAP_WORDS];
    void *entry; /* large: belongs to its owner; NULL if it is unset */
  };
} run_t;
_Static_assert(sizeof(run_t) <= 128, "two cache lines");

/* The kind is set last, with release. Walks and queries find foreign runs by address, and read the kind first, with acquire. */
static inline void run_become(run_t *run, run_kind_t kind, void *owner)
{
  __atomic_store_n(&run->owner, owner, __ATOMIC_RELAXED);
  __atomic_store_n(&run->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}
static inline run_kind_t run_kind(const run_t *run) { return __atomic_load_n(&run->kind, __ATOMIC_ACQUIRE); }
static inline void *run_owner(const run_t *run) { return __atomic_load_n(&run->owner, __ATOMIC_RELAXED); }

/* ---- arenas ---- */

struct space;

enum {
  ARENA_GAP = 64 << 10, /* from a slot's first address to the arena there */
  HUGE_PAGE_UNITS = (2 << 20) >> UNIT_LOG2,
  HUGE_PAGES_MOST = (int)(SLOT >> UNIT_LOG2) / HUGE_PAGE_UNITS /* in an arena of one slot; longer arenas have none */
};

#define NO_PAGE 0 /* none is open: this one is below ALL_HUGE_TO, so it never is */

typedef struct arena {
  struct space *space;
  char *base; /* unit 0 */
  uint32_t unit_count;
  uint32_t committed; /* units below it are mapped, except holes */
  uint32_t used_end;  /* no unit at or beyond it was ever taken */
  uint32_t dirty_count;
  uint32_t forgotten; /* units that cannot be mapped: neither free nor counted as used */
  run_t *runs;
  word_t *long_bitmaps; /* LONG_BITMAP_WORDS for the slab of each unit; in the window, zero while the unit has no slab */
  word_t *dirty, *start;
  span_tree_t room;   /* its map has the free units */
  size_t slot, slots; /* of the window; 0 slots: it is in none */
  uint8_t huge_pages;
  bool refused;       /* the system refused to map the last units */
  uint32_t open_page; /* the last 2 MiB page that was opened (huge_pages.c), or NO_PAGE */
  word_t *huge;       /* in the window: a bit for each 2 MiB page that may be huge */
  word_t *shared;     /* of `huge`: those that a child of a fork may share */
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

static inline bool arena_is_in_window(const arena_t *arena) { return arena->slots != 0; }

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

/* ---- units ----
 *
 * Maps the units of an arena in steps, takes them as runs, gives them back, and returns them to the system. */

/* How many of the units just taken hold old data, and whether that of some others was returned. */
typedef struct past {
  size_t dirty;
  bool mixed;
} past_t;

taken_t arena_commit_all(arena_t *arena);

/* Takes a run of `units`, whose first address is a multiple of `alignment` units. */
taken_t arena_take(arena_t *arena, size_t units, size_t alignment, run_t **run, past_t *past);

/* Takes a run below unit `end`, which is at most `committed`, so the arena does not grow. */
taken_t arena_take_below(arena_t *arena, size_t end, size_t units, size_t alignment, run_t **run, past_t *past);

/* Adds the units behind a run. Returns false if they are not free or there is no memory. */
bool arena_lengthen(arena_t *arena, run_t *run, size_t units, past_t *past);

/* Makes units [from, to) of an ended or shortened run free and dirty. */
void arena_give(arena_t *arena, size_t from, size_t to);

/* Maps units [from, to) of an ended run, whose pages have moved elsewhere, as free and clean, or forgets them. */
void arena_give_unmapped(arena_t *arena, size_t from, size_t to);

/* Removes units [from, to), which are free or in no run, for good, because they cannot be mapped. */
void arena_forget(arena_t *arena, size_t from, size_t to);

/* Notes that pages have moved into these units (move.c). arena_moved_units() counts such units until they are unmapped. */
void arena_mark_moved(arena_t *arena, size_t from, size_t to);
size_t arena_moved_units(void);

/* arena_highest_dirty() finds the highest dirty units [*from, *to) below `below`, at most a word of them. Returns false if
 * there are none. arena_highest_dirty_page() finds the highest 2 MiB page that may be huge and is dirty as a whole. */
bool arena_highest_dirty(const arena_t *arena, size_t below, size_t *from, size_t *to);
bool arena_highest_dirty_page(const arena_t *arena, size_t below, size_t *from, size_t *to);

/* Units are neither free nor dirty during the system call that purges them, so that no thread takes them. */
void arena_begin_purge(arena_t *arena, size_t from, size_t to);
void arena_end_purge(arena_t *arena, size_t from, size_t to, bool purged);

/* Unmaps the units behind the last used or dirty one, and their records. Also unmaps at most `most_holes` stretches of 2 MiB
 * pages without such units below it. Touches no memory. Returns false if some idle addresses are still mapped. */
bool arena_unmap_idle(arena_t *arena, size_t most_holes);

uint64_t arena_maps(void);

void arena_set_start(arena_t *arena, size_t unit, bool is_start);

/* ---- huge pages ----
 *
 * A huge page saves 511 page faults, but holds 2 MiB from its first touch. So an arena requests none for its first 8 MiB. It
 * requests all of the 64 MiB behind them, where programs that fill their memory gain most, and sparse ones lose at most that
 * much. Above, it requests a page only if all 2 MiB are about to be written. A slab of small blocks *opens* a page under three
 * conditions: the slab is the first run in the page, the page holds no memory, and the 8 MiB below it are mostly slabs whose
 * blocks were all handed out.
 *
 * An arena has one open page at a time, and withdraws the request when it opens the next one. By then the first page was
 * touched, and stays huge. Otherwise the kernel could later collapse the page around a few small ones, and refill purged
 * memory.
 *
 * The request for a page of the 64 MiB is withdrawn when a part of it is purged, for the same reason. Units of a huge page that
 * were never taken count as clean, but hold memory until the page is purged or unmapped as a whole.
 *
 * The system counts each stretch with different advice as a mapping. So the arena requests small pages for all others above,
 * and the open page adds two mappings.
 *
 * Called under the lock of the arena's space, unless stated otherwise. */

enum {
  FILLED_BLOCK_MOST = 16 << 10,          /* blocks of up to this size are expected to be written when handed out */
  HUGE_PAGES_FROM = 4 * HUGE_PAGE_UNITS, /* 8 MiB: in a smaller arena, a sparsely used huge page would matter */
  ALL_HUGE_TO = HUGE_PAGES_FROM + 32 * HUGE_PAGE_UNITS
};

/* Returns whether pages may be opened in an arena of `committed` units, or all are huge. Units are then mapped by pages. */
static inline bool huge_pages_are_wanted(const arena_t *arena, size_t committed)
{
  return arena->huge_pages == HUGE_PAGES_ALWAYS || (arena->huge_pages == HUGE_PAGES_AUTO && committed >= HUGE_PAGES_FROM);
}

/* Returns whether a page may be huge. Needs no lock. */
static inline bool huge_pages_may_be(const arena_t *arena, size_t page)
{
  return __atomic_load_n(&arena->huge[page / WORD_BITS], __ATOMIC_RELAXED) >> page % WORD_BITS & 1;
}

/* Returns what a space does, as the system and the options say. A system whose huge pages are longer than 2 MiB gets no
 * requests with huge_pages=auto: it makes none of 2 MiB, and a longer one would hold too much that nobody writes. */
uint8_t huge_pages_choose(void);
extern size_t huge_page_of_system; /* its bytes, 2 MiB or more; constant once the manager is up */

/* Lets a run open a page. It was just taken for a slab of blocks of at most FILLED_BLOCK_MOST bytes. */
void huge_pages_open(arena_t *arena, const run_t *run);

/* Call these after units [from, to) were mapped, or unmapped. A page that may be huge is unmapped as a whole: the kernel would
 * keep its memory until memory is short. */
void huge_pages_map(arena_t *arena, size_t from, size_t to);
void huge_pages_unmap(arena_t *arena, size_t from, size_t to);

/* Returns whether units of a run may be in huge pages, or have different requests and so be several mappings. Needs no lock. */
bool huge_pages_may_hold(const arena_t *arena, const run_t *run);

/* Call it before memory is purged. The kernel keeps a partially purged huge page whole until memory is short, so this splits
 * the pages at both ends. Each is split once, since only the open page can become huge again. The kernel splits no locked page.
 * Needs no lock. */
void huge_pages_split(arena_t *arena, const char *from, const char *to);

/* Call it before a fork: the kernel does not split pages that the child shares, so later purges must try again. No lock. */
void huge_pages_note_fork(arena_t *arena);

#endif
