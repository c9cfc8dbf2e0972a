/* SPDX-License-Identifier: MIT */
#include "pool/pool.h"
#include "space/metadata.h"
#include "misuse.h"
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
  DEPOT_GROWTH = 32,                 /* magazines more for one that changed shards, */
  DEPOT_GROWTH_SLAB = 16,            /* for a slab whose blocks did, */
  DEPOT_DECAY = 7,                   /* and a 128th less when the bound is met */
  DEPOT_NEED_DECAY = 4,              /* this part of what a shard needs is forgotten in an epoch without need */

  PURGE_LEAST_PAGES = 2,             /* of blocks whose memory may go back while others of the slab are in use, */
  IDLE_LEAST_BYTES = 1 << 20,        /* beyond so much, or as much as was taken again lately */

  CLOSE_LEAST_BYTES = 16 << 10,      /* a slab of which less was ever touched may stay: its unit would be taken for something that
                                        * touches more (espresso: 5.0 MiB where every unused slab was closed, 3.3 where none) */
  SLAB_BLOCKS_LEAST = 8,
  SLAB_WASTE = 32,                   /* this part of a slab at most, if that can be */
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

static size_t blocks_least(unsigned unit_log2) { return unit_log2 == UNIT_LOG2 ? SLAB_BLOCKS_LEAST : SLAB_BLOCKS_LEAST_SMALL; }

size_t pool_slab_least(size_t block_size, unsigned unit_log2) { return blocks_least(unit_log2) * block_size; }

/* Where a budget counts, a slab is so much longer than it must be that at most a 32nd of it is too short for a block, or as little as
 * up to three times the length can do. */
static size_t slab_bytes_for(size_t block_size, unsigned unit_log2, bool tight)
{
  size_t units = units_for(pool_slab_least(block_size, unit_log2), unit_log2), best = units << unit_log2;
  for (size_t u = units; tight && u <= 3 * units + 2 && best % block_size > best / SLAB_WASTE; u++) {
    size_t bytes = u << unit_log2;
    best = bytes % block_size * best < best % block_size * bytes ? bytes : best;
  }
  return best;
}

size_t pool_units_for(size_t block_size, size_t bytes, unsigned unit_log2)
{
  size_t slab = slab_bytes_for(block_size, unit_log2, true), blocks = bytes / block_size, each = slab / block_size;
  return blocks / each * (slab >> unit_log2) + units_for(blocks % each * block_size, unit_log2);
}

void pool_init(pool_t *pool, const pool_make_t *make)
{
  size_t size = make->block_size;
  memset(pool, 0, sizeof *pool);
  pool->block_size = (uint32_t)size;
  pool->size_class = (uint8_t)make->size_class;
  pool->slab_bytes = (uint32_t)slab_bytes_for(size, make->space->unit_log2, make->tight);
  pool->inverse = slab_inverse(size);
  pool->space = make->space;
  pool->budget = make->budget;
  pool->heap = make->heap;
  pool->depots = make->depots;
  pool->cached = make->depots != NULL;
  pool->plane = pool->cached ? make->plane : POOL_PLANE_NONE;
  pool->purges = make->purges && size >= PURGE_LEAST_PAGES * os_page_size();
  pool->lock.solo = make->single_thread;
  settle_magazine_size(pool);
}

/* ---- pools that a tick has to look at ---- */

lock_t pools_due_lock;
static pool_t *due_first, *due_last;
static uint32_t due_count, due_left;   /* left: of those that were in the list when the tick began */

static void due_enter(pool_t *pool)
{
  pool->due = true;
  lock_acquire(&pools_due_lock);
  pool->due_next = NULL;
  pool->due_previous = due_last;
  *(due_last ? &due_last->due_next : &due_first) = pool;
  due_last = pool;
  due_count++;
  lock_release(&pools_due_lock);
}

/* Under the list's lock. */
static void due_leave(pool_t *pool)
{
  *(pool->due_previous ? &pool->due_previous->due_next : &due_first) = pool->due_next;
  *(pool->due_next ? &pool->due_next->due_previous : &due_last) = pool->due_previous;
  pool->due_next = pool->due_previous = NULL;
  due_count--;
}

