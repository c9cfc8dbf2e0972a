/* SPDX-License-Identifier: MIT
 * Decides which of magazine, depot and slab gives or takes blocks; depot.c and slabs.c do it. A call takes the lock of a depot
 * or, for the slabs, that of the bin, mostly once, however many blocks move. */
#include "bin/bin.h"
#include "option.h"
#include "os/lock.h"
#include <string.h>

enum {
  DEPOT_GROWTH = 32,           /* magazines added for one that changed shards */
  STEPS_PER_BIN = 8,           /* steps (step_budget_t) for each bin while a purge is under way */
  CLOSE_LEAST_BYTES = 16 << 10 /* a slab may stay if fewer bytes were touched: another slab in its unit would touch more
                                * (espresso: 5.0 MiB if every unused slab was closed, 3.3 MiB if none) */
};

/* Without magazines no free finds a block by its class, so the class map needs no entry. */
void bin_init(bin_t *bin, const bin_make_t *make)
{
  size_t size = make->block_size;
  memset(bin, 0, sizeof *bin);
  bin->block_size = (uint32_t)size;
  bin->size_class = (uint8_t)make->size_class;
  bin->slab_bytes = (uint32_t)slabs_bytes_for(size, make->tight);
  bin->inverse = slab_inverse(size);
  bin->space = make->space;
  bin->budget = make->budget;
  bin->heap = make->heap;
  bin->depots = (depots_t){.of = (depot_t *)(uintptr_t)depots_of_nobody, .most = make->shards_most};
  bin->cached = make->cached;
  bin->plane = bin->cached ? make->plane : BIN_PLANE_NONE;
  bin->purges = make->purges;
  bin->lock.solo = make->single_thread;
  bin->purges_in_puts = make->space->purge_delay_ms != PURGE_NEVER && (make->single_thread || !make->space->purge_delay_ms);
  slabs_size_magazines(bin);
}

/* Counts whole slabs as they would be opened, and the units of the last blocks. */
size_t bin_units_for(size_t block_size, size_t bytes)
{
  size_t slab = slabs_bytes_for(block_size, true), blocks = bytes / block_size, each = slab / block_size;
  return blocks / each * (slab >> UNIT_LOG2) + units_for(blocks % each * block_size);
}

/* ---- blocks ---- */

size_t bin_take(bin_t *bin, void **blocks, size_t want, block_past_t *past)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  size_t got = slabs_take(bin, blocks, want, 0, past);
  lock_release(&bin->lock);
  return got;
}

/* Tests for a free block first, so that no slab is opened. */
bool bin_take_free(bin_t *bin, void **block, block_past_t *past)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  bool got = slabs_have_free(bin) && slabs_take(bin, block, 1, 0, past) == 1;
  lock_release(&bin->lock);
  return got;
}

void bin_put(bin_t *bin, void *const *blocks, size_t count)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  slabs_put(bin, blocks, count, 0);
  lock_release(&bin->lock);
}

/* ---- magazines ---- */

/* Depots are used without the bin's lock. A tick that finds nothing left in the bin removes it from the due bins, and then
 * checks the depots under their locks. So either that check sees this exchange, or this thread sees that the bin is not due. */
static void note_exchange(bin_t *bin)
{
  if (unlikely(!__atomic_load_n(&bin->due, __ATOMIC_RELAXED)) && !bin->lock.solo)
    bin_become_due(bin);
}

/* Called under the bin's lock. Only calls that reach the slabs check this, because they are slow anyway. */
static inline __attribute__((always_inline)) void add_depots(bin_t *bin)
{
  if (depots_want_more(&bin->depots, __atomic_load_n(&bin_threads, __ATOMIC_RELAXED)))
    depots_add(&bin->depots);
}

