/* SPDX-License-Identifier: MIT */
#include "pool.h"
#include "metadata.h"
#include "os/fatal.h"
#include <string.h>

enum {
  MAGAZINE_SHARE = 16,               /* this part of a class's blocks, divided among the threads, */
  MAGAZINE_LEAST_BYTES = 8 << 10,    /* but at least so much */
  MAGAZINE_MOST_BYTES = 64 << 10,    /* and at most that */
  MAGAZINE_LEAST = 2,

  DEPOT_BYTES = 128 << 10,
  DEPOT_LEAST = 2,
  DEPOT_MOST = 32,                   /* magazines, unless the class is large: */
  DEPOT_SHARE = 64,                  /* this part of its blocks */
  DEPOT_GROWTH = 32,                 /* magazines more for one that changed threads */
  DEPOT_DECAY = 7,                   /* and a 128th less when the bound is met */

  SLAB_BLOCKS_LEAST = 8
};

uint32_t pool_threads = 1;

/* Small programs keep little, busy classes of large ones are seldom at their pools: random slots of up to 8 KiB spent a third
 * of their instructions there when a magazine held 16 KiB. */
static void settle_magazine_size(pool_t *pool)
{
  size_t size = pool->block_size, threads = __atomic_load_n(&pool_threads, __ATOMIC_RELAXED);
  size_t share = pool->capacity / (MAGAZINE_SHARE * threads);
  size_t k = max_size(share, MAGAZINE_LEAST_BYTES / size / (1 + threads / 8));
  k = min_size(k, min_size(MAGAZINE_MOST_BYTES / size, MAGAZINE_MOST));
  pool->magazine_most = (uint8_t)max_size(k, MAGAZINE_LEAST);
}

void pool_init(pool_t *pool, unsigned size_class, struct pool_heap *heap, space_t *space, budget_t *budget, unsigned plane)
{
  size_t size = size_class_size[size_class];
  memset(pool, 0, sizeof *pool);
  pool->block_size = (uint32_t)size;
  pool->size_class = (uint8_t)size_class;
  pool->slab_units = (uint32_t)((size * SLAB_BLOCKS_LEAST + UNIT - 1) >> UNIT_LOG2);
  pool->inverse = slab_inverse(size);
  pool->space = space;
  pool->budget = budget;
  pool->heap = heap;
  pool->plane = (uint8_t)(size_class <= CLASS_CACHED ? plane : POOL_PLANE_NONE);
  settle_magazine_size(pool);
  size_t bound = DEPOT_BYTES / (pool->magazine_most * size);
  pool->depot_bound = (uint32_t)min_size(max_size(bound, DEPOT_LEAST), DEPOT_MOST);
}

/* ---- slabs ---- */

static unsigned slab_list_of(const run_t *slab)
{
  uint32_t f = slab->free_count, q = slab->quarter;
  return f == 0 ? SLAB_FULL : SLAB_PARTIAL_1 + (f > q) + (f > 2 * q) + (f > 3 * q);
}

static void slab_leave_list(pool_t *pool, run_t *slab)
{
  *(slab->previous ? &slab->previous->next : &pool->slabs[slab->list]) = slab->next;
  if (slab->next)
    slab->next->previous = slab->previous;
  pool->partial_count -= slab->list != SLAB_FULL;
}

static void slab_enter_list(pool_t *pool, run_t *slab, unsigned list)
{
  slab->list = (uint8_t)list;
  slab->previous = NULL;
  slab->next = pool->slabs[list];
  if (slab->next)
    slab->next->previous = slab;
  pool->slabs[list] = slab;
  pool->partial_count += list != SLAB_FULL;
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
  size_t bytes = (size_t)pool->slab_units << UNIT_LOG2;
  if (!budget_charge(pool->budget, bytes))
    return NULL;
  run_t *slab = space_take(pool->space, pool->slab_units, 1);
  if (!slab) {
    budget_discharge(pool->budget, bytes);
    return NULL;
  }
  slab_init(slab, arena_of(pool->space, slab->start), pool, pool->size_class, pool->block_size);
  slab_announce(pool, slab, pool->size_class);
  slab_enter_list(pool, slab, SLAB_FULL);
  pool->capacity += slab->capacity;
  pool->slab_count++;
  settle_magazine_size(pool);
  return pool->current = slab;
}

static void pool_close_slab(pool_t *pool, run_t *slab)
{
  size_t bytes = (size_t)slab->units << UNIT_LOG2;
  slab_leave_list(pool, slab);
  pool->capacity -= slab->capacity;
  pool->slab_count--;
  settle_magazine_size(pool);
  if (pool->current == slab)
    pool->current = NULL;
  slab_announce(pool, slab, 0);
  space_give(pool->space, slab, true);
  budget_discharge(pool->budget, bytes);
}

static run_t *fullest_partial(const pool_t *pool)
{
  for (unsigned list = SLAB_PARTIAL_1; list < SLAB_LISTS; list++)
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
      slab = pool_open_slab(pool);
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
  if (unlikely(slab_is_unused(slab)) && slab != pool->current && pool->partial_count > (slab->list != SLAB_FULL))
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
  if (unlikely(slab->owner != pool || slab->kind != RUN_SLAB))
    put_failed(pool, block, NOT_A_BLOCK);
  return slab;
}

