/* SPDX-License-Identifier: MIT
 *
 * A space is a set of arenas under one lock, from which runs are taken and to which they are given back. The process has one,
 * whose arenas are slots of the window; a heap with a region has one of its own with a single arena, and goes on in the
 * process's where it may.
 *
 * Runs are taken from the lowest arena that has room. How long the longest free stretch of each arena is stands in an array, so
 * that full arenas are passed over without a look at them.
 *
 *   A3 used_units and dirty_units are the sums over the arenas of the units that are not free, and of the dirty ones. It holds
 *      whenever the lock is free, except that units which are being purged are in neither count */
#ifndef SPACE_H
#define SPACE_H

#include "base/low_water.h"
#include "os/lock.h"
#include "space/budget.h"
#include "space/slots.h"
#include "space/units.h"

/* A purge goes from the high end of the highest arena down. One that keeps something goes through the arenas twice: first for
 * huge pages that are dirty as a whole, since a part of one that is purged breaks it. */
typedef struct purge_pass {
  bool whole_pages;   /* it is at the first round */
  size_t keep;        /* dirty units that it leaves in the space */
  bool trims;         /* it visits all arenas, also those without dirty units */
  bool refused;       /* some idle addresses could not be unmapped */
  uint64_t changes;   /* of the space, that it has made itself */
  size_t left;        /* units that it may still purge: what becomes dirty meanwhile waits for a tick of its own */
  size_t arenas_left; /* slots up to the one that it is at; 0: it is done */
  size_t below;       /* it has passed the units from here on in that one */
} purge_pass_t;

typedef struct space {
  lock_t lock;
  arena_t *fixed;         /* NULL, or the arena of a region: all this space has */
  struct space *fallback; /* where a region's heap goes on when the region is full, or NULL */
  uint32_t unit_log2;
  uint32_t alignment;      /* of a run's first address; a unit, or less in a small region */
  bool prepaid;            /* a region that was charged whole at its creation */
  bool purgeable;          /* its memory is the system's, not a caller's */
  bool purge_failed;       /* since the last tick: the system refuses to take some of it */
  uint8_t huge_pages;      /* option.h */
  bool opens_pages;        /* an arena has opened one (huge_pages.h) */
  uint32_t purge_delay_ms; /* 0: at once; PURGE_NEVER */
  size_t used_units, dirty_units;
  size_t dirty_most;     /* of the process's space: beyond it units are purged at once; else SIZE_MAX */
  low_water_t low_dirty; /* of dirty_units */
  uint64_t changes;      /* how often units were given back, purged or unmapped */
  uint64_t trimmed_at;   /* 1, `changes` and the maps of arenas when a trim had returned all it could; or 0 */
  bool unpaid;           /* a region of the system's memory whose dirty units nobody was charged for */
  uint64_t purged_bytes;
  uint64_t epoch_ms; /* when the last epoch ended */
  purge_pass_t pass; /* what is purged in steps */
} space_t;

/* The process's own. */
extern INTERNAL space_t space_of_process;

bool space_init(void);

/* The process may have so little memory that a slab for each size class would be too much of it. Settled by space_init(). */
extern INTERNAL bool space_is_short;

/* ---- regions ---- */

/* A region in the caller's memory [memory, memory+size), its records in front. Returns the end of the records, from where to
 * arena->base there is room for the owner's; NULL: too small for a single unit. */
char *space_init_guest(space_t *space, arena_t *arena, void *memory, size_t size, unsigned unit_log2);

/* A region in memory of the system's, of `units` units; the records are elsewhere, space_region_records() bytes of them.
 * `dirty`: it holds old data. */
void space_init_region(space_t *space, arena_t *arena, void *records, void *memory, size_t units, unsigned unit_log2,
                       bool dirty);
size_t space_region_records(size_t units, unsigned unit_log2);

/* A region of `units` units of 64 KiB in slots of the window, mapped whole. False: no memory or no slots. */
bool space_init_slots(space_t *space, size_t units);
void space_hide_slots(space_t *space);    /* from then on no address leads to it */
void space_destroy_slots(space_t *space); /* unmaps it; what the system refuses is left to space_destroy_left() */

/* ---- runs ---- */

