/* SPDX-License-Identifier: MIT */
#include "bin/bin.h"
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

uint32_t bin_threads = 1;

/* Small programs keep little, busy classes of large ones are seldom at their bins: random slots of up to 8 KiB spent a third
 * of their instructions there when a magazine held 16 KiB. */
static void size_magazines(bin_t *bin)
{
  size_t size = bin->block_size, threads = __atomic_load_n(&bin_threads, __ATOMIC_RELAXED);
  size_t share = bin->capacity / (MAGAZINE_SHARE * threads);
  size_t least = MAGAZINE_LEAST_BYTES / size;
  size_t k = max_size(share, max_size(least / (1 + threads / 8), min_size(least, MAGAZINE_LEAST_BLOCKS)));
  k = min_size(k, min_size(MAGAZINE_MOST_BYTES / size, MAGAZINE_CAPACITY_MOST));
  k = max_size(k, MAGAZINE_LEAST);
  size_t stock = max_size(min_size(STOCK_BYTES / (k * size), STOCK_MOST), bin->capacity / (STOCK_SHARE * k)) / threads;
  __atomic_store_n(&bin->magazine_capacity, (uint8_t)k, __ATOMIC_RELAXED);
  __atomic_store_n(&bin->stock_most, (uint8_t)min_size(max_size(stock, STOCK_LEAST), UINT8_MAX), __ATOMIC_RELAXED);
}

static size_t blocks_least(unsigned unit_log2) { return unit_log2 == UNIT_LOG2 ? SLAB_BLOCKS_LEAST : SLAB_BLOCKS_LEAST_SMALL; }

size_t bin_slab_least(size_t block_size, unsigned unit_log2) { return blocks_least(unit_log2) * block_size; }

/* Where a budget counts, a slab is so much longer than it must be that at most a 32nd of it is too short for a block, or as little as
 * up to three times the length can do. */
static size_t slab_bytes_for(size_t block_size, unsigned unit_log2, bool tight)
{
  size_t units = units_for(bin_slab_least(block_size, unit_log2), unit_log2), best = units << unit_log2;
  for (size_t u = units; tight && u <= 3 * units + 2 && best % block_size > best / SLAB_WASTE; u++) {
    size_t bytes = u << unit_log2;
    best = bytes % block_size * best < best % block_size * bytes ? bytes : best;
  }
  return best;
}

size_t bin_units_for(size_t block_size, size_t bytes, unsigned unit_log2)
{
  size_t slab = slab_bytes_for(block_size, unit_log2, true), blocks = bytes / block_size, each = slab / block_size;
  return blocks / each * (slab >> unit_log2) + units_for(blocks % each * block_size, unit_log2);
}

void bin_init(bin_t *bin, const bin_make_t *make)
{
  size_t size = make->block_size;
  memset(bin, 0, sizeof *bin);
  bin->block_size = (uint32_t)size;
  bin->size_class = (uint8_t)make->size_class;
  bin->slab_bytes = (uint32_t)slab_bytes_for(size, make->space->unit_log2, make->tight);
  bin->inverse = slab_inverse(size);
  bin->space = make->space;
  bin->budget = make->budget;
  bin->heap = make->heap;
  bin->depots = make->depots;
  bin->cached = make->depots != NULL;
  bin->plane = bin->cached ? make->plane : BIN_PLANE_NONE;
  bin->purges = make->purges && size >= PURGE_LEAST_PAGES * os_page_size();
  bin->lock.solo = make->single_thread;
  size_magazines(bin);
}

/* ---- bins that a tick has to look at ---- */

lock_t bins_due_lock;
static bin_t *due_first, *due_last;
static uint32_t due_count, due_left;   /* left: of those that were in the list when the tick began */

static void due_enter(bin_t *bin)
{
  bin->due = true;
  lock_acquire(&bins_due_lock);
  bin->due_next = NULL;
  bin->due_previous = due_last;
  *(due_last ? &due_last->due_next : &due_first) = bin;
  due_last = bin;
  due_count++;
  lock_release(&bins_due_lock);
}

