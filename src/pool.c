/* SPDX-License-Identifier: MIT */
#include "pool.h"
#include "metadata.h"
#include "os/fatal.h"
#include <string.h>

enum {
  MAGAZINE_SHARE = 16,               /* this part of a class's blocks, divided among the threads, */
  MAGAZINE_LEAST_BYTES = 8 << 10,    /* but at least so much: of few threads each, of many less, */
  MAGAZINE_LEAST_BLOCKS = 16,        /* down to so many blocks */
  MAGAZINE_MOST_BYTES = 64 << 10,    /* and at most that */
  MAGAZINE_LEAST = 2,

  STOCK_BYTES = 192 << 10,           /* full magazines a thread keeps, divided among the threads: */
  STOCK_LEAST = 1,
  STOCK_MOST = 32,                   /* magazines, unless the class is large: */
  STOCK_SHARE = 64,                  /* this part of its blocks */

  DEPOT_LEAST = 4,
  DEPOT_GROWTH = 32,                 /* magazines more for one that changed threads */
  DEPOT_DECAY = 7,                   /* and a 128th less when the bound is met */

  CLOSE_LEAST_BYTES = 16 << 10,      /* a slab of which less was ever touched may stay: its unit would be taken for something that
                                        * touches more (espresso: 5.0 MiB where every unused slab was closed, 3.3 where none) */
  SLAB_BLOCKS_LEAST = 8,
  SLAB_BLOCKS_LEAST_SMALL = 2        /* in a region of small units: a class may cost little */
};

uint32_t pool_threads = 1;

/* Small programs keep little, busy classes of large ones are seldom at their pools: random slots of up to 8 KiB spent a third
 * of their instructions there when a magazine held 16 KiB. */
static void settle_magazine_size(pool_t *pool)
{
  size_t size = pool->block_size, threads = __atomic_load_n(&pool_threads, __ATOMIC_RELAXED);
  size_t share = pool->capacity / (MAGAZINE_SHARE * threads);
  size_t least = MAGAZINE_LEAST_BYTES / size;
  size_t k = max_size(share, max_size(least / (1 + threads / 8), min_size(least, MAGAZINE_LEAST_BLOCKS)));
  k = min_size(k, min_size(MAGAZINE_MOST_BYTES / size, MAGAZINE_MOST));
  k = max_size(k, MAGAZINE_LEAST);
  size_t stock = max_size(min_size(STOCK_BYTES / (k * size), STOCK_MOST), pool->capacity / (STOCK_SHARE * k)) / threads;
  __atomic_store_n(&pool->magazine_most, (uint8_t)k, __ATOMIC_RELAXED);
  __atomic_store_n(&pool->stock_most, (uint8_t)min_size(max_size(stock, STOCK_LEAST), UINT8_MAX), __ATOMIC_RELAXED);
}

void pool_init(pool_t *pool, const pool_make_t *make)
{
  size_t size = make->block_size, least = make->space->unit_log2 == UNIT_LOG2 ? SLAB_BLOCKS_LEAST : SLAB_BLOCKS_LEAST_SMALL;
  memset(pool, 0, sizeof *pool);
  pool->block_size = (uint32_t)size;
  pool->size_class = (uint8_t)make->size_class;
  pool->slab_bytes = (uint32_t)(space_units(make->space, size * least) << make->space->unit_log2);
  pool->inverse = slab_inverse(size);
  pool->space = make->space;
  pool->budget = make->budget;
  pool->heap = make->heap;
  pool->cached = make->cached && size <= SIZE_CACHED && make->size_class <= CLASS_CACHED;
  pool->plane = pool->cached ? make->plane : POOL_PLANE_NONE;
  pool->lock.solo = make->single_thread;
  settle_magazine_size(pool);
}

/* ---- slabs ---- */

static unsigned slab_list_of(const run_t *slab)
{
  uint32_t f = slab->free_count, q = slab->quarter;
  return f == 0 ? SLAB_FULL : SLAB_PARTIAL_1 + (f > q) + (f > 2 * q) + (f > 3 * q);
}

