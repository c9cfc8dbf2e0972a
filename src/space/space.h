/* SPDX-License-Identifier: MIT
 *
 * A space is a set of arenas under one lock, from which runs are taken and to which they are given back. The process has one
 * space, whose arenas are in slots of the window. A heap with a region of units has its own, of one arena, and may fall back to
 * the process's.
 *
 * Runs are taken from the lowest arena that has room. An array has the longest free stretch of each arena, so that full arenas
 * are skipped without reading them.
 *
 *   A3 used_units and dirty_units are the sums over the arenas of the units that are not free, and of the dirty ones. It holds
 *      whenever the lock is free, except that units which are being purged are in neither count */
#ifndef SPACE_SPACE_H
#define SPACE_SPACE_H

#include "base/low_water.h"
#include "os/lock.h"
#include "space/arena.h"
#include "space/budget.h"

/* ---- slots ----
 *
 * The arenas in the slots of the window: those of the process's space, and regions of several slots. */

enum { SLOT_TRIES = 64 }; /* slots with foreign mappings that one call skips */

/* A slot in which an arena is about to be mapped, or in which a foreign mapping was found. */
#define SLOT_RESERVED ((arena_t *)-1)

/* Decides which slots are taken; taken inside the lock of any space. Complete arenas are stored with release. */
extern lock_t space_slots_lock;
extern INTERNAL arena_t *space_slots[SLOTS_MOST];

/* Returns the arena in a slot of the window, of any space, or NULL. Arenas of the process's space stay forever. */
arena_t *space_arena_at(size_t slot);
static inline arena_t *space_arena_around(const void *address) { return space_arena_at(window_slot_of(address)); }

/* Creates an arena of the space in `count` consecutive free slots, which no query finds before slots_set(). `units` 0 means as
 * many as fit; otherwise all `units` are mapped at once. */
taken_t slots_create_arena(struct space *space, size_t units, size_t count, arena_t **arena);
void slots_set(size_t first, size_t count, arena_t *arena);

/* Unmaps the arena. If the system refuses, it is left for a later attempt. Called under the lock. */
void slots_destroy_arena(arena_t *arena);

/* Return about how much memory of ended arenas is left, and retry to unmap it. space_destroy_left() returns its bytes. */
size_t space_left_bytes(void);
size_t space_destroy_left(void);

/* Returns the bytes of ended arenas that are still mapped. */
size_t space_left_mapped(void);

/* Returns the bytes of ended arenas that were returned to the system in total. */
uint64_t space_ended_bytes(void);

/* ---- spaces ---- */

/* A purge goes down from the high end of the highest arena. One that keeps some units visits the arenas twice. The first round
 * only purges huge pages that are dirty as a whole, since purging a part of one breaks it. */
typedef struct purge_pass {
  bool whole_pages;   /* it is in the first round */
  size_t keep;        /* dirty units that it leaves in the space */
  bool trims;         /* it also visits arenas without dirty units */
  bool refused;       /* some idle addresses could not be unmapped */
  uint64_t changes;   /* of the space, made by the pass itself */
  size_t left;        /* units that it may still purge: units that become dirty meanwhile wait for their own tick */
  size_t arenas_left; /* slots up to the current one; 0: it is done */
  size_t below;       /* it has passed the units from here on in that slot */
} purge_pass_t;

typedef struct space {
  lock_t lock;
  arena_t *own_arena;     /* the only arena of a region, or NULL */
  struct space *fallback; /* where a full region's heap continues, or NULL */
  bool prepaid;           /* a region that was charged entirely at its creation */
  bool purgeable;         /* its memory is the system's, not a caller's */
  bool purge_failed;      /* the system has refused a purge since the last tick */
  uint8_t huge_pages;
  uint32_t purge_delay_ms; /* 0: at once; PURGE_NEVER */
  size_t used_units, dirty_units;
  size_t dirty_most;     /* the process's space: beyond it units are purged at once; else SIZE_MAX */
  low_water_t low_dirty; /* of dirty_units */
  size_t mixed_units;    /* of runs that were taken partly dirty and partly returned; each epoch forgets a 16th */
  uint64_t changes;      /* how often units were given back, purged or unmapped */
  uint64_t trimmed_at;   /* 1 + `changes` + arena_maps() when a trim had returned everything; or 0 */
  uint64_t purged_bytes;
  uint64_t epoch_ms; /* the end of the last epoch */
  purge_pass_t pass; /* the purge in steps */
} space_t;