/* A run of `units`, its first address a multiple of `alignment` units; NULL: none. `zeroed` is set if it holds no old data. */
run_t *space_take(space_t *space, size_t units, size_t alignment);

/* Where a run is taken: search.c. space_count_taken() says that units were taken. Under the lock. */
run_t *space_search(space_t *space, size_t units, size_t alignment);
void space_count_taken(space_t *space, size_t units, past_t past);

/* Takes a run back, to wherever it came from. */
void space_give(space_t *space, run_t *run);

/* The same on a budget's account, from the space or its fallback. NULL: no memory, or over the budget. */
run_t *space_take_charged(space_t *space, budget_t *budget, size_t bytes, size_t alignment);

/* For blocks that are filled as they are handed out, of at most FILLED_BLOCK_MOST bytes. */
run_t *space_take_filled(space_t *space, budget_t *budget, size_t bytes);
void space_give_charged(space_t *space, budget_t *budget, run_t *run);

/* Returns the bytes of the longest run that a region could give now, if a budget has room for `room` bytes. */
size_t space_longest_free(space_t *space, size_t room);

/* Returns how many bytes a run could have if the region or the budget is about to end: a shorter run than was refused may still
 * be had. It is a hint. */
size_t space_room_left(space_t *space, budget_t *budget);

/* Returns what a budget is charged for so many units of the space. */
static inline size_t space_price(const space_t *space, size_t units) { return space->prepaid ? 0 : units << space->unit_log2; }

/* The first gives back the run's last units, the second adds free units behind it. False: they are not free, or there is no
 * memory. */
void space_shorten(space_t *space, run_t *run, size_t units);
bool space_lengthen(space_t *space, run_t *run, size_t units);

/* Moves a run of the process's space to `units` others, which are more. The page tables move; if the system refuses, the bytes
 * are copied, and `wipes` clears them where they were. NULL: there are not so many units, and nothing has changed.
 * space_may_move() must have said that moving is worth it. */
run_t *space_move(run_t *run, size_t units, bool wipes);
bool space_may_move(const run_t *run, size_t units);

/* Returns how many units a run of the process's space may have when it is taken, and how many when it has grown. */
size_t space_longest_run(void);
size_t space_longest_grown(void);

/* Runs are aligned to at most 4 MiB. What lies between two of them is mapped. */
#define RUN_ALIGNMENT_MOST ((size_t)4 << 20)

/* ---- giving memory back: purge.c ----
 *
 * Taking a dirty unit again saves its page faults. So a space keeps its dirty units for the purge delay, and then purges those
 * that it never needed: if between 300 and 500 units were dirty during the delay, 300 go. With a delay of 0 units are purged as
 * they are given, except those of a region. Where the process's memory is limited, at most a 16th of the limit is kept: what
 * the program maps itself may need the rest.
 *
 * The system is called with the lock open, inside the gate. Units that it refuses are skipped and tried again later. */

/* These count units more as dirty, or fewer. Under the lock. */
void space_add_unpaid(const space_t *space, ptrdiff_t units);
void space_add_unpaid_bytes(ptrdiff_t bytes); /* of a region without units */
static inline void space_add_dirty(space_t *space, size_t units)
{
  space->dirty_units += units;
  if (unlikely(space->unpaid))
    space_add_unpaid(space, (ptrdiff_t)units);
}
static inline void space_sub_dirty(space_t *space, size_t units)
{
  space->dirty_units -= units;
  if (unlikely(space->unpaid))
    space_add_unpaid(space, -(ptrdiff_t)units);
}

/* The free units of the arena have changed. Under the lock. */
void space_note_longest(const arena_t *arena);

/* Units were given back or unmapped; and how often that was so, in this space and those that it falls back to. A reader
 * without the lock decides only whether a request is worth another try. */
static inline void space_note_change(space_t *space)
{
  __atomic_store_n(&space->changes, space->changes + 1, __ATOMIC_RELAXED);
}
uint64_t space_changes(const space_t *space);

/* Does the next steps of the pass that is under way, of 2 MiB and 8 system calls at most. */
void space_purge_step(space_t *space, size_t steps);
static inline bool space_purge_is_under_way(const space_t *space)
{
  return __atomic_load_n(&space->pass.arenas_left, __ATOMIC_RELAXED) != 0;
}