static bool is_partial(unsigned list) { return list >= SLAB_PARTIAL_1 && list <= SLAB_PARTIAL_4; }

static void slab_leave_list(pool_t *pool, run_t *slab)
{
  *(slab->previous ? &slab->previous->next : &pool->slabs[slab->list]) = slab->next;
  if (slab->next)
    slab->next->previous = slab->previous;
  pool->partial_count -= is_partial(slab->list);
}

static void slab_enter_list(pool_t *pool, run_t *slab, unsigned list)
{
  slab->list = (uint8_t)list;
  slab->previous = NULL;
  slab->next = pool->slabs[list];
  if (slab->next)
    slab->next->previous = slab;
  pool->slabs[list] = slab;
  pool->partial_count += is_partial(list);
}

static void slab_relist(pool_t *pool, run_t *slab)
{
  unsigned list = slab_list_of(slab);
  if (list == slab->list)
    return;
  slab_leave_list(pool, slab);
  slab_enter_list(pool, slab, list);
}

static void slab_announce(const pool_t *pool, const run_t *slab, unsigned size_class)
{
  if (pool->plane != POOL_PLANE_NONE)
    class_map_set(slab->start, slab->units, pool->plane == POOL_PLANE_FRONT, size_class);
}

static run_t *pool_open_slab(pool_t *pool)
{
  run_t *slab = space_take_charged(pool->space, pool->budget, pool->slab_bytes, 1);
  if (!slab)
    return NULL;
  arena_t *arena = arena_of(pool->space, slab->start);
  slab_init(slab, arena, pool, pool->size_class, pool->block_size);
  slab_announce(pool, slab, pool->size_class);
  slab_enter_list(pool, slab, SLAB_FULL);
  pool->capacity += slab->capacity;
  pool->slab_count++;
  pool->held_bytes += run_bytes(arena, slab);
  settle_magazine_size(pool);
  return pool->current = slab;
}

static run_t *reopen_slab(pool_t *pool)
{
  run_t *slab = pool->slabs[SLAB_RESET];
  slab_relist(pool, slab);
  return pool->current = slab;
}

static void pool_close_slab(pool_t *pool, run_t *slab)
{
  slab_leave_list(pool, slab);
  pool->capacity -= slab->capacity;
  pool->slab_count--;
  pool->held_bytes -= run_bytes(arena_of(pool->space, slab->start), slab);
  settle_magazine_size(pool);
  if (pool->current == slab)
    pool->current = NULL;
  slab_announce(pool, slab, 0);
  space_give_charged(pool->space, pool->budget, slab, true);
}

static size_t slab_touched(const pool_t *pool, const run_t *slab) { return (size_t)slab->fresh * pool->block_size; }

static run_t *fullest_partial(const pool_t *pool)
{
  for (unsigned list = SLAB_PARTIAL_1; list <= SLAB_PARTIAL_4; list++)
    if (pool->slabs[list])
      return pool->slabs[list];
  return NULL;
}

/* Free blocks of the fullest slabs; fresh ones only where there are none. */
static size_t take_blocks(pool_t *pool, void **blocks, size_t want, block_past_t *past)
{
  size_t got = 0;
  run_t *slab;
  while (got < want && (slab = fullest_partial(pool)) != NULL) {
    got += slab_take_free(slab, pool->block_size, blocks, want - got);
    slab_relist(pool, slab);
  }
  bool is_fresh = !got;
  if (!got) {
    slab = pool->current;
    if (!slab || slab_is_exhausted(slab))
      slab = pool->slabs[SLAB_RESET] ? reopen_slab(pool) : pool_open_slab(pool);
    if (slab)
      got = slab_take_fresh(slab, pool->block_size, blocks, want);
  }
  if (past)
    *past = !is_fresh || !got ? BLOCK_USED : slab->zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  if (got < want)
    memmove(blocks, blocks + (want - got), got * sizeof *blocks);
  pool->out += got;
  return got;
}