/* A tick that has taken the pool out of the list will find that it has ended. */
static void leave_due(pool_t *pool)
{
  lock_acquire(&pools_due_lock);
  if (pool->due_previous || due_first == pool)
    due_leave(pool);
  lock_release(&pools_due_lock);
}

/* Called under the pool's lock by whatever changes it. */
static inline void note_use(pool_t *pool)
{
  if (unlikely(!pool->due) && !pool->ended && !pool->lock.solo)
    due_enter(pool);
}

/* ---- slabs ---- */

/* Others read it without the lock; a pool of one thread has none. */
static void set_figure(size_t *figure, size_t value) { __atomic_store_n(figure, value, __ATOMIC_RELAXED); }

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

/* The last bit of a region or of a budget serves as many blocks as fit into it; where it is the system that has no more, a shorter
 * slab is tried. */
static run_t *take_slab(pool_t *pool)
{
  run_t *slab = space_take_charged(pool->space, pool->budget, pool->slab_bytes, 1);
  for (space_t *space = pool->space; space && !slab; space = space->beyond) {
    size_t room = space_room_left(space, pool->budget), most = pool->slab_bytes;
    size_t bytes = room < most ? room : pool_slab_least(pool->block_size, space->unit_log2);
    if (bytes >= pool->block_size && bytes < most)
      slab = space_take_charged(space, pool->budget, bytes, 1);
  }
  return slab;
}

static run_t *pool_open_slab(pool_t *pool)
{
  run_t *slab = take_slab(pool);
  if (!slab)
    return NULL;
  arena_t *arena = arena_of(pool->space, slab->start);
  slab_init(slab, arena, pool, pool->size_class, pool->block_size);
  slab_announce(pool, slab, pool->size_class);
  slab_enter_list(pool, slab, SLAB_FULL);
  pool->capacity += slab->capacity;
  set_figure(&pool->slab_count, pool->slab_count + 1);
  set_figure(&pool->held_bytes, pool->held_bytes + run_bytes(arena, slab));
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
  if (pool->purges)
    pool->idle -= slab_idle(slab);
  pool->capacity -= slab->capacity;
  set_figure(&pool->slab_count, pool->slab_count - 1);
  set_figure(&pool->held_bytes, pool->held_bytes - run_bytes(arena_of(pool->space, slab->start), slab));
  settle_magazine_size(pool);
  if (pool->current == slab)
    pool->current = NULL;
  slab_announce(pool, slab, 0);
  space_give_charged(pool->space, pool->budget, slab);
}

static size_t slab_touched(const pool_t *pool, const run_t *slab) { return (size_t)slab->fresh * pool->block_size; }

static run_t *fullest_partial(const pool_t *pool)
{
  for (unsigned list = SLAB_PARTIAL_1; list <= SLAB_PARTIAL_4; list++)
    if (pool->slabs[list])
      return pool->slabs[list];
  return NULL;
}

/* Blocks go from shard to shard: allow for more magazines in the depots. */
static void note_change(pool_t *pool, size_t by)
{
  size_t most = pool->capacity * 3 / (4 * pool->magazine_most);
  pool->depot_bound = (uint32_t)min_size(pool->depot_bound + by, most);
}