/* Gives dirty units back to the system until at most `keep` bytes are left, and addresses with them; returns the bytes
 * given. */
size_t space_purge(space_t *space, size_t keep);

/* Purges units until at most three quarters of dirty_most are dirty, so that one call serves many gives. */
void space_purge_at_once(space_t *space);

/* Purges the whole pages [from, to), which are inside a live run. Returns false if the system refuses. */
bool space_purge_inside(space_t *space, char *from, char *to);

/* Returns whether a quarter of the purge delay, an epoch, has passed since the last one ended. Then it ends, and a pass begins
 * over the units that were not needed for the whole delay. space_tick_region() also finishes the pass, since
 * regions are ticked seldom. space_has_left() says whether units are left for a later tick; where something was refused, not
 * before the next. space_wants_ticks() says so of a region alone: one that was refused something wants none until it is used
 * again. */
bool space_tick(space_t *space, uint64_t now_ms);
void space_tick_region(space_t *space, uint64_t now_ms);
bool space_has_left(space_t *space);
bool space_wants_ticks(space_t *space);

/* The process is about to fork. Under all locks, or by the only thread. */
void space_note_fork(void);

/* ---- questions ---- */

/* What a space holds beyond its runs. */
typedef struct space_figures {
  size_t dirty_bytes;  /* free, and held since it was used */
  size_t unused_bytes; /* of a prepaid region: free, and held whether it was used or not */
  uint64_t purged_bytes;
} space_figures_t;
space_figures_t space_figures(space_t *space);

/* From the first call to the second, the dirty units of a region count as held without a charge. space_unpaid_bytes() says how
 * much all such units hold. */
void space_count_unpaid(space_t *space);
void space_forget_unpaid(space_t *space);
size_t space_unpaid_bytes(void);

/* Bytes of the arenas of the process's space, the class map included. `advised` are in requested huge pages. */
typedef struct arena_figures {
  size_t record_bytes, mapped_bytes, advised_bytes;
} arena_figures_t;
arena_figures_t space_arena_figures(void);

/* The run that `address` is in, in whichever arena of the window; NULL: none. Any address will do. It may be gone the next
 * moment, unless the caller has a block there. */
run_t *space_find(const void *address);

/* Calls `ask` with the run and its arena, while the lock of their space keeps them as they are. False: there is none. */
typedef void run_ask_fn(const arena_t *arena, const run_t *run, void *context);
bool space_ask(const void *address, run_ask_fn *ask, void *context);
bool space_ask_fixed(space_t *space, const void *address, run_ask_fn *ask, void *context);

/* Says whether a large block started at `address` that has been given back. It may err, and only chooses the words of a
 * message. */
bool space_had_run(const void *address);
bool space_had_run_fixed(space_t *space, const void *address);

/* The run with the lowest address at or above `from` that is `wanted`, and no longer than the lock is held: `wanted` is called
 * under it and may note what it needs. False: none. For walks. */
typedef bool run_wanted_fn(const arena_t *arena, const run_t *run, void *context);
bool space_next_run(space_t *space, const void *from, run_wanted_fn *wanted, void *context);

/* The longest free stretch, as noted, of the arena in a slot; one of the process's. */
size_t space_longest_in(size_t slot);

/* Returns how many units of a length have room for so many bytes. */
static inline size_t units_for(size_t bytes, unsigned unit_log2) { return (bytes + ((size_t)1 << unit_log2) - 1) >> unit_log2; }
static inline size_t space_units(const space_t *space, size_t bytes) { return units_for(bytes, space->unit_log2); }

/* Returns the arena of a block, which is inside an arena of the space or of its fallback. */
static inline arena_t *arena_of(const space_t *space, const void *block)
{
  const arena_t *fixed = space->fixed;
  if (!HAS_SYSTEM || (fixed && (uintptr_t)block - (uintptr_t)fixed->base < (uintptr_t)fixed->unit_count << fixed->unit_log2))
    return space->fixed;
  return (arena_t *)(round_down((uintptr_t)block, SLOT) + ARENA_GAP);
}

#endif