/* After blocks came back to `slab`. One unused slab may stay, so that a program that frees and allocates the last block of
 * one again and again does not open and close it each time. */
static void slab_settle(pool_t *pool, run_t *slab)
{
  if (unlikely(slab_is_unused(slab)) && slab != pool->current && pool->partial_count > is_partial(slab->list))
    pool_close_slab(pool, slab);
  else
    slab_relist(pool, slab);
}

static _Noreturn void put_failed(pool_t *pool, const void *block, const char *what)
{
  lock_release(&pool->lock);
  fatal_misuse(fatal_free_call, block, what);
}

static run_t *slab_of(pool_t *pool, const void *block)
{
  arena_t *arena = arena_of(pool->space, block);
  run_t *slab = run_of(arena, block);
  if (unlikely(slab->owner != pool || run_kind(slab) != RUN_SLAB))
    put_failed(pool, block, NOT_A_BLOCK);
  return slab;
}

/* Returns the blocks; those next to each other that are of one slab share its look-up. */
static void put_blocks(pool_t *pool, void *const *blocks, size_t count)
{
  size_t size = pool->block_size;
  uint64_t inverse = pool->inverse;
  pool->out -= count;
  for (size_t i = 0; i < count;) {
    run_t *slab = slab_of(pool, blocks[i]);
    size_t slab_bytes = slab->capacity * size;
    size_t offset = (size_t)((char *)blocks[i] - slab->start);
    do {
      size_t index;
      slab_answer_t answer = slab_ask(slab, size, inverse, offset, &index);
      if (unlikely(answer != SLAB_LIVE_OR_CACHED))
        put_failed(pool, blocks[i], answer == SLAB_FREE ? FREED_TWICE : NOT_A_BLOCK);
      slab_put(slab, index);
    } while (++i < count && (offset = (size_t)((char *)blocks[i] - slab->start)) < slab_bytes);
    slab_settle(pool, slab);
  }
}

size_t pool_take(pool_t *pool, void **blocks, size_t want, block_past_t *past)
{
  lock_acquire(&pool->lock);
  size_t got = take_blocks(pool, blocks, want, past);
  lock_release(&pool->lock);
  return got;
}

void pool_put(pool_t *pool, void *const *blocks, size_t count)
{
  lock_acquire(&pool->lock);
  put_blocks(pool, blocks, count);
  lock_release(&pool->lock);
}

void *pool_ask(pool_t *pool, const run_t *slab, const void *address)
{
  size_t index = (size_t)((const char *)address - slab->start) * pool->inverse >> INVERSE_SHIFT;
  lock_acquire(&pool->lock);
  bool out = run_kind(slab) == RUN_SLAB && slab->owner == pool && index < slab->fresh && !bit_test(slab->bitmap, index);
  lock_release(&pool->lock);
  return out ? slab->start + index * pool->block_size : NULL;
}

/* ---- magazines ---- */

static void empties_push(pool_t *pool, void **magazine)
{
  magazine_put_away(magazine, pool->empties, 0);
  pool->empties = magazine;
}

/* Magazines of pools that ended. */
lock_t pool_magazines_lock;
static void **ownerless;

static void **magazine_take(void)
{
  lock_acquire(&pool_magazines_lock);
  void **magazine = ownerless;
  if (magazine)
    ownerless = magazine_below(magazine);
  lock_release(&pool_magazines_lock);
  return magazine ? magazine : metadata_take(MAGAZINE_BYTES, MAGAZINE_BYTES);
}

static void magazines_disown(void **magazine)
{
  if (!magazine)
    return;
  void **last = magazine;
  while (magazine_below(last))
    last = magazine_below(last);
  lock_acquire(&pool_magazines_lock);
  magazine_put_away(last, ownerless, 0);
  ownerless = magazine;
  lock_release(&pool_magazines_lock);
}

static void **empties_pop(pool_t *pool)
{
  void **magazine = pool->empties;
  if (!magazine)
    return magazine_take();
  pool->empties = magazine_below(magazine);
  __builtin_prefetch(pool->empties, 1);
  return magazine;
}

