/* SPDX-License-Identifier: MIT
 *
 * The life of a slab: open_slab() makes it the current one, which hands out fresh blocks. Returning blocks move it from list to
 * list (slab_after_put()) until all are back. Then it is closed, unless it is the only one with free blocks. A reset moves it
 * to a list of its own, from which it is opened again. */
#include "base/list.h"
#include "bin/bin.h"
#include "misuse.h"
#include "os/os.h"
#include "space/arena.h"
#include <string.h>

enum {
  DEPOT_GROWTH_SLAB = 16, /* magazines added for a slab whose blocks change shards */
  ENDS_LOOKED_AT = 8,     /* nearly unused slabs */
  PUTS_PER_LOOK = 8       /* puts in a single-threaded bin between two reads of the clock */
};

/* ---- lists ---- */

/* Blocks are taken from slabs with few free blocks, so that slabs with many become unused. Quarters are precise enough. */
static unsigned slab_list_of(const run_t *slab)
{
  uint32_t f = slab->free_count, q = slab->capacity / 4;
  if (f == 0)
    return SLAB_NONE_FREE;
  return f != slab->settled ? SLAB_PARTIAL_1 + (f > q) + (f > 2 * q) + (f > 3 * q) : SLAB_SETTLED;
}

static bool is_partial(unsigned list) { return list >= SLAB_PARTIAL_1 && list <= SLAB_SETTLED; }

static void slab_leave_list(bin_t *bin, run_t *slab)
{
  LIST_REMOVE(bin->slabs[slab->list], slab, next, previous);
  bin->partial_count -= is_partial(slab->list);
}