/* Under the list's lock. */
static void due_leave(bin_t *bin)
{
  *(bin->due_previous ? &bin->due_previous->due_next : &due_first) = bin->due_next;
  *(bin->due_next ? &bin->due_next->due_previous : &due_last) = bin->due_previous;
  bin->due_next = bin->due_previous = NULL;
  due_count--;
}

/* A tick that has taken the bin out of the list will find that it has ended. */
static void leave_due(bin_t *bin)
{
  lock_acquire(&bins_due_lock);
  if (bin->due_previous || due_first == bin)
    due_leave(bin);
  lock_release(&bins_due_lock);
}

/* Called under the bin's lock by whatever changes it. */
static inline void note_use(bin_t *bin)
{
  if (unlikely(!bin->due) && !bin->ended && !bin->lock.solo)
    due_enter(bin);
}

/* ---- slabs ---- */

/* Others read it without the lock; a bin of one thread has none. */
static void set_figure(size_t *figure, size_t value) { __atomic_store_n(figure, value, __ATOMIC_RELAXED); }

static unsigned slab_list_of(const run_t *slab)
{
  uint32_t f = slab->free_count, q = slab->quarter;
  return f == 0 ? SLAB_FULL : SLAB_PARTIAL_1 + (f > q) + (f > 2 * q) + (f > 3 * q);
}

static bool is_partial(unsigned list) { return list >= SLAB_PARTIAL_1 && list <= SLAB_PARTIAL_4; }

static void slab_leave_list(bin_t *bin, run_t *slab)
{
  *(slab->previous ? &slab->previous->next : &bin->slabs[slab->list]) = slab->next;
  if (slab->next)
    slab->next->previous = slab->previous;
  bin->partial_count -= is_partial(slab->list);
}

static void slab_enter_list(bin_t *bin, run_t *slab, unsigned list)
{
  slab->list = (uint8_t)list;
  slab->previous = NULL;
  slab->next = bin->slabs[list];
  if (slab->next)
    slab->next->previous = slab;
  bin->slabs[list] = slab;
  bin->partial_count += is_partial(list);
}

static void slab_relist(bin_t *bin, run_t *slab)
{
  unsigned list = slab_list_of(slab);
  if (list == slab->list)
    return;
  slab_leave_list(bin, slab);
  slab_enter_list(bin, slab, list);
}

static void slab_announce(const bin_t *bin, const run_t *slab, unsigned size_class)
{
  if (bin->plane != BIN_PLANE_NONE)
    class_map_set(slab->start, slab->units, bin->plane == BIN_PLANE_DEFAULT, size_class);
}

/* The last bit of a region or of a budget serves as many blocks as fit into it; where it is the system that has no more, a shorter
 * slab is tried. */
static run_t *take_slab(bin_t *bin)
{
  run_t *slab = space_take_charged(bin->space, bin->budget, bin->slab_bytes, 1);
  for (space_t *space = bin->space; space && !slab; space = space->fallback) {
    size_t room = space_room_left(space, bin->budget), most = bin->slab_bytes;
    size_t bytes = room < most ? room : bin_slab_least(bin->block_size, space->unit_log2);
    if (bytes >= bin->block_size && bytes < most)
      slab = space_take_charged(space, bin->budget, bytes, 1);
  }
  return slab;
}

static run_t *bin_open_slab(bin_t *bin)
{
  run_t *slab = take_slab(bin);
  if (!slab)
    return NULL;
  arena_t *arena = arena_of(bin->space, slab->start);
  slab_init(slab, arena, bin, bin->size_class, bin->block_size);
  slab_announce(bin, slab, bin->size_class);
  slab_enter_list(bin, slab, SLAB_FULL);
  bin->capacity += slab->capacity;
  set_figure(&bin->slab_count, bin->slab_count + 1);
  set_figure(&bin->held_bytes, bin->held_bytes + run_bytes(arena, slab));
  size_magazines(bin);
  return bin->current = slab;
}

static run_t *reopen_slab(bin_t *bin)
{
  run_t *slab = bin->slabs[SLAB_RESET];
  slab_relist(bin, slab);
  return bin->current = slab;
}