/* The slabs fill a magazine from the top down, over its NULL. Clearing it first keeps readers from finding old entries. */
static void clear_for_slabs(void **floor, unsigned capacity)
{
  magazine_end_at(floor);
  memset(floor + 1, 0, capacity * sizeof *floor);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Fills the magazine with floor `empty`, or a new one. Without blocks the magazine goes to the depot: it may be the only one.
 *
 * A lock-free reader may enter a magazine while it is put away, at the last word, or through its thread's pointer, at an entry.
 * All entries that it finds were in the magazine at that time or were put there since, so they were not live throughout. The
 * exception is a magazine that was empty when its first block was pushed: it has old words above that block. It ends with NULL
 * (C3) unless its entries reached the last word, and then nothing is above them. */
static void **refill_from_slabs(bin_t *bin, void **empty, unsigned capacity, unsigned shard)
{
  void **magazine = empty ? magazine_of(empty) : depots_take_empty(&bin->depots, shard);
  if (!empty && !magazine)
    return NULL;
  void **floor = magazine_floor(magazine, capacity);
  if (likely(empty && floor >= empty && magazine[MAGAZINE_WORDS - 1]))
    magazine_end_at(floor);
  else
    clear_for_slabs(floor, capacity);
  magazine_link(magazine, NULL, capacity);
  bool shared = closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  add_depots(bin);
  size_t got = slabs_take(bin, floor + 1, capacity, shard, NULL);
  closure_release(&bin->lock, shared);
  if (got)
    return floor + got;
  depots_put_empty(&bin->depots, shard, magazine);
  return NULL;
}

/* Each stolen magazine shows that blocks change shards, so the depots may hold more. */
static void **steal(bin_t *bin, void **empty, unsigned shard, bool needed_too)
{
  void **top = depots_steal(&bin->depots, shard, empty, needed_too);
  if (top)
    slabs_note_change(bin, DEPOT_GROWTH);
  return top;
}

/* For a thread whose shard has no magazine while no other shard can spare one. Other threads may move blocks to the slabs
 * between the two attempts. bin_take() finds those, because the request continues there (heap/blocks.c). */
NOINLINE static void **refill_or_steal(bin_t *bin, void **empty, unsigned capacity, unsigned shard)
{
  void **top = refill_from_slabs(bin, empty, capacity, shard);
  return top ? top : steal(bin, NULL, shard, true);
}

/* Blocks in the shard's own depot are likely to be in this core's cache. Another shard's spare magazines come before the slabs,
 * because they cost less than single blocks. Magazines that it needs come last, when there is no memory. */
void **bin_exchange_empty(bin_t *bin, void **empty, unsigned capacity, unsigned number)
{
  unsigned shard = depots_shard_of(&bin->depots, number);
  void **top = NULL;
  depot_t *own = depot_at(&bin->depots, shard);
  if (depot_seems_filled(own))
    top = depots_pop_own(&bin->depots, own, empty);
  if (!top && depots_seem_filled(&bin->depots))
    top = steal(bin, empty, shard, false);
  if (unlikely(!top))
    return refill_or_steal(bin, empty, capacity, shard);
  note_exchange(bin);
  return top;
}

/* Returns the entries of a magazine to the slabs. Only word 0 of it is written. Called under the bin's lock. */
static void put_entries(bin_t *bin, void **top, unsigned shard)
{
  size_t n = magazine_entries(top);
  slabs_put(bin, top - n + 1, n, shard);
}

static void put_all(bin_t *bin, void **top, unsigned shard)
{
  bool shared = closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  add_depots(bin);
  put_entries(bin, top, shard);
  closure_release(&bin->lock, shared);
}

static void put_in_depot(bin_t *bin, void **top, unsigned shard)
{
  depots_push(&bin->depots, shard, top);
  note_exchange(bin);
}

/* The first magazine for a depot takes the depots, for which there may be no memory. */
static bool may_put_in_depot(bin_t *bin)
{
  return depots_have_room(&bin->depots) && (likely(depots_shards(&bin->depots)) || depots_begin(bin));
}

/* Puts the magazine into the depot if it gets an empty one in return. Returns NULL if there is no room, or no empty one. */
static void **put_away(bin_t *bin, void **top, unsigned shard)
{
  if (!may_put_in_depot(bin))
    return NULL;
  depot_t *own = depot_at(&bin->depots, shard);
  void **empty;
  if (depot_has_empties(own) && (empty = depots_exchange_full(&bin->depots, own, top)) != NULL)
    note_exchange(bin);
  else if ((empty = depots_take_empty(&bin->depots, shard - 1)) != NULL)
    put_in_depot(bin, top, shard);
  return empty;
}

/* If the magazine cannot be put away, its entries go to the slabs. So a free never needs memory. */
void **bin_exchange_full(bin_t *bin, void **top, unsigned capacity, unsigned number)
{
  unsigned shard = depots_shard_of(&bin->depots, number);
  void **magazine = magazine_of(top), **empty = put_away(bin, top, shard);
  if (!empty) {
    put_all(bin, top, shard);
    empty = magazine;
  }
  return magazine_floor(empty, capacity);
}

void **bin_new_magazine(bin_t *bin, unsigned capacity, unsigned number)
{
  void **magazine = depots_take_empty(&bin->depots, depots_shard_of(&bin->depots, number));
  return magazine ? magazine_floor(magazine, capacity) : NULL;
}

/* Only full magazines enter the depot, so that an exchange moves as many blocks as possible. */
void bin_give_magazine(bin_t *bin, void **top, unsigned number)
{
  unsigned shard = depots_shard_of(&bin->depots, number);
  if (magazine_is_full_at(top + 1) && *top && may_put_in_depot(bin)) {
    put_in_depot(bin, top, shard);
  } else {
    put_all(bin, top, shard);
    depots_put_empty(&bin->depots, shard, magazine_of(top));
  }
}

void bin_drop_magazine(bin_t *bin, void **top, unsigned number)
{
  depots_put_empty(&bin->depots, depots_shard_of(&bin->depots, number), magazine_of(top));
}

/* ---- returning memory ---- */

/* Removes up to `most` magazines from a depot. The caller holds the bin's lock, so no query takes a block on the way for live.
 * The depot's lock is free meanwhile, so threads may use it. */
static void depot_shrink(bin_t *bin, unsigned shard, size_t most)
{
  depot_t *depot = depot_at(&bin->depots, shard);
  void **top;
  for (size_t i = 0; i < most && (top = depot_shed(&bin->depots, depot)) != NULL; i++) {
    put_entries(bin, top, shard);
    depots_put_empty(&bin->depots, shard, magazine_of(top));
  }
}

/* Returns the magazines that the depots did not need in this epoch. An unused slab may stay while other blocks are outstanding
 * (slab_after_put()). Returns how many of the `calls` are left for other bins. */
static size_t tick(bin_t *bin, size_t calls, uint64_t now_ms)
{
  for (unsigned i = 0; i < depots_shards(&bin->depots); i++) {
    depot_t *depot = depot_at(&bin->depots, i);
    depot_shrink(bin, i, depot_low(depot));
    depot_begin_epoch(depot);
  }
  depots_halve_bound(&bin->depots);
  if (bin_purges(bin))
    calls = slabs_purge_unneeded(bin, calls, now_ms);
  if (!bin->outstanding)
    slabs_close_unused(bin, CLOSE_LEAST_BYTES);
  return calls;
}

void bin_tick(bin_t *bin, uint64_t now_ms)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  tick(bin, SIZE_MAX, now_ms);
  lock_release(&bin->lock);
}

