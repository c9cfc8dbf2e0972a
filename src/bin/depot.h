/* SPDX-License-Identifier: MIT
 *
 * The spare magazines of one bin. There is a depot for each shard of threads, so that a thread gets magazines back first with
 * blocks that its core has in its cache, and those of other shards only where these have more than they need. Once a bin has
 * more depots than its record, the shard is that of the processor which a thread is on when it comes. It is only a hint: any
 * thread may use any depot.
 *
 *   D1 depots.count + uncounted of all depots == the magazines of all, each with an entry at least; an empty depot has none
 *      uncounted; of one, low <= count <= high
 *
 * Each depot has a lock of its own, so that cores which exchange magazines wait neither for each other nor for one that is at
 * the slabs. Whoever has the lock of the bin may take that of a depot, not the other way round. Functions take the locks they
 * need. D1 holds whenever all of them are free. */
#ifndef DEPOT_H
#define DEPOT_H

#include "bin/magazine.h"

enum {
  DEPOT_SHARDS = 4,       /* of each bin */
  DEPOT_SHARDS_MOST = 32, /* of those of the default heap, where there are as many processors, and more threads than above */
  DEPOT_LEAST = 4,        /* magazines that they may hold whatever the bound is */
  DEPOT_STEP = 4,         /* magazines, that one of so many has more or less until depots.count says so */
  DEPOT_LINE = HAS_SYSTEM ? 64 : 8 /* bytes: depots share no line of a cache, since each is written to by other cores */
};

typedef struct depot {
  _Alignas(DEPOT_LINE) lock_t lock;
  void **newest;      /* magazine with entries, or NULL */
  void **empties;     /* magazines without entries */
  uint32_t count;     /* of those with entries */
  uint32_t low, high; /* the fewest since the last tick; the most since then, less those that other shards took */
  uint32_t need;      /* the most that the shard's own threads lately took in a row: so many are left to them */
  int32_t uncounted;  /* magazines that depots.count does not have yet, or has too many; less than depots_step() */
} depot_t;

/* Without a lock: whoever looks at them takes them as hints. */
typedef struct depots {
  depot_t *of;     /* one for each of the first shards; NULL: no thread has magazines of this class */
  depot_t *more;   /* those of the shards from DEPOT_SHARDS on */
  uint32_t count;  /* magazines with entries in all of them, but for what each has uncounted */
  uint32_t bound;  /* how many they may hold: grows while blocks wander from thread to thread */
  uint32_t shards; /* 0 until one is put into a depot, then a power of two. Grows once more, from DEPOT_SHARDS to `most`,
                    * both under the bin's lock */
  uint32_t most;
} depots_t;

/* Magazines of bins that ended. */
extern lock_t bin_magazines_lock;

/* How many there are to walk. Whoever sees the greater number sees the depots. */
static inline unsigned depots_shards(const depots_t *depots) { return __atomic_load_n(&depots->shards, __ATOMIC_ACQUIRE); }

/* The depot of a shard, which is below the number above. */
static inline depot_t *depot_at(const depots_t *depots, unsigned shard)
{
  return likely(shard < DEPOT_SHARDS) ? &depots->of[shard] : &depots->more[shard - DEPOT_SHARDS];
}

/* The shard that a thread with that number goes to. With few depots it has one of its own, so that it gets its own blocks back
 * wherever it runs; with more it is that of the processor. */
static inline unsigned depots_shard_of(const depots_t *depots, unsigned number)
{
  unsigned shards = depots_shards(depots);
  bool few = !HAS_SYSTEM || likely(shards == DEPOT_SHARDS) || !shards;
  return few ? number % DEPOT_SHARDS : os_processor() & (shards - 1);
}

/* Says whether a process with so many threads, or more, would better have the rest of the depots; and makes them, under the
 * bin's lock. Without memory for them those that there are have to do. */
static inline bool depots_want_more(const depots_t *depots, unsigned threads)
{
  return unlikely(threads > DEPOT_SHARDS) && depots->most > DEPOT_SHARDS &&
         __atomic_load_n(&depots->shards, __ATOMIC_RELAXED) == DEPOT_SHARDS;
}
void depots_add(depots_t *depots);

/* For a bin of one thread: without locks. Those of others begin as the first magazine is put there (depots_begin()). */
static inline void depots_begin_for_one_thread(depots_t *depots)
{
  for (unsigned i = 0; i < DEPOT_SHARDS; i++)
    depots->of[i].lock.solo = true;
  depots->shards = DEPOT_SHARDS;
}