/* Free blocks of the fullest slabs; fresh ones only where there are none. */
static size_t take_blocks(pool_t *pool, void **blocks, size_t want, unsigned shard, block_past_t *past)
{
  size_t got = 0;
  run_t *slab;
  while (got < want && (slab = fullest_partial(pool)) != NULL) {
    if (slab->shard != shard)
      note_change(pool, DEPOT_GROWTH_SLAB);
    size_t idle = pool->purges ? slab_idle(slab) : 0;
    got += slab_take_free(slab, pool->block_size, blocks, want - got);
    if (pool->purges)
      pool->idle -= idle - slab_idle(slab);
    slab_relist(pool, slab);
  }
  pool->taken_again += got;
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
  set_figure(&pool->out, pool->out + got);
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

static size_t purge_slab(pool_t *pool, run_t *slab)
{
  pool->idle -= slab_idle(slab);
  size_t bytes = slab_purge(slab, pool->space, pool->block_size);
  pool->idle += slab_idle(slab);
  return bytes;
}

/* `count` blocks of the slab are free again. */
static void note_idle(pool_t *pool, run_t *slab, size_t count, bool purge)
{
  pool->idle += count;
  if (purge && pool->idle > max_size(pool->taken_again, IDLE_LEAST_BYTES / pool->block_size) && !slab_is_unused(slab))
    purge_slab(pool, slab);
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
static void put_blocks(pool_t *pool, void *const *blocks, size_t count, unsigned shard, bool purge)
{
  size_t size = pool->block_size;
  uint64_t inverse = pool->inverse;
  set_figure(&pool->out, pool->out - count);
  for (size_t i = 0; i < count;) {
    run_t *slab = slab_of(pool, blocks[i]);
    slab->shard = (uint8_t)shard;
    size_t slab_bytes = slab->capacity * size;
    size_t offset = (size_t)((char *)blocks[i] - slab->start), first = i;
    do {
      size_t index;
      slab_answer_t answer = slab_ask(slab, size, inverse, offset, &index);
      if (unlikely(answer != SLAB_LIVE_OR_CACHED))
        put_failed(pool, blocks[i], answer == SLAB_FREE ? FREED_TWICE : NOT_A_BLOCK);
      slab_put(slab, index);
    } while (++i < count && (offset = (size_t)((char *)blocks[i] - slab->start)) < slab_bytes);
    if (pool->purges)
      note_idle(pool, slab, i - first, purge);
    slab_settle(pool, slab);
  }
}

size_t pool_take(pool_t *pool, void **blocks, size_t want, block_past_t *past)
{
  lock_acquire(&pool->lock);
  note_use(pool);
  size_t got = take_blocks(pool, blocks, want, 0, past);
  lock_release(&pool->lock);
  return got;
}

static bool has_free(const pool_t *pool)
{
  return fullest_partial(pool) || pool->slabs[SLAB_RESET] || (pool->current && !slab_is_exhausted(pool->current));
}

bool pool_take_free(pool_t *pool, void **block, block_past_t *past)
{
  lock_acquire(&pool->lock);
  note_use(pool);
  bool got = has_free(pool) && take_blocks(pool, block, 1, 0, past) == 1;
  lock_release(&pool->lock);
  return got;
}

void pool_put(pool_t *pool, void *const *blocks, size_t count)
{
  lock_acquire(&pool->lock);
  note_use(pool);
  put_blocks(pool, blocks, count, 0, true);
  lock_release(&pool->lock);
}

/* Those who ask come from any thread, and a pool of one thread has no lock. */
static void ask_begin(pool_t *pool)
{
  if (!pool->lock.solo)
    lock_acquire(&pool->lock);
}

static void ask_end(pool_t *pool)
{
  if (!pool->lock.solo)
    lock_release(&pool->lock);
}

/* The bits change beside the reader, who finds whole words; that of a block which is neither taken nor given meanwhile stays. */
READS_BESIDE_OWNER static bool ask_beside_owner(const pool_t *pool, const run_t *slab, const void *address, char **block)
{
  const volatile run_t *as_it_is = slab;
  size_t index = pool_block_index(pool, slab, address);
  bool ours = index < as_it_is->fresh;
  *block = ours ? as_it_is->start + index * pool->block_size : NULL;
  return ours && !(((const volatile uint64_t *)as_it_is->bitmap)[index / WORD_BITS] >> index % WORD_BITS & 1);
}

bool pool_ask(pool_t *pool, const run_t *slab, const void *address, char **block)
{
  if (pool->lock.solo)
    return ask_beside_owner(pool, slab, address, block);
  lock_acquire(&pool->lock);
  bool ours = run_kind(slab) == RUN_SLAB && run_owner(slab) == pool;
  size_t index = ours ? pool_block_index(pool, slab, address) : 0;
  ours = ours && index < slab->fresh;
  *block = ours ? slab->start + index * pool->block_size : NULL;
  bool out = ours && !bit_test(slab->bitmap, index);
  lock_release(&pool->lock);
  return out;
}

bool pool_live_word(pool_t *pool, const run_t *slab, const char *start, size_t w, uint64_t *live)
{
  lock_acquire(&pool->lock);
  bool there = run_kind(slab) == RUN_SLAB && run_owner(slab) == pool && slab->start == start && w * WORD_BITS < slab->fresh;
  if (there) {
    size_t left = slab->fresh - w * WORD_BITS;
    *live = ~slab->bitmap[w] & (left < WORD_BITS ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0);
  }
  lock_release(&pool->lock);
  return there;
}

/* ---- magazines ---- */

static void empties_push(depot_t *depot, void **magazine)
{
  magazine_put_away(magazine, depot->empties, 0);
  depot->empties = magazine;
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

static void **empties_pop(pool_t *pool, unsigned shard)
{
  depot_t *depot = &pool->depots[shard];
  for (unsigned i = 1; !depot->empties && i < DEPOT_SHARDS; i++)
    depot = &pool->depots[(shard + i) % DEPOT_SHARDS];
  void **magazine = depot->empties;
  if (!magazine)
    return magazine_take();
  depot->empties = magazine_below(magazine);
  __builtin_prefetch(depot->empties, 1);
  return magazine;
}

static size_t entries_below(void *const *top)
{
  size_t n = 0;
  while (top[-(ptrdiff_t)n])
    n++;
  return n;
}

static void depot_push(pool_t *pool, depot_t *depot, void **top)
{
  void **magazine = magazine_of(top);
  magazine_put_away(magazine, depot->newest, (size_t)(top - magazine));
  depot->newest = magazine;
  if (++depot->count > depot->high)
    depot->high = depot->count;
  pool->depot_count++;
}

static void **depot_pop(pool_t *pool, depot_t *depot)
{
  void **magazine = depot->newest, **top = magazine_top(magazine);
  depot->newest = magazine_below(magazine);
  __builtin_prefetch(depot->newest, 1);
  pool->depot_count--;
  if (--depot->count < depot->low)
    depot->low = depot->count;
  magazine[0] = NULL;
  return top;
}

/* By a thread of its shard. */
static void **depot_pop_own(pool_t *pool, depot_t *depot)
{
  void **top = depot_pop(pool, depot);
  depot->need = (uint32_t)max_size(depot->need, depot->high - depot->count);
  return top;
}

/* A magazine of another shard, which comes with its blocks out of another core's cache. That shard keeps what it needs, or its
 * threads would have to take others' magazines in their turn, and blocks wander for ever (sh8bench with four threads 4.8 s, 3.0
 * so). */
static void **depot_steal(pool_t *pool, unsigned shard, bool needed_too)
{
  for (unsigned i = 1; i < DEPOT_SHARDS; i++) {
    depot_t *depot = &pool->depots[(shard + i) % DEPOT_SHARDS];
    if (depot->count <= (needed_too ? 0 : depot->need))
      continue;
    void **top = depot_pop(pool, depot);
    depot->high--;
    for (char *line = (char *)magazine_of(top); line <= (char *)top; line += 64)
      __builtin_prefetch(line, 1);
    note_change(pool, DEPOT_GROWTH);
    return top;
  }
  return NULL;
}

/* Room for one more? Meeting the bound lets it fade. */
static bool depot_has_room(pool_t *pool)
{
  if (pool->depot_count < max_size(pool->depot_bound, DEPOT_LEAST))
    return true;
  pool->depot_bound -= pool->depot_bound >> DEPOT_DECAY;
  return false;
}

static void **refill_from_slabs(pool_t *pool, unsigned k, unsigned shard)
{
  void **magazine = empties_pop(pool, shard);
  if (!magazine)
    return NULL;
  void **floor = magazine_floor(magazine, k);
  *floor = NULL;
  size_t got = take_blocks(pool, floor + 1, k, shard, NULL);
  if (got)
    return floor + got;
  empties_push(&pool->depots[shard], magazine);
  return NULL;
}

void **pool_exchange_empty(pool_t *pool, void **empty, unsigned k, unsigned shard)
{
  depot_t *depot = &pool->depots[shard];
  lock_acquire(&pool->lock);
  note_use(pool);
  if (empty)
    empties_push(depot, magazine_of(empty));
  void **top = depot->count ? depot_pop_own(pool, depot) : NULL;
  if (!top && pool->depot_count)
    top = depot_steal(pool, shard, false);
  if (!top)
    top = refill_from_slabs(pool, k, shard);
  if (!top)
    top = depot_steal(pool, shard, true);
  lock_release(&pool->lock);
  return top;
}

/* The entries of a magazine go back to the slabs; nothing but word 0 is written to it. */
static void return_entries(pool_t *pool, void **top, unsigned shard, bool purge)
{
  size_t n = entries_below(top);
  put_blocks(pool, top - n + 1, n, shard, purge);
}

void **pool_exchange_full(pool_t *pool, void **top, unsigned k, unsigned shard)
{
  void **magazine = magazine_of(top), **empty = NULL;
  lock_acquire(&pool->lock);
  note_use(pool);
  if (depot_has_room(pool) && (empty = empties_pop(pool, shard)) != NULL) {
    depot_push(pool, &pool->depots[shard], top);
  } else {
    return_entries(pool, top, shard, true);
    empty = magazine;
  }
  lock_release(&pool->lock);
  return magazine_floor(empty, k);
}

void **pool_new_magazine(pool_t *pool, unsigned k, unsigned shard)
{
  lock_acquire(&pool->lock);
  void **magazine = empties_pop(pool, shard);
  lock_release(&pool->lock);
  return magazine ? magazine_floor(magazine, k) : NULL;
}

void pool_retire_magazine(pool_t *pool, void **top, unsigned shard)
{
  lock_acquire(&pool->lock);
  note_use(pool);
  if (magazine_is_full_at(top + 1) && *top && depot_has_room(pool)) {
    depot_push(pool, &pool->depots[shard], top);
  } else {
    return_entries(pool, top, shard, true);
    empties_push(&pool->depots[shard], magazine_of(top));
  }
  lock_release(&pool->lock);
}

/* The lists of a pool of one thread change beside a reader. It finds whole words, and what a link leads to is a magazine, if not
 * always one of this list: magazines are never unmapped. So the loads are volatile, and the thread sanitizer is not asked. */
READS_BESIDE_OWNER static size_t count_depot(const volatile depot_t *depot, const void *wanted, bool *found)
{
  size_t blocks = 0;
  uintptr_t magazine = (uintptr_t)depot->newest;
  for (uint32_t left = depot->count; left && magazine; left--) {
    const volatile uintptr_t *words = (const volatile uintptr_t *)magazine;
    uintptr_t link = words[0];
    uintptr_t entry;
    for (size_t top = link % MAGAZINE_WORDS; top && (entry = words[top]) != 0; top--, blocks++)
      *found |= entry == (uintptr_t)wanted;
    magazine = round_down(link, MAGAZINE_BYTES);
  }
  return blocks;
}

static size_t count_depots(pool_t *pool, const void *wanted, bool *found)
{
  size_t blocks = 0;
  ask_begin(pool);
  for (const depot_t *depot = pool->depots; depot < pool_depots_end(pool); depot++)
    blocks += count_depot(depot, wanted, found);
  ask_end(pool);
  return blocks;
}

size_t pool_depot_blocks(pool_t *pool)
{
  bool found = false;
  return count_depots(pool, NULL, &found);
}

bool pool_depot_holds(pool_t *pool, const void *block)
{
  bool found = false;
  count_depots(pool, block, &found);
  return found;
}

/* ---- giving back ---- */

static void depot_shrink(pool_t *pool, depot_t *depot, size_t keep, bool purge)
{
  while (depot->count > keep) {
    void **top = depot_pop(pool, depot);
    return_entries(pool, top, (unsigned)(depot - pool->depots), purge);
    empties_push(depot, magazine_of(top));
  }
  depot->high = depot->count;
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

static uint32_t needs(const pool_t *pool)
{
  uint32_t needs = 0;
  for (const depot_t *depot = pool->depots; depot < pool_depots_end(pool); depot++)
    needs += depot->need;
  return needs;
}

/* Nothing is left that time alone would change. */
static bool is_quiet(const pool_t *pool)
{
  return !pool->depot_count && !pool->depot_bound && !pool->taken_again && !needs(pool);
}

static void tick(pool_t *pool)
{
  for (depot_t *depot = pool->depots; depot < pool_depots_end(pool); depot++) {
    depot_shrink(pool, depot, depot->count - depot->low, false);   /* many: their system calls would keep one caller for long */
    depot->low = depot->count;
    depot->need -= (depot->need + DEPOT_NEED_DECAY - 1) / DEPOT_NEED_DECAY;
  }
  pool->depot_bound /= 2;
  pool->taken_again /= 2;
  if (!pool->out)
    close_unused_slabs(pool, CLOSE_LEAST_BYTES);
}

void pool_tick(pool_t *pool)
{
  lock_acquire(&pool->lock);
  tick(pool);
  lock_release(&pool->lock);
}

void pools_begin_tick(void)
{
  lock_acquire(&pools_due_lock);
  __atomic_store_n(&due_left, due_count, __ATOMIC_RELAXED);
  lock_release(&pools_due_lock);
}

bool pools_tick_is_under_way(void) { return __atomic_load_n(&due_left, __ATOMIC_RELAXED) != 0; }

static pool_t *next_due(void)
{
  lock_acquire(&pools_due_lock);
  pool_t *pool = due_left ? due_first : NULL;
  __atomic_store_n(&due_left, pool ? due_left - 1 : 0, __ATOMIC_RELAXED);
  if (pool)
    due_leave(pool);
  lock_release(&pools_due_lock);
  return pool;
}

/* Out of the list, but still `due`, so that nobody puts it there meanwhile. */
static void tick_due(pool_t *pool)
{
  lock_acquire(&pool->lock);
  if (!pool->ended) {
    tick(pool);
    if (is_quiet(pool))
      pool->due = false;
    else
      due_enter(pool);
  }
  lock_release(&pool->lock);
}

unsigned pools_tick(unsigned most, uint64_t now_ms)
{
  unsigned done = 0;
  for (pool_t *pool; done < most && (pool = next_due()) != NULL; done++) {
    space_t *space = pool->space;
    tick_due(pool);
    if (space->fixed && space->purgeable)
      space_tick(space, now_ms);
  }
  return done;
}

void pool_drain(pool_t *pool)
{
  lock_acquire(&pool->lock);
  for (depot_t *depot = pool->depots; depot < pool_depots_end(pool); depot++)
    depot_shrink(pool, depot, 0, true);
  close_unused_slabs(pool, 0);
  lock_release(&pool->lock);
}

size_t pool_purge(pool_t *pool)
{
  size_t bytes = 0;
  lock_acquire(&pool->lock);
  if (pool->purges)
    for (unsigned list = SLAB_PARTIAL_1; list <= SLAB_PARTIAL_4; list++)
      for (run_t *slab = pool->slabs[list]; slab; slab = slab->next)
        bytes += purge_slab(pool, slab);
  lock_release(&pool->lock);
  return bytes;
}

/* ---- the end of all blocks ---- */

void pool_keep_magazine(pool_t *pool, void **top, unsigned shard)
{
  lock_acquire(&pool->lock);
  empties_push(&pool->depots[shard], magazine_of(top));
  lock_release(&pool->lock);
}

static void depot_drop(pool_t *pool)
{
  for (depot_t *depot = pool->depots; depot < pool_depots_end(pool); depot++) {
    while (depot->count)
      empties_push(depot, magazine_of(depot_pop(pool, depot)));
    depot->high = depot->need = 0;
  }
}

static void slab_reset(pool_t *pool, run_t *slab)
{
  slab_leave_list(pool, slab);
  if (pool->purges)
    pool->idle -= slab_idle(slab);
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
  set_figure(&pool->out, 0);
  lock_release(&pool->lock);
}

void pool_finish(pool_t *pool)
{
  lock_acquire(&pool->lock);
  pool->ended = true;
  leave_due(pool);
  depot_drop(pool);
  for (depot_t *depot = pool->depots; depot < pool_depots_end(pool); depot++) {
    magazines_disown(depot->empties);
    depot->empties = NULL;
  }
  for (unsigned list = SLAB_FULL; list < SLAB_LISTS; list++)
    while (pool->slabs[list])
      pool_close_slab(pool, pool->slabs[list]);
  set_figure(&pool->out, 0);
  lock_release(&pool->lock);
}