static size_t entries_below(void *const *top)
{
  size_t n = 0;
  while (top[-(ptrdiff_t)n])
    n++;
  return n;
}

static void depot_push(pool_t *pool, void **top, unsigned shard)
{
  void **magazine = magazine_of(top);
  magazine_put_away(magazine, pool->depot[shard], (size_t)(top - magazine));
  pool->depot[shard] = magazine;
  pool->depot_count++;
}

/* What the same thread gave, if there is any: its blocks are in that core's cache still. */
static unsigned shard_to_pop(const pool_t *pool, unsigned shard)
{
  while (!pool->depot[shard])
    shard = (shard + 1) % DEPOT_SHARDS;
  return shard;
}

static void **depot_pop(pool_t *pool, unsigned shard)
{
  void **magazine = pool->depot[shard], **top = magazine_top(magazine);
  pool->depot[shard] = magazine_below(magazine);
  __builtin_prefetch(pool->depot[shard], 1);
  if (--pool->depot_count < pool->depot_low)
    pool->depot_low = pool->depot_count;
  magazine[0] = NULL;
  return top;
}

/* Room for one more? Meeting the bound lets it fade. */
static bool depot_has_room(pool_t *pool)
{
  if (pool->depot_count < max_size(pool->depot_bound, DEPOT_LEAST))
    return true;
  pool->depot_bound -= pool->depot_bound >> DEPOT_DECAY;
  return false;
}

/* A magazine that changes threads: allow for more of them, and fetch its lines from the other core at once. */
static void note_change(pool_t *pool, void **top)
{
  for (char *line = (char *)magazine_of(top); line <= (char *)top; line += 64)
    __builtin_prefetch(line, 1);
  size_t most = pool->capacity * 3 / (4 * pool->magazine_most);
  pool->depot_bound = (uint32_t)min_size(pool->depot_bound + DEPOT_GROWTH, most);
}

static void **refill_from_slabs(pool_t *pool, void **magazine, unsigned k)
{
  void **floor = magazine_floor(magazine, k);
  *floor = NULL;
  size_t got = take_blocks(pool, floor + 1, k, NULL);
  if (got)
    return floor + got;
  empties_push(pool, magazine);
  return NULL;
}

void **pool_exchange_empty(pool_t *pool, void **empty, unsigned k, unsigned shard)
{
  void **top = NULL;
  lock_acquire(&pool->lock);
  if (empty)
    empties_push(pool, magazine_of(empty));
  if (pool->depot_count) {
    unsigned from = shard_to_pop(pool, shard);
    top = depot_pop(pool, from);
    if (from != shard)
      note_change(pool, top);
  } else {
    void **magazine = empties_pop(pool);
    if (magazine)
      top = refill_from_slabs(pool, magazine, k);
  }
  lock_release(&pool->lock);
  return top;
}

/* The entries of a magazine go back to the slabs; nothing but word 0 is written to it. */
static void return_entries(pool_t *pool, void **top)
{
  size_t n = entries_below(top);
  put_blocks(pool, top - n + 1, n);
}

void **pool_exchange_full(pool_t *pool, void **top, unsigned k, unsigned shard)
{
  void **magazine = magazine_of(top), **empty = NULL;
  lock_acquire(&pool->lock);
  if (depot_has_room(pool) && (empty = empties_pop(pool)) != NULL) {
    depot_push(pool, top, shard);
  } else {
    return_entries(pool, top);
    empty = magazine;
  }
  lock_release(&pool->lock);
  return magazine_floor(empty, k);
}

void **pool_new_magazine(pool_t *pool, unsigned k)
{
  lock_acquire(&pool->lock);
  void **magazine = empties_pop(pool);
  lock_release(&pool->lock);
  return magazine ? magazine_floor(magazine, k) : NULL;
}

void pool_retire_magazine(pool_t *pool, void **top, unsigned shard)
{
  lock_acquire(&pool->lock);
  if (magazine_is_full_at(top + 1) && *top && depot_has_room(pool)) {
    depot_push(pool, top, shard);
  } else {
    return_entries(pool, top);
    empties_push(pool, magazine_of(top));
  }
  lock_release(&pool->lock);
}

