/* SPDX-License-Identifier: MIT
 * Magazines are linked through their word 0, the newest first: the last one is the most likely to be in a cache. */
#include "bin/depot.h"
#include "os/lock.h"
#include "space/metadata.h"

enum {
  WORDS_OF_LINE = DEPOT_LINE / sizeof(void *),
  DEPOT_DECAY = 7,     /* the bound falls by 1/128 when it is met */
  DEPOT_NEED_DECAY = 4 /* 1/4 of a shard's need is forgotten in an epoch without need */
};

/* ---- empty magazines ---- */

/* Protects the magazines of no bin: those of ended ones, and new ones. They are linked as those of a depot are. */
lock_t bin_magazines_lock;

/* Eight magazines share a page. Taken one by one, each would occupy a page, because no freed record has their alignment. */
static metadata_kind_t magazine_records = {.size = MAGAZINE_BYTES, .alignment = MAGAZINE_BYTES};

/* For words that are written under the depot's lock, or by several threads at once, and read without it. */
#define LOAD(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define ADD(place, value)   __atomic_fetch_add(&(place), (value), __ATOMIC_RELAXED)

static void **magazine_take(void)
{
  LOCKED(&bin_magazines_lock);
  return metadata_take_kind(&magazine_records);
}

/* Hands over a whole list, so the lock is taken once for each depot. */
static void magazines_disown(void **magazine)
{
  if (!magazine)
    return;
  LOCKED(&bin_magazines_lock);
  for (void **below; magazine; magazine = below) {
    below = magazine_below(magazine);
    metadata_give_kind(&magazine_records, magazine);
  }
}

static void put_empty(depot_t *depot, void **magazine)
{
  magazine_link_empty(magazine, depot->empties);
  STORE(depot->empties, magazine);
}

/* Unused depots get no empty magazine. Otherwise a thread that uses one heap after the other would leave magazines in each. The
 * lists now serve the next heap, and fewer bins have a depot lock that forks visit (due.c). */
void depots_put_empty(depots_t *depots, unsigned shard, void **magazine)
{
  if (unlikely(!depots_shards(depots))) {
    magazine_link_empty(magazine, NULL);
    magazines_disown(magazine);
    return;
  }
  depot_t *depot = depot_at(depots, shard);
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  put_empty(depot, magazine);
  closure_release(&depot->lock, shared);
}

/* Called under the depot's lock. Returns NULL if the depot has none. */
static inline void **take_empty(depot_t *depot)
{
  void **magazine = depot->empties;
  if (magazine) {
    void **below = magazine_below(magazine);
    STORE(depot->empties, below);
    __builtin_prefetch(below, 1);
  }
  return magazine;
}

/* Tries the shard's own depot first, whose magazines are likely to be in this core's cache, and then those of earlier threads,
 * whose blocks were taken, so that their magazines came back. Returns NULL if none seems to have any. */
static inline depot_t *depot_with_empties(const depots_t *depots, unsigned shard)
{
  unsigned shards = depots_shards(depots);
  for (unsigned i = 0; i < shards; i++) {
    depot_t *depot = depot_at(depots, (shard - i) & (shards - 1));
    if (depot_has_empties(depot))
      return depot;
  }
  return NULL;
}

/* For a thread that came too late. */
COLD static void **look_again(depots_t *depots, unsigned shard) { return depots_take_empty(depots, shard); }

/* Takes a lock only if the depot seems to have an empty magazine. */
void **depots_take_empty(depots_t *depots, unsigned shard)
{
  depot_t *depot = depot_with_empties(depots, shard);
  if (unlikely(!depot))
    return magazine_take();
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  void **magazine = take_empty(depot);
  closure_release(&depot->lock, shared);
  return likely(magazine) ? magazine : look_again(depots, shard);
}

/* ---- taking depots ---- */

const depot_t depots_of_nobody[DEPOT_SHARDS];

COLD bool depots_take(depots_t *depots, bool single_thread)
{
  depot_t *of = metadata_take(DEPOT_SHARDS * sizeof *of, DEPOT_LINE);
  if (!of)
    return false;
  for (unsigned i = 0; i < DEPOT_SHARDS; i++)
    of[i].lock.solo = single_thread;
  __atomic_store_n(&depots->of, of, __ATOMIC_RELEASE);
  __atomic_store_n(&depots->shards, DEPOT_SHARDS, __ATOMIC_RELEASE);
  return true;
}