/* Returns whether time alone would change nothing more. Such a bin is not due until it is used again. Its depots are checked
 * once more afterwards (note_exchange()), and idle blocks that the system refused to purge also wait for that. */
static bool due_ends(bin_t *bin)
{
  if ((bin_purges(bin) && bin->idle && !bin->purge_failed) || space_wants_ticks(bin->space) || !depots_seem_quiet(&bin->depots))
    return false;
  __atomic_store_n(&bin->due, false, __ATOMIC_RELAXED);
  return depots_are_quiet(&bin->depots);
}

/* The bin may have ended meanwhile. A region is ticked with its bins, which stay due as long as it has work. A bin that goes on
 * only purges until the next epoch: its depots have ended this one. It goes on only if it made calls, so callers come to an
 * end. */
static size_t tick_due(bin_t *bin, bool goes_on, size_t calls, uint64_t now_ms)
{
  size_t given = calls;
  if (bin->space->own_arena && bin->space->purgeable)
    space_tick_region(bin->space, now_ms);
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  if (!bin->ended) {
    bool only_purges = goes_on && !low_water_epochs(bin->epoch_ms, now_ms, bin->space->purge_delay_ms);
    calls = only_purges ? slabs_purge_unneeded(bin, calls, now_ms) : tick(bin, calls, now_ms);
    if (bin->unneeded && !bin->purge_failed && calls < given)
      due_go_on(bin);
    else if (!due_ends(bin))
      due_enter(bin);
  }
  lock_release(&bin->lock);
  return calls;
}

