/* SPDX-License-Identifier: MIT
 *
 * Arenas: reserved address space that is handed out as runs of units, lowest address first. A space is a set of arenas
 * under one lock; the process has one, a heap in the caller's memory has one of its own with a single fixed arena.
 *
 * An arena of the process is aligned to its size (1 GiB, 16 MiB where address space is short), so that the arena of a block
 * is a mask away. At its head stand three bitmaps, and a descriptor and a long bitmap for each unit; all of it is touched only
 * as far as units are in use:
 *
 *     | arena | bitmaps | runs[units] | long bitmaps[units] | unit | unit | unit ... committed |    reserved
 *
 * A unit is free or part of one run; a free unit is dirty (it holds memory) or clean (it reads as zero and costs nothing).
 * Low addresses are preferred, because low units are the ones that hold memory already and the high end can then be given
 * back. Units are made usable in steps, so that strict overcommit and ulimit -d see only what is used.
 *
 * How much dirty memory is kept: a unit that is taken again after it was used is a fault saved. The space keeps as many
 * dirty units as were taken again lately, at least an eighth of what is live and 1 MiB, at most what is live or 32 MiB;
 * "lately" halves with each purge delay. A program that frees a peak once gives it back at once; one that breathes keeps its
 * breath. (A bound of live/2 made malloc-large 40 % slower; one of live left a long soak at 12 times its live memory.)
 *
 *   A1 start <= ~free and dirty <= free, as sets of units; a free unit at or beyond `committed` is clean
 *   A2 a unit that is not free belongs to the run of the last start bit at or below it, and that run reaches it
 *   A3 space.used_units + space.dirty_units == the units of all arenas that are not free, or free and dirty */
#ifndef ARENA_H
#define ARENA_H

#include "budget.h"
#include "class_map.h"
#include "option.h"
#include "os/lock.h"
#include "os/os.h"
#include "size_class.h"

typedef enum run_kind { RUN_NONE, RUN_SLAB, RUN_LARGE, RUN_REGION } run_kind_t;

enum {
  SHORT_BITMAP_WORDS = 7,
  LONG_BITMAP_WORDS = (1 << UNIT_LOG2) / BLOCK_ALIGNMENT / WORD_BITS,
  ARENA_LIMIT = 4096
};

/* A run: consecutive units that are one slab or one large block, or hold the region or the records of a heap. 128 bytes; an operation on a slab of large blocks touches
 * both cache lines, one on a slab with a long bitmap the first. */
typedef struct run {
  uint8_t       kind;         /* run_kind_t */
  uint8_t       size_class;   /* slab */
  uint8_t       list;         /* slab: the list of its pool it is in */
  uint8_t       zeroed;       /* every byte beyond the fresh mark reads as zero */
  uint32_t      units;
  uint32_t      capacity;     /* slab: blocks it is cut into */
  uint32_t      free_count;   /* slab: set bits of its bitmap */
  uint32_t      fresh;        /* slab: blocks from this one on were never handed out */
  uint16_t      quarter;      /* slab: capacity / 4, for the list it belongs in */
  uint8_t       shard;        /* slab: of the threads that gave blocks back last */
  char         *start;
  void         *owner;        /* slab: its pool; large: its heap */
  struct run   *next, *previous;
  uint64_t     *bitmap;       /* slab: bit i set: block i is free and here */
  union {
    size_t      size;         /* large: usable bytes */
    uint64_t    purged;       /* slab of up to 64 blocks: bit i set: block i is free, and its inner pages hold no memory */
  };
  uint64_t      short_bitmap[SHORT_BITMAP_WORDS];
} run_t;
_Static_assert(sizeof(run_t) == 128, "two cache lines");

struct space;

typedef struct arena {
  struct space *space;
  char         *base;         /* unit 0 */
  uint32_t      unit_log2;
  uint32_t      unit_count;
  uint32_t      first_unit;   /* the units below it hold the arena's own data */
  uint32_t      committed;    /* units below it can be touched */
  uint32_t      hint;         /* no unit below it is free */
  uint32_t      used_end;     /* no unit at or beyond it was ever taken */
  run_t        *runs;
  uint64_t     *long_bitmaps;
  uint64_t     *free, *dirty, *start;
} arena_t;

typedef struct space {
  lock_t   lock;
  arena_t *fixed;             /* NULL, or the arena of a region: all this space has */
  struct space *beyond;       /* where a region's heap goes on when the region is full, or NULL */
  uint32_t unit_log2;
  uint32_t alignment;         /* of a run's first address; a unit, or less in a small region */
  bool     prepaid;           /* a region that was charged whole at its creation */
  bool     purgeable;         /* its memory is the system's, not a caller's */
  size_t   used_units, dirty_units, peak_units;   /* peak: of both together */
  size_t   taken_again;       /* units taken lately that had been used before */
  uint64_t purged_bytes;
  uint64_t epoch_ms;          /* when taken_again was last halved */
  size_t   low_dirty;         /* the fewest dirty units since then */
  uint32_t purge_delay_ms;    /* 0: at once; PURGE_NEVER */
  uint8_t  huge_pages;        /* option.h */
} space_t;