/* Adds all depots at once, since a process with so many threads hardly notices the memory, and then publishes the number. */
COLD void depots_add(depots_t *depots)
{
  depots->more = metadata_take((depots->most - DEPOT_SHARDS) * sizeof(depot_t), DEPOT_LINE);
  if (depots->more)
    __atomic_store_n(&depots->shards, depots->most, __ATOMIC_RELEASE);
}

/* ---- magazines with entries ---- */

/* Called under the depot's lock, after depot->count has changed. An empty depot must leave nothing uncounted: while there were
 * few depots, it may have got a number of magazines that is no multiple of the step, and the total would never reach 0 again.
 */
NOINLINE static void count_in_steps(depots_t *depots, depot_t *depot, int32_t by)
{
  int32_t uncounted = depot->uncounted + by;
  if (uncounted >= DEPOT_STEP || uncounted <= -DEPOT_STEP || (uncounted && !depot->count)) {
    ADD(depots->count, (uint32_t)uncounted);
    uncounted = 0;
  }
  depot->uncounted = uncounted;
}

static inline void count_magazine(depots_t *depots, depot_t *depot, int32_t by)
{
  if (likely(depots_step(depots) == 1))
    ADD(depots->count, (uint32_t)by);
  else
    count_in_steps(depots, depot, by);
}

static inline void push(depots_t *depots, depot_t *depot, void **top)
{
  void **magazine = magazine_of(top);
  magazine_link(magazine, depot->newest, magazine_capacity(magazine));
  depot->newest = magazine;
  STORE(depot->count, depot->count + 1);
  if (depot->count > depot->high)
    depot->high = depot->count;
  count_magazine(depots, depot, 1);
}

/* Takes the newest magazine, whose blocks were used last, and prefetches the next. Called under the depot's lock. */
static inline __attribute__((always_inline)) void **pop(depots_t *depots, depot_t *depot)
{
  void **magazine = depot->newest;
  depot->newest = magazine_below(magazine);
  __builtin_prefetch(depot->newest, 1);
  STORE(depot->count, depot->count - 1);
  if (depot->count < depot->low)
    depot->low = depot->count;
  count_magazine(depots, depot, -1);
  magazine_link(magazine, NULL, magazine_capacity(magazine));
  return magazine_last(magazine);
}

void depots_push(depots_t *depots, unsigned shard, void **top)
{
  depot_t *depot = depot_at(depots, shard);
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  push(depots, depot, top);
  closure_release(&depot->lock, shared);
}

void **depots_exchange_full(depots_t *depots, depot_t *depot, void **top)
{
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  void **empty = take_empty(depot);
  if (empty)
    push(depots, depot, top);
  closure_release(&depot->lock, shared);
  return empty;
}

/* A shard's need is how far its own threads draw the depot below its high-water mark. So many will be wanted again. */
void **depots_pop_own(depots_t *depots, depot_t *depot, void **empty)
{
  void **top = NULL;
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  if (depot->count) {
    top = pop(depots, depot);
    STORE(depot->need, (uint32_t)max_size(depot->need, depot->high - depot->count));
    if (empty)
      put_empty(depot, magazine_of(empty));
  }
  closure_release(&depot->lock, shared);
  return top;
}

static bool can_spare(const depot_t *depot, bool needed_too)
{
  return LOAD(depot->count) > (needed_too ? 0 : LOAD(depot->need));
}

/* The other shard keeps what it needs. Otherwise its threads would have to steal too, and blocks would circulate endlessly
 * (sh8bench with four threads takes 3.0 s, and 4.8 s without this rule). A stolen magazine lowers the high mark, because the
 * shard's own threads did not draw it. The empty magazine goes to the other shard, which will fill the next one. */
void **depots_steal(depots_t *depots, unsigned shard, void **empty, bool needed_too)
{
  unsigned shards = depots_shards(depots);
  for (unsigned i = 1; i < shards; i++) {
    depot_t *depot = depot_at(depots, (shard + i) & (shards - 1));
    if (!can_spare(depot, needed_too))
      continue;
    void **top = NULL;
    bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
    if (likely(can_spare(depot, needed_too))) {
      top = pop(depots, depot);
      depot->high--;
      if (empty)
        put_empty(depot, magazine_of(empty));
    }
    closure_release(&depot->lock, shared);
    if (likely(top)) {
      /* The entries come from another core's cache, and are read from the top down. */
      __builtin_prefetch(top - WORDS_OF_LINE, 1);
      __builtin_prefetch(top - 2 * WORDS_OF_LINE, 1);
      __builtin_prefetch(top - 3 * WORDS_OF_LINE, 1);
      return top;
    }
  }
  return NULL;
}