static void bin_close_slab(bin_t *bin, run_t *slab)
{
  slab_leave_list(bin, slab);
  if (bin->purges)
    bin->idle -= slab_idle(slab);
  bin->capacity -= slab->capacity;
  set_figure(&bin->slab_count, bin->slab_count - 1);
  set_figure(&bin->held_bytes, bin->held_bytes - run_bytes(arena_of(bin->space, slab->start), slab));
  size_magazines(bin);
  if (bin->current == slab)
    bin->current = NULL;
  slab_announce(bin, slab, 0);
  space_give_charged(bin->space, bin->budget, slab);
}

static size_t slab_touched(const bin_t *bin, const run_t *slab) { return (size_t)slab->fresh * bin->block_size; }

static run_t *fullest_partial(const bin_t *bin)
{
  for (unsigned list = SLAB_PARTIAL_1; list <= SLAB_PARTIAL_4; list++)
    if (bin->slabs[list])
      return bin->slabs[list];
  return NULL;
}

/* Blocks go from shard to shard: allow for more magazines in the depots. */
static void note_change(bin_t *bin, size_t by)
{
  size_t most = bin->capacity * 3 / (4 * bin->magazine_capacity);
  bin->depot_bound = (uint32_t)min_size(bin->depot_bound + by, most);
}

/* Free blocks of the fullest slabs; fresh ones only where there are none. */
static size_t take_blocks(bin_t *bin, void **blocks, size_t want, unsigned shard, block_past_t *past)
{
  size_t got = 0;
  run_t *slab;
  while (got < want && (slab = fullest_partial(bin)) != NULL) {
    if (slab->shard != shard)
      note_change(bin, DEPOT_GROWTH_SLAB);
    size_t idle = bin->purges ? slab_idle(slab) : 0;
    got += slab_take_free(slab, bin->block_size, blocks, want - got);
    if (bin->purges)
      bin->idle -= idle - slab_idle(slab);
    slab_relist(bin, slab);
  }
  bin->taken_again += got;
  bool is_fresh = !got;
  if (!got) {
    slab = bin->current;
    if (!slab || slab_is_exhausted(slab))
      slab = bin->slabs[SLAB_RESET] ? reopen_slab(bin) : bin_open_slab(bin);
    if (slab)
      got = slab_take_fresh(slab, bin->block_size, blocks, want);
  }
  if (past)
    *past = !is_fresh || !got ? BLOCK_USED : slab->zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  if (got < want)
    memmove(blocks, blocks + (want - got), got * sizeof *blocks);
  set_figure(&bin->outstanding, bin->outstanding + got);
  return got;
}

/* After blocks came back to `slab`. One unused slab may stay, so that a program that frees and allocates the last block of
 * one again and again does not open and close it each time. */
static void slab_after_put(bin_t *bin, run_t *slab)
{
  if (unlikely(slab_is_unused(slab)) && slab != bin->current && bin->partial_count > is_partial(slab->list))
    bin_close_slab(bin, slab);
  else
    slab_relist(bin, slab);
}

static size_t purge_slab(bin_t *bin, run_t *slab)
{
  bin->idle -= slab_idle(slab);
  size_t bytes = slab_purge(slab, bin->space, bin->block_size);
  bin->idle += slab_idle(slab);
  return bytes;
}

/* `count` blocks of the slab are free again. */
static void note_idle(bin_t *bin, run_t *slab, size_t count, bool purge)
{
  bin->idle += count;
  if (purge && bin->idle > max_size(bin->taken_again, IDLE_LEAST_BYTES / bin->block_size) && !slab_is_unused(slab))
    purge_slab(bin, slab);
}

static _Noreturn void put_failed(bin_t *bin, const void *block, const char *what)
{
  lock_release(&bin->lock);
  fatal_misuse(fatal_free_call, block, what);
}

static run_t *slab_of(bin_t *bin, const void *block)
{
  arena_t *arena = arena_of(bin->space, block);
  run_t *slab = run_of(arena, block);
  if (unlikely(slab->owner != bin || run_kind(slab) != RUN_SLAB))
    put_failed(bin, block, NOT_A_BLOCK);
  return slab;
}