size_t pool_depot_blocks(pool_t *pool)
{
  size_t blocks = 0;
  lock_acquire(&pool->lock);
  for (unsigned shard = 0; shard < DEPOT_SHARDS; shard++)
    for (void **magazine = pool->depot[shard]; magazine; magazine = magazine_below(magazine))
      blocks += entries_below(magazine_top(magazine));
  lock_release(&pool->lock);
  return blocks;
}

bool pool_depot_holds(pool_t *pool, const void *block)
{
  bool found = false;
  lock_acquire(&pool->lock);
  for (unsigned shard = 0; shard < DEPOT_SHARDS; shard++)
    for (void **magazine = pool->depot[shard]; magazine && !found; magazine = magazine_below(magazine))
      for (void **entry = magazine_top(magazine); *entry && !found; entry--)
        found = *entry == block;
  lock_release(&pool->lock);
  return found;
}

/* ---- giving back ---- */

static void depot_shrink(pool_t *pool, size_t keep)
{
  while (pool->depot_count > keep) {
    void **top = depot_pop(pool, shard_to_pop(pool, 0));
    return_entries(pool, top);
    empties_push(pool, magazine_of(top));
  }
}

/* Those that hold more than `least` bytes of memory. */
static void close_unused_slabs(pool_t *pool, size_t least)
{
  for (run_t *slab = pool->slabs[SLAB_PARTIAL_4], *next; slab; slab = next) {
    next = slab->next;
    if (slab_is_unused(slab) && slab_touched(pool, slab) >= least)
      pool_close_slab(pool, slab);
  }
  while (pool->slabs[SLAB_RESET])
    pool_close_slab(pool, pool->slabs[SLAB_RESET]);
  run_t *current = pool->current;
  if (current && slab_is_unused(current) && slab_touched(pool, current) >= least)
    pool_close_slab(pool, current);
}

void pool_tick(pool_t *pool)
{
  lock_acquire(&pool->lock);
  depot_shrink(pool, pool->depot_count - pool->depot_low);
  pool->depot_low = pool->depot_count;
  pool->depot_bound /= 2;
  if (!pool->out)
    close_unused_slabs(pool, CLOSE_LEAST_BYTES);
  lock_release(&pool->lock);
}

void pool_drain(pool_t *pool)
{
  lock_acquire(&pool->lock);
  depot_shrink(pool, 0);
  close_unused_slabs(pool, 0);
  lock_release(&pool->lock);
}

/* ---- the end of all blocks ---- */

void pool_keep_magazine(pool_t *pool, void **top)
{
  lock_acquire(&pool->lock);
  empties_push(pool, magazine_of(top));
  lock_release(&pool->lock);
}

static void depot_drop(pool_t *pool)
{
  while (pool->depot_count)
    empties_push(pool, magazine_of(depot_pop(pool, shard_to_pop(pool, 0))));
  pool->depot_low = 0;
}

static void slab_reset(pool_t *pool, run_t *slab)
{
  slab_leave_list(pool, slab);
  slab_empty(slab);
  slab_enter_list(pool, slab, SLAB_RESET);
}

void pool_reset(pool_t *pool)
{
  lock_acquire(&pool->lock);
  depot_drop(pool);
  for (unsigned list = SLAB_FULL; list <= SLAB_PARTIAL_4; list++)
    while (pool->slabs[list])
      slab_reset(pool, pool->slabs[list]);
  pool->current = NULL;
  pool->out = 0;
  lock_release(&pool->lock);
}

void pool_finish(pool_t *pool)
{
  lock_acquire(&pool->lock);
  depot_drop(pool);
  magazines_disown(pool->empties);
  pool->empties = NULL;
  for (unsigned list = SLAB_FULL; list < SLAB_LISTS; list++)
    while (pool->slabs[list])
      pool_close_slab(pool, pool->slabs[list]);
  pool->out = 0;
  lock_release(&pool->lock);
}