/* The bound rises again when blocks change shards (slabs_note_change()). */
NOINLINE void depots_lower_bound(depots_t *depots, uint32_t bound) { STORE(depots->bound, bound - (bound >> DEPOT_DECAY)); }

/* One of two simultaneous changes of the bound may be lost. The depots then hold a few magazines more or fewer. */
void depots_grow(depots_t *depots, size_t by, size_t most)
{
  STORE(depots->bound, (uint32_t)min_size(LOAD(depots->bound) + by, most));
}

void depots_halve_bound(depots_t *depots) { STORE(depots->bound, LOAD(depots->bound) / 2); }

/* ---- returning memory ---- */

/* The shard's threads did not draw this magazine, so the high mark follows the count. */
void **depot_shed(depots_t *depots, depot_t *depot)
{
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  void **top = depot->count ? pop(depots, depot) : NULL;
  depot->high = depot->count;
  closure_release(&depot->lock, shared);
  return top;
}

uint32_t depot_low(depot_t *depot)
{
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  uint32_t low = depot->low;
  closure_release(&depot->lock, shared);
  return low;
}

/* Rounds the forgotten part up, so that the need reaches 0. */
void depot_begin_epoch(depot_t *depot)
{
  bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
  depot->low = depot->high = depot->count;
  STORE(depot->need, depot->need - (depot->need + DEPOT_NEED_DECAY - 1) / DEPOT_NEED_DECAY);
  closure_release(&depot->lock, shared);
}

bool depots_seem_quiet(const depots_t *depots) { return !LOAD(depots->count) && !LOAD(depots->bound); }

/* Takes every lock, even of a depot that seems empty: its next user then sees everything that the caller did before. */
bool depots_are_quiet(depots_t *depots)
{
  bool quiet = true;
  for (unsigned i = 0; i < depots_shards(depots); i++) {
    depot_t *depot = depot_at(depots, i);
    bool shared = closure_acquire(LOCKS_OF_DEPOTS, &depot->lock);
    quiet &= !depot->count && !depot->need;
    closure_release(&depot->lock, shared);
  }
  return quiet;
}

/* The need was for blocks that are gone. */
void depots_forget_entries(depots_t *depots)
{
  for (unsigned i = 0; i < depots_shards(depots); i++) {
    depot_t *depot = depot_at(depots, i);
    while (depot->count)
      put_empty(depot, magazine_of(pop(depots, depot)));
    depot->high = depot->need = 0;
  }
}

/* Magazines of ended bins are never freed, because other bins need them. */
void depots_destroy(depots_t *depots)
{
  if (depots->count)
    depots_forget_entries(depots);
  for (unsigned i = 0; i < depots_shards(depots); i++) {
    depot_t *depot = depot_at(depots, i);
    magazines_disown(depot->empties);
    depot->empties = NULL;
  }
}

void depots_give(depots_t *depots)
{
  if (depots->shards)
    metadata_give(depots->of, DEPOT_SHARDS * sizeof *depots->of);
}

/* ---- queries ---- */

/* The lists of a single-threaded bin change during the walk. The reader loads whole words, and every link leads to a magazine,
 * though maybe of another list, because magazines are never unmapped. `count` bounds the walk even if links form a circle. */
READS_BESIDE_OWNER static size_t count_depot(const volatile depot_t *depot, const void *wanted, bool *found)
{
  size_t blocks = 0;
  uintptr_t magazine = (uintptr_t)depot->newest;
  for (uint32_t left = depot->count; left && magazine; left--) {
    const volatile uintptr_t *words = (const volatile uintptr_t *)magazine;
    uintptr_t link = words[0];
    uintptr_t entry;
    for (size_t top = MAGAZINE_WORDS - 1; top && (entry = words[top]) != 0; top--, blocks++)
      *found |= entry == (uintptr_t)wanted;
    magazine = round_down(link, MAGAZINE_BYTES);
  }
  return blocks;
}

/* Holds all locks at once, so that no magazine can move unseen. Forks pass the locks of bins first, so they cannot deadlock. */
size_t depots_count(const depots_t *depots, const void *wanted, bool *found)
{
  unsigned shards = depots_shards(depots);
  bool locks = shards && !depot_at(depots, 0)->lock.solo;
  size_t blocks = 0;
  for (unsigned i = 0; locks && i < shards; i++)
    closure_acquire(LOCKS_OF_DEPOTS, &depot_at(depots, i)->lock);
  for (unsigned i = 0; i < shards; i++)
    blocks += count_depot(depot_at(depots, i), wanted, found);
  for (unsigned i = 0; locks && i < shards; i++)
    lock_release(&depot_at(depots, i)->lock);
  return blocks;
}