/* Each bin may give the space many slabs to purge. So during a purge, frequent callers tick one bin at a time. Bins that go on
 * are visited as long as there are calls, though `most` others were ticked. */
unsigned bins_tick(unsigned most, size_t steps, uint64_t now_ms)
{
  size_t most_purging = max_size(steps / STEPS_PER_BIN, 1), calls = min_size(steps, BIN_STEPS_MOST) * PURGE_CALLS;
  unsigned done = 0;
  bool goes_on;
  for (bin_t *bin; calls && (done < most_purging || !space_purge_is_under_way(&space_of_process)) &&
                   (bin = due_next(done < most, &goes_on)) != NULL;
       done++) {
    size_t some = min_size(calls, PURGE_CALLS);
    calls -= some - tick_due(bin, goes_on, some, now_ms);
  }
  return done;
}

/* Reads without a lock. A block that another thread returns meanwhile waits for the next drain. */
static bool is_drained(const bin_t *bin)
{
  if (depots_seem_filled(&bin->depots))
    return false;
  for (unsigned i = 0, shards = depots_shards(&bin->depots); shards > DEPOT_SHARDS && i < shards; i++)
    if (depot_seems_filled(depot_at(&bin->depots, i)))
      return false;
  return !__atomic_load_n(&bin->may_have_unused, __ATOMIC_RELAXED);
}

/* The depots go first, because their blocks may be all that keeps slabs in use. Processes at their limit drain repeatedly. */
void bin_drain(bin_t *bin)
{
  if (is_drained(bin))
    return;
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  for (unsigned i = 0; i < depots_shards(&bin->depots); i++)
    depot_shrink(bin, i, SIZE_MAX);
  slabs_close_unused(bin, 0);
  lock_release(&bin->lock);
}

bool bin_may_end_slab(bin_t *bin, size_t blocks)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  bool may = slabs_may_end_one(bin, blocks);
  lock_release(&bin->lock);
  return may;
}

/* Releases the lock after every PURGE_CALLS system calls, so that no thread waits for the whole purge. */
size_t bin_purge(bin_t *bin)
{
  size_t bytes = 0, left = SIZE_MAX, blocks;
  while (bin_purges(bin) && left) {
    closure_acquire(LOCKS_OF_BINS, &bin->lock);
    blocks = left = min_size(left, bin->idle);
    bytes += slabs_purge(bin, &left, PURGE_CALLS);
    lock_let_in(&bin->lock);
    if (left == blocks)
      break;
  }
  return bytes;
}

void bin_reset(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  due_note_use(bin);
  depots_forget_entries(&bin->depots);
  slabs_reset(bin);
  lock_release(&bin->lock);
}

/* `ended` is set first, so that nothing makes the bin due again. */
void bin_destroy(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  bin->ended = true;
  due_leave(bin);
  depots_destroy(&bin->depots);
  slabs_close_all(bin);
  lock_release(&bin->lock);
}