/* In what steps depots.count is changed. Many cores that changed it with each magazine would wait for its line, not for a lock:
 * of one depot as many go as come, so that they hardly ever change it. With few it is exact. */
static inline int32_t depots_step(const depots_t *depots)
{
  return __atomic_load_n(&depots->shards, __ATOMIC_RELAXED) > DEPOT_SHARDS ? DEPOT_STEP : 1;
}

/* Say whether there is a magazine with entries, as far as that can be seen without a lock. With many depots the first may say
 * no where each has fewer than DEPOT_STEP, and says no where all are empty. */
static inline bool depots_seem_filled(const depots_t *depots) { return __atomic_load_n(&depots->count, __ATOMIC_RELAXED) != 0; }
static inline bool depot_has_empties(const depot_t *depot)
{
  return __atomic_load_n(&depot->empties, __ATOMIC_RELAXED) != NULL;
}
static inline bool depot_seems_filled(const depot_t *depot) { return __atomic_load_n(&depot->count, __ATOMIC_RELAXED) != 0; }

/* Returns an empty magazine: one of the shard, else of another shard, of a bin that ended, or a new one. NULL: no memory. */
void **depots_take_empty(depots_t *depots, unsigned shard);
void depots_put_empty(depots_t *depots, unsigned shard, void **magazine);

/* Puts a magazine with entries up to `top` into the shard's depot. The second wants an empty one of that depot in exchange;
 * NULL: there is none, and nothing was put. */
void depots_push(depots_t *depots, unsigned shard, void **top);
void **depots_exchange_full(depots_t *depots, depot_t *depot, void **top);

/* Takes the newest magazine of the shard for one of its own threads, notes that the shard needs it, and returns its top entry.
 * `empty` (or NULL) is put in exchange. NULL: there is none, and nothing was put.
 *
 * Example: threads of a shard free 3,000 magazines into its depot and then allocate 3,000. The need of the shard is 3,000. In
 * epochs without need it falls to 2,250, 1,687, 1,265, 948, and to 0 after 26. */
void **depots_pop_own(depots_t *depots, depot_t *depot, void **empty);

/* The same from another shard that has more than it needs; with `needed_too` from any other shard. */
void **depots_steal(depots_t *depots, unsigned shard, void **empty, bool needed_too);

/* Takes the newest magazine of a depot, whoever needs it. NULL: it has none. */
void **depot_shed(depots_t *depots, depot_t *depot);

/* Returns the fewest magazines that the depot had in this epoch. */
uint32_t depot_low(depot_t *depot);

/* Says whether the depots have room for one more magazine. A bound that is met falls a little. */
void depots_lower_bound(depots_t *depots, uint32_t bound);
static inline bool depots_have_room(depots_t *depots)
{
  uint32_t bound = __atomic_load_n(&depots->bound, __ATOMIC_RELAXED), count = __atomic_load_n(&depots->count, __ATOMIC_RELAXED);
  bool room = count < (bound > DEPOT_LEAST ? bound : DEPOT_LEAST);
  if (unlikely(!room))
    depots_lower_bound(depots, bound);
  return room;
}

/* Lets them hold `by` more, but not more than `most`; and half as many. */
void depots_grow(depots_t *depots, size_t by, size_t most);
void depots_halve_bound(depots_t *depots);

/* Begins an epoch: both marks begin at the present count, and the need fades. */
void depot_begin_epoch(depot_t *depot);

/* Says whether all depots are empty and nobody needs anything: whether a tick has nothing to do there. The first takes no lock.
 * With the second, who comes to a depot after the answer sees all that the caller did before it asked. */
bool depots_seem_quiet(const depots_t *depots);
bool depots_are_quiet(depots_t *depots);

/* Empties all magazines; their blocks have ended with a reset. No thread exchanges any meanwhile. */
void depots_forget_entries(depots_t *depots);

/* For a bin that ends: the magazines are emptied and serve other bins. */
void depots_destroy(depots_t *depots);

/* Returns how many blocks are in the depots; *found is set if `wanted` is one of them. Under the bin's lock, if it has one:
 * only then may a thread have the locks of several depots. */
size_t depots_count(const depots_t *depots, const void *wanted, bool *found);

#endif
