/* SPDX-License-Identifier: MIT
 *
 * The spare magazines of one bin. Each shard of threads has a depot, so that a thread first gets blocks that its core has
 * cached, and magazines of other shards only if those have more than they need. Once a bin has more than DEPOT_SHARDS, a
 * thread's shard follows its current processor. The shard is only a hint: any thread may use any depot.
 *
 *   D1 depots.count + uncounted of all depots == the magazines of all, each with an entry at least; an empty depot has none
 *      uncounted; in each depot low <= count <= high
 *
 * Each depot has its own lock, so that cores that exchange magazines wait neither for each other nor for one that is at the
 * slabs. A thread that holds the lock of the bin may take that of a depot, not vice versa. Functions take the locks that they
 * need. D1 holds whenever all of them are free. */
#ifndef BIN_DEPOT_H
#define BIN_DEPOT_H

#include "os/lock.h"

/* ---- magazines ----
 *
 * A magazine is MAGAZINE_WORDS pointers, aligned to its size. Word 0 links it into a list while it is put away. Entries grow
 * upwards to the last word from a NULL that ends them. `n` is the capacity:
 *
 *     word      0        1 ...  63-n     64-n    ...    63
 *           link and n           NULL   entry 1 ...  entry n        top -> the highest entry
 *
 * A second NULL is below the first, unless the link is there.
 *
 * The magazine is empty if the entry read is NULL, and full if the next word's address is a multiple of the size. So the same
 * code handles magazines of any capacity up to MAGAZINE_CAPACITY_MOST. */

enum {
  MAGAZINE_WORDS = 64,
  MAGAZINE_BYTES = MAGAZINE_WORDS * (int)sizeof(void *),
  MAGAZINE_CAPACITY_MOST = MAGAZINE_WORDS - 2,
  MAGAZINE_LEAST = 2 /* blocks: a magazine that is loaded with a freed block has room for another */
};

/* Returns the word for the NULL of an empty magazine, below its first entry. */
static inline void **magazine_floor(void **magazine, unsigned capacity) { return magazine + (MAGAZINE_WORDS - 1 - capacity); }
static inline void **magazine_of(void **top) { return (void **)round_down((uintptr_t)top, MAGAZINE_BYTES); }
static inline bool magazine_is_full_at(void **next) { return ((uintptr_t)next & (MAGAZINE_BYTES - 1)) == 0; }

/* Word 0 of a magazine that is put away links to the one below it in its list. In a depot, and when it comes from the bin, it
 * also has the capacity. Magazines that are put away are full to their last word, or empty. */
static inline unsigned magazine_capacity(void **magazine) { return (unsigned)((uintptr_t)magazine[0] & (MAGAZINE_BYTES - 1)); }
static inline void **magazine_below(void **magazine) { return (void **)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES); }
static inline void **magazine_last(void **magazine) { return magazine + MAGAZINE_WORDS - 1; }
static inline void magazine_link(void **magazine, void **below, unsigned capacity)
{
  magazine[0] = (void *)((uintptr_t)below + capacity);
}

/* Links an empty magazine. Lock-free readers begin at its last word, which must not show an old entry: it may be live now. */
static inline void magazine_link_empty(void **magazine, void **below)
{
  *magazine_last(magazine) = NULL;
  magazine_link(magazine, below, 0);
}

/* Ends the entries at `floor`. A lock-free reader may combine the pointer of an emptied magazine with its earlier top, which
 * leads to the word below. So that word ends the entries too: its old block may be live now. */
static inline void magazine_end_at(void **floor) { floor[0] = floor[-1] = NULL; }

static inline size_t magazine_entries(void *const *top)
{
  void *const *at = top;
  while (*at)
    at--;
  return (size_t)(top - at);
}

/* ---- depots ---- */