extern INTERNAL space_t space_of_process;

bool space_init(void);

/* The process has so little memory that a slab for each size class would be too much. Set by space_init(). */
extern INTERNAL bool space_is_short;

/* ---- regions ---- */

/* Makes a region in the caller's memory [memory, memory+size), with its records in front. Returns the end of the records; the
 * owner may use the memory from there to arena->base. Returns NULL if it is too small for a single unit. */
char *space_init_guest(space_t *space, arena_t *arena, void *memory, size_t size);

/* Returns the bytes of the records of `units` units. */
size_t space_region_records(size_t units);

/* Makes a fully mapped region of `units` units in slots of the window. Returns false without memory or slots. */
bool space_init_slots(space_t *space, size_t units);
void space_hide_slots(space_t *space);    /* from then on no query finds it */
void space_destroy_slots(space_t *space); /* unmaps it; space_destroy_left() retries parts that the system refuses */

/* ---- runs ---- */

/* Takes a run of `units` at a multiple of `alignment` units, or returns NULL. `zeroed` is set if it holds no old data. */
run_t *space_take(space_t *space, size_t units, size_t alignment);

void space_give(space_t *space, run_t *run);

/* Takes a run from the space or its fallback and charges a budget. Returns NULL if memory or the charge is refused. */
run_t *space_take_charged(space_t *space, budget_t *budget, size_t bytes, size_t alignment);

/* For blocks of at most FILLED_BLOCK_MOST bytes, which are filled when they are handed out. */
run_t *space_take_filled(space_t *space, budget_t *budget, size_t bytes);

/* Returns whether a run would be refused: the thread has searched the process's space for no more in vain, nothing was given
 * back since, and the system would refuse as much. The last attempt of a request searches (refusals.c). */
bool space_is_refused(const space_t *space, size_t units);
void space_give_charged(space_t *space, budget_t *budget, run_t *run);

/* Returns the bytes of the longest run that a region could give now, if a budget has room for `room` bytes. */
size_t space_longest_free(space_t *space, size_t room);

/* Returns how many bytes a run could have if the region or budget is nearly full: a hint for a shorter run. */
size_t space_room_left(space_t *space, budget_t *budget);

static inline size_t space_price(const space_t *space, size_t units) { return space->prepaid ? 0 : units << UNIT_LOG2; }

/* Give back the run's last units, or add the units behind it. False: these are not free, or there is no memory. */
void space_shorten(space_t *space, run_t *run, size_t units);
bool space_lengthen(space_t *space, run_t *run, size_t units);

/* Moves a run of the process's space to `units` other units, more than before, if space_may_move() allows. Moves page tables,
 * or copies and clears the old bytes if `wipes`. Returns NULL, without a change, if there are not so many units. */
run_t *space_move(run_t *run, size_t units, bool wipes);
bool space_may_move(const run_t *run, size_t units);

/* Return the most units of a run of the process's space when it is taken, and when it has grown. */
size_t space_longest_run(void);
size_t space_longest_grown(void);

/* Runs are aligned to at most 4 MiB. The gap between two of them is mapped. */
#define RUN_ALIGNMENT_MOST ((size_t)4 << 20)

/* ---- returning memory ----
 *
 * Reusing a dirty unit saves its page faults. So a space keeps its dirty units for the purge delay, and then purges those that
 * it never needed: if between 300 and 500 units were dirty during the delay, 300 are purged. With a delay of 0, units are
 * purged when they are given, except those of a region. If the process's memory is limited, at most 1/16 of the limit is kept
 * dirty, because the program's own mappings may need the rest.
 *
 * The lock is released while units are purged, inside the gate, but not while addresses are mapped or unmapped. Refused units
 * are skipped and retried later. */