/* The arenas of the process's space, oldest first. */
extern arena_t *space_arenas[ARENA_LIMIT];
extern uint32_t space_arena_count;
extern INTERNAL uint32_t space_arena_log2;

/* The process's own. */
extern INTERNAL space_t space_of_process;

bool space_init(void);

/* A region: a space of one fixed arena in [memory, memory+size), its records too. `system`: the memory is a run of the
 * process's space, not the caller's. Returns the end of the records, from where to arena->base there is room for the
 * owner's; NULL: too small for a single unit. */
char *space_init_region(space_t *space, arena_t *arena, void *memory, size_t size, unsigned unit_log2, bool system, bool zeroed);

/* A run of `units`, its first address a multiple of `alignment` units; NULL: none. `zeroed` is set if it holds no old data. */
run_t *space_take(space_t *space, size_t units, size_t alignment);

/* Takes a run back, to wherever it came from. `dirty`: it holds memory (its pages were not moved away). */
void space_give(space_t *space, run_t *run, bool dirty);

/* The same on a budget's account, from the region or from beyond it. NULL: no memory, or over the budget. */
run_t *space_take_charged(space_t *space, budget_t *budget, size_t bytes, size_t alignment);
void   space_give_charged(space_t *space, budget_t *budget, run_t *run, bool dirty);

/* What so many units of the space are charged. */
static inline size_t space_price(const space_t *space, size_t units) { return space->prepaid ? 0 : units << space->unit_log2; }

/* The run's last units go back, or free units behind it are added; false: they are not free. */
void space_shorten(space_t *space, run_t *run, size_t units);
bool space_lengthen(space_t *space, run_t *run, size_t units);

size_t space_dirty_bytes(space_t *space);

/* Gives dirty units back to the system until at most `keep` are left; returns the bytes given. */
size_t space_purge(space_t *space, size_t keep);

/* The whole pages of [from, to), inside a live run, go back to the system and read as zero; returns their bytes. 0: the
 * system refuses. */
size_t space_purge_inside(space_t *space, char *from, char *to);

/* Halves what counts as lately once a purge delay has passed; purges what was not needed for so long. True once a delay. */
bool space_tick(space_t *space, uint64_t now_ms);

/* The run that `address` is in, whichever arena of the process; NULL: none. Exact for any address at all. */
run_t *space_find(const void *address);
run_t *arena_find(arena_t *arena, const void *address);

/* Did a large block start at `address` that has been given back? For the words of a message. */
bool space_had_run(const void *address);
bool arena_had_run(arena_t *arena, const void *address);

/* The run with the lowest address at or above `from` that is `wanted`; NULL: none. For walks. It is asked under the lock:
 * runs of others come and go, and what they point to with them. */
typedef bool run_wanted_fn(const run_t *run, const void *context);
run_t *space_next_run(space_t *space, const void *from, run_wanted_fn *wanted, const void *context);

/* The most units one run can have. */
size_t space_longest_run(void);

/* The kind is set last and with release: who finds a run by its address and is not its owner (a walk, a question) reads it
 * with acquire before the rest. */
static inline void run_become(run_t *run, run_kind_t kind, void *owner)
{
  run->owner = owner;
  __atomic_store_n(&run->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}
static inline run_kind_t run_kind(const run_t *run) { return __atomic_load_n(&run->kind, __ATOMIC_ACQUIRE); }

static inline size_t run_bytes(const arena_t *arena, const run_t *run) { return (size_t)run->units << arena->unit_log2; }
static inline size_t space_units(const space_t *space, size_t bytes)
{
  return (bytes + ((size_t)1 << space->unit_log2) - 1) >> space->unit_log2;
}

/* `block` is inside an arena of the space. */
static inline arena_t *arena_of(const space_t *space, const void *block)
{
  const arena_t *fixed = space->fixed;
  if (fixed && (uintptr_t)block - (uintptr_t)fixed->base < (uintptr_t)fixed->unit_count << fixed->unit_log2)
    return space->fixed;
  return (arena_t *)round_down((uintptr_t)block, (size_t)1 << space_arena_log2);
}

/* The run that `block`, a block of a live run, is in. */
static inline run_t *run_of(const arena_t *arena, const void *block)
{
  size_t unit = (size_t)((const char *)block - arena->base) >> arena->unit_log2;
  /* Relaxed: other runs of the word come and go meanwhile; this block's own run does not. */
  uint64_t starts = __atomic_load_n(&arena->start[unit / WORD_BITS], __ATOMIC_RELAXED) & ~(uint64_t)0 >> (WORD_BITS - 1 - unit % WORD_BITS);
  if (unlikely(!starts))
    return &arena->runs[bits_previous_set(arena->start, unit)];
  return &arena->runs[round_down(unit, WORD_BITS) + log2_floor(starts)];
}

#endif