/* Returns the blocks; those next to each other that are of one slab share its look-up. */
static void put_blocks(bin_t *bin, void *const *blocks, size_t count, unsigned shard, bool purge)
{
  size_t size = bin->block_size;
  uint64_t inverse = bin->inverse;
  set_figure(&bin->outstanding, bin->outstanding - count);
  for (size_t i = 0; i < count;) {
    run_t *slab = slab_of(bin, blocks[i]);
    slab->shard = (uint8_t)shard;
    size_t slab_bytes = slab->capacity * size;
    size_t offset = (size_t)((char *)blocks[i] - slab->start), first = i;
    do {
      size_t index;
      slab_answer_t answer = slab_ask(slab, size, inverse, offset, &index);
      if (unlikely(answer != SLAB_LIVE_OR_CACHED))
        put_failed(bin, blocks[i], answer == SLAB_FREE ? FREED_TWICE : NOT_A_BLOCK);
      slab_put(slab, index);
    } while (++i < count && (offset = (size_t)((char *)blocks[i] - slab->start)) < slab_bytes);
    if (bin->purges)
      note_idle(bin, slab, i - first, purge);
    slab_after_put(bin, slab);
  }
}

size_t bin_take(bin_t *bin, void **blocks, size_t want, block_past_t *past)
{
  lock_acquire(&bin->lock);
  note_use(bin);
  size_t got = take_blocks(bin, blocks, want, 0, past);
  lock_release(&bin->lock);
  return got;
}

static bool has_free(const bin_t *bin)
{
  return fullest_partial(bin) || bin->slabs[SLAB_RESET] || (bin->current && !slab_is_exhausted(bin->current));
}

bool bin_take_free(bin_t *bin, void **block, block_past_t *past)
{
  lock_acquire(&bin->lock);
  note_use(bin);
  bool got = has_free(bin) && take_blocks(bin, block, 1, 0, past) == 1;
  lock_release(&bin->lock);
  return got;
}

void bin_put(bin_t *bin, void *const *blocks, size_t count)
{
  lock_acquire(&bin->lock);
  note_use(bin);
  put_blocks(bin, blocks, count, 0, true);
  lock_release(&bin->lock);
}

/* Those who ask come from any thread, and a bin of one thread has no lock. */
static void ask_begin(bin_t *bin)
{
  if (!bin->lock.solo)
    lock_acquire(&bin->lock);
}

static void ask_end(bin_t *bin)
{
  if (!bin->lock.solo)
    lock_release(&bin->lock);
}

/* The bits change beside the reader, who finds whole words; that of a block which is neither taken nor given meanwhile stays. */
READS_BESIDE_OWNER static bool ask_beside_owner(const bin_t *bin, const run_t *slab, const void *address, char **block)
{
  const volatile run_t *as_it_is = slab;
  size_t index = bin_block_index(bin, slab, address);
  bool ours = index < as_it_is->fresh;
  *block = ours ? as_it_is->start + index * bin->block_size : NULL;
  return ours && !(((const volatile uint64_t *)as_it_is->bitmap)[index / WORD_BITS] >> index % WORD_BITS & 1);
}

bool bin_ask(bin_t *bin, const run_t *slab, const void *address, char **block)
{
  if (bin->lock.solo)
    return ask_beside_owner(bin, slab, address, block);
  lock_acquire(&bin->lock);
  bool ours = run_kind(slab) == RUN_SLAB && run_owner(slab) == bin;
  size_t index = ours ? bin_block_index(bin, slab, address) : 0;
  ours = ours && index < slab->fresh;
  *block = ours ? slab->start + index * bin->block_size : NULL;
  bool out = ours && !bit_test(slab->bitmap, index);
  lock_release(&bin->lock);
  return out;
}

bool bin_live_word(bin_t *bin, const run_t *slab, const char *start, size_t w, uint64_t *live)
{
  lock_acquire(&bin->lock);
  bool there = run_kind(slab) == RUN_SLAB && run_owner(slab) == bin && slab->start == start && w * WORD_BITS < slab->fresh;
  if (there) {
    size_t left = slab->fresh - w * WORD_BITS;
    *live = ~slab->bitmap[w] & (left < WORD_BITS ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0);
  }
  lock_release(&bin->lock);
  return there;
}

/* ---- magazines ---- */

static void empties_push(depot_t *depot, void **magazine)
{
  magazine_put_away(magazine, depot->empties, 0);
  depot->empties = magazine;
}

/* Magazines of bins that ended. */
lock_t bin_magazines_lock;
static void **ownerless;