/* Call it after the free units of the arena have changed, under the lock. */
void space_note_longest(const arena_t *arena);

/* space_note_change() notes that units were given back or unmapped. space_changes() returns how often that was so, in this
 * space and its fallbacks. Readers without the lock only decide whether a request is worth another attempt. */
static inline void space_note_change(space_t *space)
{
  __atomic_store_n(&space->changes, space->changes + 1, __ATOMIC_RELAXED);
}
uint64_t space_changes(const space_t *space);

/* Makes the next steps of the current pass, each of at most 2 MiB and 8 system calls. */
void space_purge_step(space_t *space, size_t steps);
static inline bool space_purge_is_under_way(const space_t *space)
{
  return __atomic_load_n(&space->pass.arenas_left, __ATOMIC_RELAXED) != 0;
}

/* Purges dirty units until at most `keep` bytes are left, and unmaps idle addresses. Returns the bytes purged. */
size_t space_purge(space_t *space, size_t keep);

/* Purges units until at most 3/4 of dirty_most are dirty, so that one call serves many gives. */
void space_purge_at_once(space_t *space);

/* Purges the whole pages [from, to), which are inside a live run. Returns false if the system refuses. */
bool space_purge_inside(space_t *space, char *from, char *to);

/* space_tick() returns whether an epoch, a quarter of the purge delay, has passed since the last one ended. It then ends the
 * epoch and begins a pass over the units that were not needed for the whole delay. space_tick_region() also finishes the pass,
 * since regions are ticked seldom.
 *
 * space_has_left() returns whether a later tick has units to purge, or free metadata. Units do not count from a refusal until
 * the next epoch. space_wants_ticks() is space_has_left() for regions, and false for the process's space. A refused region gets
 * no tick until its heap is used again. */
bool space_tick(space_t *space, uint64_t now_ms);
void space_tick_region(space_t *space, uint64_t now_ms);
bool space_has_left(space_t *space);
bool space_wants_ticks(space_t *space);

/* Call it before a fork, under all locks or in the only thread. */
void space_note_fork(void);

/* ---- queries ---- */

typedef struct space_figures {
  size_t dirty_bytes;  /* free, and held since it was used */
  size_t unused_bytes; /* of a prepaid region: free, and held whether it was used or not */
  uint64_t purged_bytes;
} space_figures_t;
space_figures_t space_figures(space_t *space);

/* Bytes of the arenas of the process's space, including the class map. `advised` are in requested huge pages. */
typedef struct arena_figures {
  size_t record_bytes, mapped_bytes, advised_bytes;
} arena_figures_t;
arena_figures_t space_arena_figures(void);

/* Calls `ask` with the arena's run that holds the address, under the lock of its space. Returns false if there is none. These
 * two accept NULL for the arena of an address outside the window. */
typedef void run_ask_fn(const run_t *run, void *context);
bool space_ask(arena_t *arena, const void *address, run_ask_fn *ask, void *context);

/* Returns whether a large block that was freed began at `address`. It may be wrong; it only selects the text of a message. */
bool space_had_run(const arena_t *arena, const void *address);

/* For walks: finds the run with the lowest address at or above `from` that is `wanted`. The run only stays while the lock is
 * held, so `wanted` is called under it and stores what it needs. Returns false if there is none. */
typedef bool run_wanted_fn(const run_t *run, void *context);
bool space_next_run(space_t *space, const void *from, run_wanted_fn *wanted, void *context);

/* Returns the longest free stretch of the process's arena in a slot. */
size_t space_longest_in(size_t slot);

static inline size_t units_for(size_t bytes) { return (bytes + UNIT - 1) >> UNIT_LOG2; }

/* Returns the arena of a block, which is in an arena of the space or of its fallback. */
static inline arena_t *arena_of(const space_t *space, const void *block)
{
  const arena_t *own = space->own_arena;
  if (own && (uintptr_t)block - (uintptr_t)own->base < (uintptr_t)own->unit_count << UNIT_LOG2)
    return space->own_arena;
  return (arena_t *)(round_down((uintptr_t)block, SLOT) + ARENA_GAP);
}

#endif