enum {
  DEPOT_SHARDS = 4,       /* in each bin */
  DEPOT_SHARDS_MOST = 32, /* in the default heap's bins, with as many processors and more threads than DEPOT_SHARDS */
  DEPOT_LEAST = 4,        /* magazines that the depots may hold whatever the bound is */
  DEPOT_STEP = 4,         /* magazines by which a depot may differ until depots.count is updated */
  DEPOT_LINE = 64         /* bytes: depots share no cache line, since different cores write to them */
};

typedef struct depot {
  _Alignas(DEPOT_LINE) lock_t lock;
  void **newest;      /* magazine with entries, or NULL */
  void **empties;     /* magazines without entries */
  uint32_t count;     /* magazines with entries */
  uint32_t low, high; /* the fewest since the last tick; the most since then, less those that other shards took */
  uint32_t need;      /* the most that the shard's own threads lately took in a row, which other shards leave to it */
  int32_t uncounted;  /* magazines that depots.count lacks, or has too many; less than depots_step() */
} depot_t;

/* Readers without a lock take these as hints. */
typedef struct depots {
  depot_t *of;     /* one for each of the first shards; depots_of_nobody until a magazine is put into a depot */
  depot_t *more;   /* those of the shards from DEPOT_SHARDS on */
  uint32_t count;  /* magazines with entries in all depots, except the uncounted ones */
  uint32_t bound;  /* how many they may hold; grows while blocks move between threads */
  uint32_t shards; /* 0 until a magazine is put into a depot, then a power of two. Grows once, from DEPOT_SHARDS to `most`.
                    * Changes under the bin's lock */
  uint32_t most;
} depots_t;

/* Protects the magazines of ended bins. */
extern lock_t bin_magazines_lock;

/* Empty for ever. Many bins never use their depots, and a bin's record is much shorter without them. */
extern const depot_t depots_of_nobody[DEPOT_SHARDS];

/* Returns the number of depots. A thread that sees the greater number also sees the new depots. */
static inline unsigned depots_shards(const depots_t *depots) { return __atomic_load_n(&depots->shards, __ATOMIC_ACQUIRE); }

/* A thread that sees new depots also sees that they are empty. */
static inline depot_t *depot_at(const depots_t *depots, unsigned shard)
{
  return likely(shard < DEPOT_SHARDS) ? __atomic_load_n(&depots->of, __ATOMIC_ACQUIRE) + shard
                                      : &depots->more[shard - DEPOT_SHARDS];
}

/* Returns a thread's shard: with few depots by its number, so that it gets its own blocks back, else by its processor. */
static inline unsigned depots_shard_of(const depots_t *depots, unsigned number)
{
  unsigned shards = depots_shards(depots);
  bool few = likely(shards == DEPOT_SHARDS) || !shards;
  return few ? number % DEPOT_SHARDS : os_processor() & (shards - 1);
}

/* Returns whether a process with so many threads should have more depots. depots_add() makes them, under the bin's lock. */
static inline bool depots_want_more(const depots_t *depots, unsigned threads)
{
  return unlikely(threads > DEPOT_SHARDS) && depots->most > DEPOT_SHARDS &&
         __atomic_load_n(&depots->shards, __ATOMIC_RELAXED) == DEPOT_SHARDS;
}
void depots_add(depots_t *depots);

/* Takes the depots, under the bin's lock. Those of a single-threaded bin have no locks. Returns false if there is no memory. */
bool depots_take(depots_t *depots, bool single_thread);

/* Returns the step in which depots.count changes. Many cores that changed it with each magazine would wait for its cache line.
 * A depot gets as many as it loses, so steps seldom occur. With few depots the count is exact. */
static inline int32_t depots_step(const depots_t *depots)
{
  return __atomic_load_n(&depots->shards, __ATOMIC_RELAXED) > DEPOT_SHARDS ? DEPOT_STEP : 1;
}

/* These return whether there is a magazine, as far as a reader without a lock can see. With many depots, depots_seem_filled()
 * may return false while each has fewer than DEPOT_STEP, and returns false if all are empty. */