static void slab_enter_list(bin_t *bin, run_t *slab, unsigned list)
{
  slab->list = (uint8_t)list;
  LIST_PUSH(bin->slabs[list], slab, next, previous);
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

/* ---- opening and closing slabs ---- */

/* The class map has a slab's class before its first block leaves the bin, and 0 after the last one is back (M1). */
static void slab_set_class(const bin_t *bin, const run_t *slab, unsigned size_class)
{
  if (bin->plane != BIN_PLANE_NONE)
    class_map_set(slab->start, slab->units, bin->plane == BIN_PLANE_DEFAULT, size_class);
}

static run_t *take_slab_of(const bin_t *bin, space_t *space, size_t bytes)
{
  if (bin->block_size <= FILLED_BLOCK_MOST)
    return space_take_filled(space, bin->budget, bytes);
  return space_take_charged(space, bin->budget, bytes, 1);
}

/* If the wanted length is refused, a shorter slab may be available: as many blocks as fit into the last part of a region or
 * budget, or the shortest slab if the system is out of memory. The same number of units would be refused again. */
static run_t *take_slab(bin_t *bin)
{
  run_t *slab = take_slab_of(bin, bin->space, bin->slab_bytes);
  for (space_t *space = bin->space; space && !slab && bin->slab_bytes > UNIT; space = space->fallback) {
    size_t room = space_room_left(space, bin->budget), most = bin->slab_bytes;
    size_t bytes = room < most ? room : slabs_least_bytes(bin->block_size);
    if (bytes >= bin->block_size && units_for(bytes) < units_for(most))
      slab = take_slab_of(bin, space, bytes);
  }
  return slab;
}

/* All blocks of a new slab are fresh and none is free, so it begins in the list SLAB_NONE_FREE. */
static run_t *open_slab(bin_t *bin)
{
  run_t *slab = take_slab(bin);
  if (!slab)
    return NULL;
  arena_t *arena = arena_of(bin->space, slab->start);
  slab_init(slab, arena, bin, bin->size_class, bin->block_size);
  slab_set_class(bin, slab, bin->size_class);
  slab_enter_list(bin, slab, SLAB_NONE_FREE);
  set_figure(&bin->capacity, bin->capacity + slab->capacity);
  set_figure(&bin->slab_count, bin->slab_count + 1);
  set_figure(&bin->held_bytes, bin->held_bytes + run_bytes(slab));
  slabs_size_magazines(bin);
  return bin->current = slab;
}

static void count_returned(bin_t *bin, size_t by) { set_figure(&bin->returned_bytes, bin->returned_bytes + by); }

static void count_out(bin_t *bin, const run_t *slab)
{
  bin->idle -= slab_idle(slab);
  count_returned(bin, -slab_parts_length(slab, slab->purged));
}

/* A slab that was reset is used before a new one is opened, because it already holds memory. */
static run_t *reopen_slab(bin_t *bin)
{
  run_t *slab = bin->slabs[SLAB_RESET];
  slab_relist(bin, slab);
  return bin->current = slab;
}

/* Clears the class map first, because the units may belong to another slab the next moment. An ending bin needs no sizes. */
static void close_slab(bin_t *bin, run_t *slab)
{
  slab_leave_list(bin, slab);
  count_out(bin, slab);
  set_figure(&bin->capacity, bin->capacity - slab->capacity);
  set_figure(&bin->slab_count, bin->slab_count - 1);
  set_figure(&bin->held_bytes, bin->held_bytes - run_bytes(slab));
  if (!bin->ended)
    slabs_size_magazines(bin);
  if (bin->current == slab)
    bin->current = NULL;
  slab_set_class(bin, slab, 0);
  slab_empty(slab);
  space_give_charged(bin->space, bin->budget, slab);
}

static size_t slab_touched(const bin_t *bin, const run_t *slab) { return (size_t)slab->fresh * bin->block_size; }

/* ---- blocks ---- */

/* Taking from the fullest slab lets the emptiest become unused. */
static run_t *fullest_partial(const bin_t *bin)
{
  unsigned list = SLAB_PARTIAL_1;
  if (!bin->partial_count)
    return NULL;
  while (!bin->slabs[list])
    list++;
  return bin->slabs[list];
}

/* The depots may hold at most 3/4 of a class, so that some of it always passes through the bitmaps, which restore address
 * order. Also called without the bin's lock: any value is a correct bound. */
void slabs_note_change(bin_t *bin, size_t by)
{
  size_t capacity = __atomic_load_n(&bin->capacity, __ATOMIC_RELAXED);
  depots_grow(&bin->depots, by, capacity * 3 / (4u * __atomic_load_n(&bin->magazine_capacity, __ATOMIC_RELAXED)));
}

/* Counts taken blocks, settled ones first. A slab with purged parts keeps a settled block, so each take is counted. */
NOINLINE static void note_taken(bin_t *bin, run_t *slab, size_t count)
{
  size_t settled = slab->settled - min_size(slab->settled, count);
  count_returned(bin, -slab_parts_length(slab, slab->purged));
  slab_note_taken(slab, bin->block_size, bin->inverse);
  count_returned(bin, slab_parts_length(slab, slab->purged));
  settled = max_size(settled, slab->purged != 0);
  bin->idle += slab->settled - settled;
  slab->settled = (uint16_t)settled;
}

static size_t take_free(bin_t *bin, run_t *slab, void **blocks, size_t want)
{
  size_t got = slab_take_free(slab, bin->block_size, blocks, want);
  bin->idle -= got;
  if (unlikely(slab->settled))
    note_taken(bin, slab, got);
  low_water_note(&bin->low_idle, bin->idle);
  return got;
}

/* Takes fresh blocks only if no block is free, so that unneeded memory is not touched. It never mixes them with free ones, so
 * that *past holds for all. If there are fewer blocks than wanted, they are at the end of the array and move to its start. */
size_t slabs_take(bin_t *bin, void **blocks, size_t want, unsigned shard, block_past_t *past)
{
  size_t got = 0;
  run_t *slab;
  while (got < want && (slab = fullest_partial(bin)) != NULL) {
    /* threads of another shard freed these blocks, so they change threads, and the depots may grow */
    if (slab->shard != shard)
      slabs_note_change(bin, DEPOT_GROWTH_SLAB);
    got += take_free(bin, slab, blocks, want - got);
    slab_relist(bin, slab);
  }
  bool is_fresh = !got;
  if (!got) {
    slab = bin->current;
    if (!slab || !slab_has_fresh(slab))
      slab = bin->slabs[SLAB_RESET] ? reopen_slab(bin) : open_slab(bin);
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

bool slabs_have_free(const bin_t *bin)
{
  return fullest_partial(bin) || bin->slabs[SLAB_RESET] || (bin->current && slab_has_fresh(bin->current));
}

static bool ends_with(const run_t *slab, size_t blocks) { return slab->fresh - slab->free_count <= blocks; }

/* A slab in another list lacks a quarter of its blocks at least, unless it is the current one. Every slab has a unit. */
bool slabs_may_end_one(const bin_t *bin, size_t blocks)
{
  size_t looks = ENDS_LOOKED_AT;
  bool may = blocks >= UNIT / bin->block_size / 4 || (bin->current && ends_with(bin->current, blocks));
  for (unsigned list = SLAB_PARTIAL_4; list <= SLAB_SETTLED; list++)
    for (const run_t *slab = bin->slabs[list]; slab && !may; slab = slab->next)
      may = !looks-- || ends_with(slab, blocks);
  return may;
}

static void say_unused(bin_t *bin, bool any) { __atomic_store_n(&bin->may_have_unused, any, __ATOMIC_RELAXED); }

/* Called after blocks have come back to `slab`. One unused slab may stay, so that a program that repeatedly frees and allocates
 * a slab's last block does not open and close it each time. */
static void slab_after_put(bin_t *bin, run_t *slab)
{
  bool unused = slab_is_unused(slab);
  if (unlikely(unused) && slab != bin->current && bin->partial_count > is_partial(slab->list)) {
    close_slab(bin, slab);
    return;
  }
  if (unlikely(unused))
    say_unused(bin, true);
  slab_relist(bin, slab);
}

static word_t highest_parts(word_t parts, size_t most)
{
  for (size_t count = (size_t)__builtin_popcountll(parts); count > most; count--)
    parts &= parts - 1;
  return parts;
}

/* Returns the `most` highest groups of neighbouring parts. One system call purges a group. */
static word_t highest_groups(word_t parts, size_t most)
{
  word_t ends = parts & ~(parts >> 1);
  for (size_t count = (size_t)__builtin_popcountll(ends); count > most; count--) {
    word_t lowest_end = ends & -ends;
    parts &= ~(lowest_end | (lowest_end - 1));
    ends &= ends - 1;
  }
  return parts;
}

/* Purges free parts of a slab with at most `blocks` idle blocks, the highest first. `*calls` counts system calls up to
 * `calls_most`, and visits that purge nothing. Returns how many of the slab's idle blocks have settled. */
static size_t purge_slab(bin_t *bin, run_t *slab, size_t blocks, size_t *bytes, size_t *calls, size_t calls_most)
{
  word_t idle_parts = slab_idle_parts(slab, bin->block_size, bin->inverse), parts = idle_parts;
  if (blocks < slab_idle(slab))
    parts = highest_parts(parts, blocks * bin->block_size / slab_part_bytes(slab));
  parts = highest_groups(parts, calls_most - *calls);
  bool all = blocks >= slab_idle(slab) && parts == idle_parts;
  size_t purged = slab_purge(slab, bin->space, parts);
  bin->purge_failed = parts & ~slab->purged;
  count_returned(bin, purged);
  *bytes += purged;
  *calls += max_size((size_t)__builtin_popcountll(parts & ~(parts << 1)), 1);
  size_t idle = all && !bin->purge_failed ? slab_idle(slab) : min_size(purged / bin->block_size, slab_idle(slab));
  if (slab->purged && !slab->settled)
    idle = max_size(idle, 1);
  slab->settled = (uint16_t)(slab->settled + idle);
  bin->idle -= idle;
  low_water_lessen(&bin->low_idle, idle);
  slab_relist(bin, slab);
  return idle;
}

/* Visits slabs until `*blocks` idle blocks have settled or `calls_most` system calls are made. The emptiest slabs come first,
 * because blocks are taken from the fullest. A slab without idle blocks leaves its list. */
static size_t purge_idle(bin_t *bin, size_t *blocks, size_t *calls, size_t calls_most)
{
  size_t bytes = 0;
  bin->purge_failed = false;
  for (unsigned list = SLAB_PARTIAL_4; list >= SLAB_PARTIAL_1; list--)
    for (run_t *slab; *blocks && *calls < calls_most && !bin->purge_failed && (slab = bin->slabs[list]) != NULL;) {
      bool last = *blocks < slab_idle(slab);
      *blocks -= purge_slab(bin, slab, *blocks, &bytes, calls, calls_most);
      if (last)
        *blocks = 0;
    }
  return bytes;
}

size_t slabs_purge(bin_t *bin, size_t *blocks, size_t calls) { return purge_idle(bin, blocks, &(size_t){0}, calls); }

size_t slabs_purge_unneeded(bin_t *bin, size_t calls, uint64_t now_ms)
{
  size_t made = 0, epochs = low_water_epochs(bin->epoch_ms, now_ms, bin->space->purge_delay_ms);
  if (epochs) {
    bin->epoch_ms = now_ms;
    bin->unneeded = low_water_tick(&bin->low_idle, bin->idle, epochs);
  }
  bin->unneeded = min_size(bin->unneeded, bin->idle);
  purge_idle(bin, &bin->unneeded, &made, calls);
  return calls - min_size(calls, made);
}

/* Other threads must not access a single-threaded bin, so its own puts read the clock now and then. */
static void tick_alone(bin_t *bin)
{
  if (++bin->puts % PUTS_PER_LOOK)
    return;
  step_budget_t last = bin->epoch_ms;
  uint64_t now = os_now_ms();
  slabs_purge_unneeded(bin, min_size(step_budget_take(&last, now), BIN_STEPS_MOST) * PURGE_CALLS, now);
}

/* Purges memory that may go as soon as blocks are free. With a purge delay of 0 that is the slab, unless it is unused: then it
 * is about to be closed, or stays to serve next. A single-threaded bin reads the clock. */
static void purge_after_put(bin_t *bin, run_t *slab)
{
  if (likely(!bin->purges_in_puts) || !bin_purges(bin))
    return;
  size_t bytes = 0, calls = 0;
  if (!bin->space->purge_delay_ms && !bin->purge_failed && !slab_is_unused(slab))
    purge_slab(bin, slab, SIZE_MAX, &bytes, &calls, SIZE_MAX);
  if (bin->lock.solo)
    tick_alone(bin);
}

/* Releases the lock first, because a SIGABRT handler may allocate. Only blocks free in their slab are known to be the bin's. */
static _Noreturn void put_failed(bin_t *bin, const void *block, const char *what, bool is_own)
{
  lock_release(&bin->lock);
  fatal_late_misuse(block, what, is_own ? bin->heap : NULL, bin->block_size, bin->heap);
}

/* Ends the program if the block is not the bin's. The fast path cannot distinguish blocks of two heaps with the same class, so
 * the error is found here, when the magazine is emptied. */
static run_t *slab_of(bin_t *bin, const void *block)
{
  arena_t *arena = arena_of(bin->space, block);
  run_t *slab = run_of(arena, block);
  bool is_slab = run_kind(slab) == RUN_SLAB;
  if (unlikely(slab->owner != bin || !is_slab))
    put_failed(bin, block, is_slab && ((const bin_t *)slab->owner)->heap != bin->heap ? NOT_OF_HEAP : NOT_A_BLOCK, false);
  return slab;
}

/* Puts blocks, the first of which is in the slab, up to one that is not. Returns how many. */
static inline __attribute__((always_inline)) size_t put_each(bin_t *bin, run_t *slab, size_t size, uint64_t inverse,
                                                             void *const *blocks, size_t count)
{
  size_t slab_bytes = slab->capacity * size, i = 0, index;
  size_t offset = (size_t)((char *)blocks[0] - slab->start);
  do {
    slab_answer_t answer = slab_ask(slab, size, inverse, offset, &index);
    if (unlikely(answer != SLAB_LIVE_OR_CACHED)) {
      slab->free_count += (uint32_t)i;
      put_failed(bin, blocks[i], answer == SLAB_FREE ? FREED_TWICE : NOT_A_BLOCK, answer == SLAB_FREE);
    }
    bit_set(slab->bitmap, index);
  } while (++i < count && (offset = (size_t)((char *)blocks[i] - slab->start)) < slab_bytes);
  return i;
}

/* Neighbouring entries of one slab share its look-up. They are frequent, because a refill takes blocks of one slab. */
void slabs_put(bin_t *bin, void *const *blocks, size_t count, unsigned shard)
{
  size_t size = bin->block_size;
  uint64_t inverse = bin->inverse;
  bool stretch = slab_may_be_stretch(blocks, count, size);
  set_figure(&bin->outstanding, bin->outstanding - count);
  bin->idle += count;
  for (size_t i = 0, n; i < count; i += n) {
    run_t *slab = slab_of(bin, blocks[i]);
    slab->shard = (uint8_t)shard;
    n = stretch ? slab_put_stretch(slab, size, inverse, blocks, count) : 0;
    n = n ? n : put_each(bin, slab, size, inverse, blocks + i, count - i);
    stretch = false;
    slab->free_count += (uint32_t)n;
    purge_after_put(bin, slab);
    slab_after_put(bin, slab);
  }
}

/* ---- all slabs ---- */

static void close_unused_in(bin_t *bin, unsigned list, size_t least)
{
  for (run_t *slab = bin->slabs[list], *next; slab; slab = next) {
    next = slab->next;
    if (slab_is_unused(slab) && slab_touched(bin, slab) >= least)
      close_slab(bin, slab);
  }
}

/* An unused slab without fresh blocks is entirely free, so it is in SLAB_PARTIAL_4 or SLAB_SETTLED. An unused slab with fresh
 * blocks is the current one, in any list, or was reset. Reset slabs are all closed, however little of them was touched. */
void slabs_close_unused(bin_t *bin, size_t least)
{
  close_unused_in(bin, SLAB_PARTIAL_4, least);
  close_unused_in(bin, SLAB_SETTLED, least);
  while (bin->slabs[SLAB_RESET])
    close_slab(bin, bin->slabs[SLAB_RESET]);
  run_t *current = bin->current;
  if (current && slab_is_unused(current) && slab_touched(bin, current) >= least)
    close_slab(bin, current);
  if (!least)
    say_unused(bin, false);
}

/* Uncounts the idle blocks before slab_empty() clears the count. */
static void slab_reset(bin_t *bin, run_t *slab)
{
  slab_leave_list(bin, slab);
  count_out(bin, slab);
  slab_empty(slab);
  say_unused(bin, true);
  slab_enter_list(bin, slab, SLAB_RESET);
}

/* No slab is current afterwards: all are in the list SLAB_RESET, where the current one must not be (B2). */
void slabs_reset(bin_t *bin)
{
  unsigned last = bin->partial_count ? SLAB_SETTLED : SLAB_NONE_FREE;
  for (unsigned list = SLAB_NONE_FREE; list <= last; list++)
    while (bin->slabs[list])
      slab_reset(bin, bin->slabs[list]);
  bin->current = NULL;
  set_figure(&bin->outstanding, 0);
}

void slabs_close_all(bin_t *bin)
{
  for (unsigned list = SLAB_NONE_FREE; list < SLAB_LISTS; list++)
    while (bin->slabs[list])
      close_slab(bin, bin->slabs[list]);
  set_figure(&bin->outstanding, 0);
}