static void **magazine_take(void)
{
  lock_acquire(&bin_magazines_lock);
  void **magazine = ownerless;
  if (magazine)
    ownerless = magazine_below(magazine);
  lock_release(&bin_magazines_lock);
  return magazine ? magazine : metadata_take(MAGAZINE_BYTES, MAGAZINE_BYTES);
}

static void magazines_disown(void **magazine)
{
  if (!magazine)
    return;
  void **last = magazine;
  while (magazine_below(last))
    last = magazine_below(last);
  lock_acquire(&bin_magazines_lock);
  magazine_put_away(last, ownerless, 0);
  ownerless = magazine;
  lock_release(&bin_magazines_lock);
}

static void **empties_pop(bin_t *bin, unsigned shard)
{
  depot_t *depot = &bin->depots[shard];
  for (unsigned i = 1; !depot->empties && i < DEPOT_SHARDS; i++)
    depot = &bin->depots[(shard + i) % DEPOT_SHARDS];
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

static void depot_push(bin_t *bin, depot_t *depot, void **top)
{
  void **magazine = magazine_of(top);
  magazine_put_away(magazine, depot->newest, (size_t)(top - magazine));
  depot->newest = magazine;
  if (++depot->count > depot->high)
    depot->high = depot->count;
  bin->depot_count++;
}

static void **depot_pop(bin_t *bin, depot_t *depot)
{
  void **magazine = depot->newest, **top = magazine_top(magazine);
  depot->newest = magazine_below(magazine);
  __builtin_prefetch(depot->newest, 1);
  bin->depot_count--;
  if (--depot->count < depot->low)
    depot->low = depot->count;
  magazine[0] = NULL;
  return top;
}

/* By a thread of its shard. */
static void **depot_pop_own(bin_t *bin, depot_t *depot)
{
  void **top = depot_pop(bin, depot);
  depot->need = (uint32_t)max_size(depot->need, depot->high - depot->count);
  return top;
}

/* A magazine of another shard, which comes with its blocks out of another core's cache. That shard keeps what it needs, or its
 * threads would have to take others' magazines in their turn, and blocks wander for ever (sh8bench with four threads 4.8 s, 3.0
 * so). */
static void **depot_steal(bin_t *bin, unsigned shard, bool needed_too)
{
  for (unsigned i = 1; i < DEPOT_SHARDS; i++) {
    depot_t *depot = &bin->depots[(shard + i) % DEPOT_SHARDS];
    if (depot->count <= (needed_too ? 0 : depot->need))
      continue;
    void **top = depot_pop(bin, depot);
    depot->high--;
    for (char *line = (char *)magazine_of(top); line <= (char *)top; line += 64)
      __builtin_prefetch(line, 1);
    note_change(bin, DEPOT_GROWTH);
    return top;
  }
  return NULL;
}

/* Room for one more? Meeting the bound lets it fade. */
static bool depot_has_room(bin_t *bin)
{
  if (bin->depot_count < max_size(bin->depot_bound, DEPOT_LEAST))
    return true;
  bin->depot_bound -= bin->depot_bound >> DEPOT_DECAY;
  return false;
}

static void **refill_from_slabs(bin_t *bin, unsigned k, unsigned shard)
{
  void **magazine = empties_pop(bin, shard);
  if (!magazine)
    return NULL;
  void **floor = magazine_floor(magazine, k);
  *floor = NULL;
  size_t got = take_blocks(bin, floor + 1, k, shard, NULL);
  if (got)
    return floor + got;
  empties_push(&bin->depots[shard], magazine);
  return NULL;
}

void **bin_exchange_empty(bin_t *bin, void **empty, unsigned k, unsigned shard)
{
  depot_t *depot = &bin->depots[shard];
  lock_acquire(&bin->lock);
  note_use(bin);
  if (empty)
    empties_push(depot, magazine_of(empty));
  void **top = depot->count ? depot_pop_own(bin, depot) : NULL;
  if (!top && bin->depot_count)
    top = depot_steal(bin, shard, false);
  if (!top)
    top = refill_from_slabs(bin, k, shard);
  if (!top)
    top = depot_steal(bin, shard, true);
  lock_release(&bin->lock);
  return top;
}

/* The entries of a magazine go back to the slabs; nothing but word 0 is written to it. */
static void return_entries(bin_t *bin, void **top, unsigned shard, bool purge)
{
  size_t n = entries_below(top);
  put_blocks(bin, top - n + 1, n, shard, purge);
}

void **bin_exchange_full(bin_t *bin, void **top, unsigned k, unsigned shard)
{
  void **magazine = magazine_of(top), **empty = NULL;
  lock_acquire(&bin->lock);
  note_use(bin);
  if (depot_has_room(bin) && (empty = empties_pop(bin, shard)) != NULL) {
    depot_push(bin, &bin->depots[shard], top);
  } else {
    return_entries(bin, top, shard, true);
    empty = magazine;
  }
  lock_release(&bin->lock);
  return magazine_floor(empty, k);
}

void **bin_new_magazine(bin_t *bin, unsigned k, unsigned shard)
{
  lock_acquire(&bin->lock);
  void **magazine = empties_pop(bin, shard);
  lock_release(&bin->lock);
  return magazine ? magazine_floor(magazine, k) : NULL;
}

void bin_retire_magazine(bin_t *bin, void **top, unsigned shard)
{
  lock_acquire(&bin->lock);
  note_use(bin);
  if (magazine_is_full_at(top + 1) && *top && depot_has_room(bin)) {
    depot_push(bin, &bin->depots[shard], top);
  } else {
    return_entries(bin, top, shard, true);
    empties_push(&bin->depots[shard], magazine_of(top));
  }
  lock_release(&bin->lock);
}

/* The lists of a bin of one thread change beside a reader. It finds whole words, and what a link leads to is a magazine, if not
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

static size_t count_depots(bin_t *bin, const void *wanted, bool *found)
{
  size_t blocks = 0;
  ask_begin(bin);
  for (const depot_t *depot = bin->depots; depot < bin_depots_end(bin); depot++)
    blocks += count_depot(depot, wanted, found);
  ask_end(bin);
  return blocks;
}

size_t bin_depot_blocks(bin_t *bin)
{
  bool found = false;
  return count_depots(bin, NULL, &found);
}

bool bin_depot_holds(bin_t *bin, const void *block)
{
  bool found = false;
  count_depots(bin, block, &found);
  return found;
}

/* ---- giving back ---- */

static void depot_shrink(bin_t *bin, depot_t *depot, size_t keep, bool purge)
{
  while (depot->count > keep) {
    void **top = depot_pop(bin, depot);
    return_entries(bin, top, (unsigned)(depot - bin->depots), purge);
    empties_push(depot, magazine_of(top));
  }
  depot->high = depot->count;
}

/* Those that hold more than `least` bytes of memory. */
static void close_unused_slabs(bin_t *bin, size_t least)
{
  for (run_t *slab = bin->slabs[SLAB_PARTIAL_4], *next; slab; slab = next) {
    next = slab->next;
    if (slab_is_unused(slab) && slab_touched(bin, slab) >= least)
      bin_close_slab(bin, slab);
  }
  while (bin->slabs[SLAB_RESET])
    bin_close_slab(bin, bin->slabs[SLAB_RESET]);
  run_t *current = bin->current;
  if (current && slab_is_unused(current) && slab_touched(bin, current) >= least)
    bin_close_slab(bin, current);
}

static uint32_t needs(const bin_t *bin)
{
  uint32_t needs = 0;
  for (const depot_t *depot = bin->depots; depot < bin_depots_end(bin); depot++)
    needs += depot->need;
  return needs;
}

/* Nothing is left that time alone would change. */
static bool is_quiet(const bin_t *bin)
{
  return !bin->depot_count && !bin->depot_bound && !bin->taken_again && !needs(bin);
}

static void tick(bin_t *bin)
{
  for (depot_t *depot = bin->depots; depot < bin_depots_end(bin); depot++) {
    depot_shrink(bin, depot, depot->count - depot->low, false);   /* many: their system calls would keep one caller for long */
    depot->low = depot->count;
    depot->need -= (depot->need + DEPOT_NEED_DECAY - 1) / DEPOT_NEED_DECAY;
  }
  bin->depot_bound /= 2;
  bin->taken_again /= 2;
  if (!bin->outstanding)
    close_unused_slabs(bin, CLOSE_LEAST_BYTES);
}

void bin_tick(bin_t *bin)
{
  lock_acquire(&bin->lock);
  tick(bin);
  lock_release(&bin->lock);
}

void bins_begin_tick(void)
{
  lock_acquire(&bins_due_lock);
  __atomic_store_n(&due_left, due_count, __ATOMIC_RELAXED);
  lock_release(&bins_due_lock);
}

bool bins_tick_is_under_way(void) { return __atomic_load_n(&due_left, __ATOMIC_RELAXED) != 0; }

static bin_t *next_due(void)
{
  lock_acquire(&bins_due_lock);
  bin_t *bin = due_left ? due_first : NULL;
  __atomic_store_n(&due_left, bin ? due_left - 1 : 0, __ATOMIC_RELAXED);
  if (bin)
    due_leave(bin);
  lock_release(&bins_due_lock);
  return bin;
}

/* Out of the list, but still `due`, so that nobody puts it there meanwhile. */
static void tick_due(bin_t *bin)
{
  lock_acquire(&bin->lock);
  if (!bin->ended) {
    tick(bin);
    if (is_quiet(bin))
      bin->due = false;
    else
      due_enter(bin);
  }
  lock_release(&bin->lock);
}

unsigned bins_tick(unsigned most, uint64_t now_ms)
{
  unsigned done = 0;
  for (bin_t *bin; done < most && (bin = next_due()) != NULL; done++) {
    space_t *space = bin->space;
    tick_due(bin);
    if (space->fixed && space->purgeable)
      space_tick(space, now_ms);
  }
  return done;
}

void bin_drain(bin_t *bin)
{
  lock_acquire(&bin->lock);
  for (depot_t *depot = bin->depots; depot < bin_depots_end(bin); depot++)
    depot_shrink(bin, depot, 0, true);
  close_unused_slabs(bin, 0);
  lock_release(&bin->lock);
}

size_t bin_purge(bin_t *bin)
{
  size_t bytes = 0;
  lock_acquire(&bin->lock);
  if (bin->purges)
    for (unsigned list = SLAB_PARTIAL_1; list <= SLAB_PARTIAL_4; list++)
      for (run_t *slab = bin->slabs[list]; slab; slab = slab->next)
        bytes += purge_slab(bin, slab);
  lock_release(&bin->lock);
  return bytes;
}

/* ---- the end of all blocks ---- */

void bin_keep_magazine(bin_t *bin, void **top, unsigned shard)
{
  lock_acquire(&bin->lock);
  empties_push(&bin->depots[shard], magazine_of(top));
  lock_release(&bin->lock);
}

static void depot_drop(bin_t *bin)
{
  for (depot_t *depot = bin->depots; depot < bin_depots_end(bin); depot++) {
    while (depot->count)
      empties_push(depot, magazine_of(depot_pop(bin, depot)));
    depot->high = depot->need = 0;
  }
}

static void slab_reset(bin_t *bin, run_t *slab)
{
  slab_leave_list(bin, slab);
  if (bin->purges)
    bin->idle -= slab_idle(slab);
  slab_empty(slab);
  slab_enter_list(bin, slab, SLAB_RESET);
}

void bin_reset(bin_t *bin)
{
  lock_acquire(&bin->lock);
  depot_drop(bin);
  for (unsigned list = SLAB_FULL; list <= SLAB_PARTIAL_4; list++)
    while (bin->slabs[list])
      slab_reset(bin, bin->slabs[list]);
  bin->current = NULL;
  set_figure(&bin->outstanding, 0);
  lock_release(&bin->lock);
}

void bin_finish(bin_t *bin)
{
  lock_acquire(&bin->lock);
  bin->ended = true;
  leave_due(bin);
  depot_drop(bin);
  for (depot_t *depot = bin->depots; depot < bin_depots_end(bin); depot++) {
    magazines_disown(depot->empties);
    depot->empties = NULL;
  }
  for (unsigned list = SLAB_FULL; list < SLAB_LISTS; list++)
    while (bin->slabs[list])
      bin_close_slab(bin, bin->slabs[list]);
  set_figure(&bin->outstanding, 0);
  lock_release(&bin->lock);
}