static inline bool depots_seem_filled(const depots_t *depots) { return __atomic_load_n(&depots->count, __ATOMIC_RELAXED) != 0; }
static inline bool depot_has_empties(const depot_t *depot)
{
  return __atomic_load_n(&depot->empties, __ATOMIC_RELAXED) != NULL;
}
static inline bool depot_seems_filled(const depot_t *depot) { return __atomic_load_n(&depot->count, __ATOMIC_RELAXED) != 0; }

/* Returns an empty magazine: of the shard, another shard, an ended bin, or a new one. Returns NULL if there is no memory. */
void **depots_take_empty(depots_t *depots, unsigned shard);
void depots_put_empty(depots_t *depots, unsigned shard, void **magazine);

/* Put a magazine with entries up to `top` into the shard's depot. depots_exchange_full() takes an empty one of that depot in
 * exchange; if there is none, it returns NULL and puts nothing. */
void depots_push(depots_t *depots, unsigned shard, void **top);
void **depots_exchange_full(depots_t *depots, depot_t *depot, void **top);

/* Takes the newest magazine for one of the shard's own threads, records the need, and returns its top entry. `empty`, if not
 * NULL, is put in exchange. If there is no magazine, it returns NULL and puts nothing.
 *
 * Example: threads of a shard free 3,000 magazines into its depot and then allocate 3,000. The shard's need is 3,000. In epochs
 * without need it falls to 2,250, 1,687, 1,265, 948, and to 0 after 26. */
void **depots_pop_own(depots_t *depots, depot_t *depot, void **empty);

/* Takes the newest magazine of another shard that has more than it needs or, with `needed_too`, of any other shard. */
void **depots_steal(depots_t *depots, unsigned shard, void **empty, bool needed_too);

/* Takes the newest magazine of a depot, regardless of need. Returns NULL if there is none. */
void **depot_shed(depots_t *depots, depot_t *depot);

/* Returns the fewest magazines that the depot had in this epoch. */
uint32_t depot_low(depot_t *depot);

/* Returns whether the depots have room for one more magazine. A bound that is met falls a little. */
void depots_lower_bound(depots_t *depots, uint32_t bound);
static inline bool depots_have_room(depots_t *depots)
{
  uint32_t bound = __atomic_load_n(&depots->bound, __ATOMIC_RELAXED), count = __atomic_load_n(&depots->count, __ATOMIC_RELAXED);
  bool room = count < (bound > DEPOT_LEAST ? bound : DEPOT_LEAST);
  if (unlikely(!room))
    depots_lower_bound(depots, bound);
  return room;
}

/* Change the bound: by `by` magazines, up to `most`, or to half. */
void depots_grow(depots_t *depots, size_t by, size_t most);
void depots_halve_bound(depots_t *depots);

/* Begins an epoch: both marks start at the current count, and the need decays. */
void depot_begin_epoch(depot_t *depot);

/* Return whether all depots are empty and no shard needs anything, so that ticks have no work. depots_seem_quiet() takes no
 * lock. After depots_are_quiet(), the next user of a depot sees everything that the caller did before the call. */
bool depots_seem_quiet(const depots_t *depots);
bool depots_are_quiet(depots_t *depots);

/* Empties all magazines, whose blocks ended with a reset. No thread may exchange any meanwhile. */
void depots_forget_entries(depots_t *depots);

/* For a bin that ends: depots_destroy() empties its magazines and gives them to other bins. Questions may still read the
 * depots, until depots_give() gives their memory back. Only the default heap, which never ends, has more than DEPOT_SHARDS. */
void depots_destroy(depots_t *depots);
void depots_give(depots_t *depots);

/* Returns how many blocks are in the depots, and sets *found if `wanted` is among them. Called under the bin's lock, if it has
 * one: only then may a thread hold the locks of several depots. */
size_t depots_count(const depots_t *depots, const void *wanted, bool *found);

#endif