/* Returns the blocks; those next to each other that are of one slab share its look-up. */
static void put_blocks(pool_t *pool, void *const *blocks, size_t count)
{
  size_t size = pool->block_size, slab_bytes = (size_t)pool->slab_units << UNIT_LOG2;
  uint64_t inverse = pool->inverse;
  pool->out -= count;
  for (size_t i = 0; i < count;) {
    run_t *slab = slab_of(pool, blocks[i]);
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
  bool out = slab->kind == RUN_SLAB && slab->owner == pool && index < slab->fresh && !bit_test(slab->bitmap, index);
  lock_release(&pool->lock);
  return out ? slab->start + index * pool->block_size : NULL;
}

/* ---- magazines ---- */

/* Word 0 of a magazine put away: the one below it, and in the depot how many entries it has. */
static void **link_of(void **magazine) { return (void **)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES); }
static void **top_of(void **magazine) { return magazine + ((uintptr_t)magazine[0] & (MAGAZINE_BYTES - 1)); }
static void put_away(void **magazine, void **below, size_t top) { magazine[0] = (char *)below + top; }

static void empties_push(pool_t *pool, void **magazine)
{
  put_away(magazine, pool->empties, 0);
  pool->empties = magazine;
}

static void **empties_pop(pool_t *pool)
{
  void **magazine = pool->empties;
  if (!magazine)
    return metadata_take(MAGAZINE_BYTES, MAGAZINE_BYTES);
  pool->empties = link_of(magazine);
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

static void depot_push(pool_t *pool, void **top)
{
  void **magazine = magazine_of(top);
  put_away(magazine, pool->depot, (size_t)(top - magazine));
  pool->depot = magazine;
  pool->depot_count++;
}

static void **depot_pop(pool_t *pool)
{
  void **magazine = pool->depot, **top = top_of(magazine);
  pool->depot = link_of(magazine);
  __builtin_prefetch(pool->depot, 1);
  if (--pool->depot_count < pool->depot_low)
    pool->depot_low = pool->depot_count;
  magazine[0] = NULL;
  return top;
}

/* Room for one more? Meeting the bound lets what was allowed beyond it fade. */
static bool depot_has_room(pool_t *pool)
{
  size_t bound = max_size(pool->depot_bound, pool->capacity / (DEPOT_SHARE * pool->magazine_most));
  bound = max_size(bound, pool->depot_extra);
  if (pool->depot_count < bound)
    return true;
  pool->depot_extra -= pool->depot_extra >> DEPOT_DECAY;
  return false;
}

/* A magazine that changes threads: allow for more of them, and fetch its lines from the other core at once. */
static void note_taker(pool_t *pool, void **top, const void *thread)
{
  if (pool->last_giver == thread)
    return;
  for (char *line = (char *)magazine_of(top); line <= (char *)top; line += 64)
    __builtin_prefetch(line, 1);
  size_t most = pool->capacity * 3 / (4 * pool->magazine_most);
  pool->depot_extra = (uint32_t)min_size(pool->depot_extra + DEPOT_GROWTH, most);
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

void **pool_exchange_empty(pool_t *pool, void **empty, unsigned k, const void *thread)
{
  void **top = NULL;
  lock_acquire(&pool->lock);
  if (empty)
    empties_push(pool, magazine_of(empty));
  if (pool->depot) {
    top = depot_pop(pool);
    note_taker(pool, top, thread);
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

void **pool_exchange_full(pool_t *pool, void **top, unsigned k, const void *thread)
{
  void **magazine = magazine_of(top), **empty = NULL;
  lock_acquire(&pool->lock);
  pool->last_giver = thread;
  if (depot_has_room(pool) && (empty = empties_pop(pool)) != NULL) {
    depot_push(pool, top);
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

void pool_retire_magazine(pool_t *pool, void **top)
{
  lock_acquire(&pool->lock);
  size_t n = entries_below(top);
  if (n * 2 > pool->magazine_most && depot_has_room(pool)) {
    depot_push(pool, top);
  } else {
    put_blocks(pool, top - n + 1, n);
    empties_push(pool, magazine_of(top));
  }
  lock_release(&pool->lock);
}

size_t pool_depot_blocks(pool_t *pool)
{
  size_t blocks = 0;
  lock_acquire(&pool->lock);
  for (void **magazine = pool->depot; magazine; magazine = link_of(magazine))
    blocks += entries_below(top_of(magazine));
  lock_release(&pool->lock);
  return blocks;
}

bool pool_depot_holds(pool_t *pool, const void *block)
{
  bool found = false;
  lock_acquire(&pool->lock);
  for (void **magazine = pool->depot; magazine && !found; magazine = link_of(magazine))
    for (void **entry = top_of(magazine); *entry && !found; entry--)
      found = *entry == block;
  lock_release(&pool->lock);
  return found;
}

/* ---- giving back ---- */

static void depot_shrink(pool_t *pool, size_t keep)
{
  while (pool->depot_count > keep) {
    void **top = depot_pop(pool);
    return_entries(pool, top);
    empties_push(pool, magazine_of(top));
  }
}

static void close_unused_slabs(pool_t *pool)
{
  for (run_t *slab = pool->slabs[SLAB_PARTIAL_4], *next; slab; slab = next) {
    next = slab->next;
    if (slab_is_unused(slab))
      pool_close_slab(pool, slab);
  }
  run_t *current = pool->current;
  if (current && slab_is_unused(current))
    pool_close_slab(pool, current);
}

void pool_tick(pool_t *pool)
{
  lock_acquire(&pool->lock);
  depot_shrink(pool, pool->depot_count - (pool->depot_low + 1) / 2);
  pool->depot_low = pool->depot_count;
  pool->depot_extra /= 2;
  if (!pool->out)
    close_unused_slabs(pool);
  lock_release(&pool->lock);
}

void pool_drain(pool_t *pool)
{
  lock_acquire(&pool->lock);
  depot_shrink(pool, 0);
  close_unused_slabs(pool);
  lock_release(&pool->lock);
}
