/* SPDX-License-Identifier: MIT
 *
 * Kept ranges are in two stores, those that hold memory and those that only hold addresses. In each they stand on shelves by
 * size, and all of them are in the tree by address too. What is about to go leaves both before the system is asked with the
 * lock open; if the system refuses, it comes back. */
#include "space/kept.h"
#include "option.h"
#include "os/os.h"
#include "space/gate.h"
#include "space/pace.h"

enum {
  CLEAN_MOST = 64,        /* clean ranges that no tick tries to unmap */
  LOOKS_MOST = 256,       /* at ranges of a shelf for a block */
  REFUSALS_MOST = 16,     /* in a row: the system takes none of the other clean ranges either */
  RANGES_MOST = 32 << 10, /* half of the mappings that Linux allows a process */
  STEP_BYTES = 4 << 20,   /* one step of a tick unmaps so many bytes at most, */
  STEP_TRIES = 16,        /* in so many ranges */
  SPARE_STEPS = 16,       /* of a tick, for ranges that are short or refused */
  COUNT_LOG2 = 12,        /* kept bytes are counted in pages, so that a low-water mark has room for them */
  STEPS_LOG2 = 2,         /* shelves to a doubling of the size */
  SHELVES = 64 << STEPS_LOG2
};

/* Kept ranges of about one size, by age. */
typedef struct shelf {
  huge_t *newest, *oldest;
} shelf_t;

/* All that are dirty, or all that are clean. */
typedef struct store {
  shelf_t shelves[SHELVES];
  word_t filled[SHELVES / WORD_BITS]; /* a bit for each shelf with ranges */
  size_t count, bytes;
} store_t;

static store_t dirty, clean;
static low_water_t low_kept;  /* of the dirty bytes */
static uint64_t purged_total; /* bytes of memory that went back to the system */

/* What ticks began. What is given meanwhile does not count as `left`, and waits for a tick of its own. */
static struct {
  size_t keep;  /* dirty bytes that stay */
  size_t left;  /* dirty bytes that may still go */
  size_t steps; /* that are left; 0: no tick is under way */
  pace_t pace;
} pass = {.keep = SIZE_MAX};

size_t kept_bytes(void) { return __atomic_load_n(&dirty.bytes, __ATOMIC_RELAXED); }
uint64_t kept_purged_bytes(void) { return __atomic_load_n(&purged_total, __ATOMIC_RELAXED); }

/* ---- shelves, under the lock: by size, and by age where that is about the same ---- */

static unsigned kept_shelf_of(size_t size)
{
  unsigned doubling = log2_floor(size);
  return doubling << STEPS_LOG2 | (size >> (doubling - STEPS_LOG2) & ((1 << STEPS_LOG2) - 1));
}

static store_t *store_of(const huge_t *huge) { return huge->clean ? &clean : &dirty; }

static void count_kept(store_t *store, size_t ranges, size_t bytes)
{
  store->count += ranges;
  __atomic_store_n(&store->bytes, store->bytes + bytes, __ATOMIC_RELAXED);
}

/* The newest range stands first on its shelf, so the oldest is at the end, where oldest() looks. */
static void shelve_kept(huge_t *huge)
{
  static uint32_t age;
  store_t *store = store_of(huge);
  unsigned at = kept_shelf_of(huge_size(huge));
  shelf_t *shelf = &store->shelves[at];
  huge->age = age++;
  huge->older = shelf->newest;
  huge->newer = NULL;
  *(shelf->newest ? &shelf->newest->newer : &shelf->oldest) = huge;
  shelf->newest = huge;
  bits_set(store->filled, at, at + 1);
  count_kept(store, 1, huge_size(huge));
}

/* The size still says on which shelf the range is, so it changes only afterwards. */
static void unshelve_kept(huge_t *huge)
{
  store_t *store = store_of(huge);
  unsigned at = kept_shelf_of(huge_size(huge));
  shelf_t *shelf = &store->shelves[at];
  *(huge->newer ? &huge->newer->older : &shelf->newest) = huge->older;
  *(huge->older ? &huge->older->newer : &shelf->oldest) = huge->newer;
  if (!shelf->newest)
    bits_clear(store->filled, at, at + 1);
  count_kept(store, -(size_t)1, -huge_size(huge));
}

/* The oldest of each shelf is at its end, so only these are compared. Ages are compared by their difference, because the
 * counter wraps. */
static huge_t *oldest(const store_t *store)
{
  huge_t *huge = NULL;
  for (size_t at = bits_next_set(store->filled, 0, SHELVES); at < SHELVES; at = bits_next_set(store->filled, at + 1, SHELVES)) {
    huge_t *other = store->shelves[at].oldest;
    huge = !huge || (int32_t)(other->age - huge->age) < 0 ? other : huge;
  }
  return huge;
}

/* ---- what is kept, under the lock ---- */

/* Called when all parts of a range are back on their shelves. A range leaves whole to be cut or joined, and only what is
 * missing in the end was needed. */
static void note_low(void) { low_water_note(&low_kept, dirty.bytes >> COUNT_LOG2); }

static void kept_leave(huge_t *huge)
{
  unshelve_kept(huge);
  range_remove(&huge_ranges, &huge->range);
}

/* Returns the kept range that ends or begins at `border`, if it is as clean. A live one is in the same tree, but has an
 * owner. */
static huge_t *neighbour(range_t *range, uintptr_t border, bool is_clean)
{
  huge_t *huge = range_touches(range, border) ? huge_of(range) : NULL;
  return huge && !huge->owner && huge->clean == is_clean ? huge : NULL;
}

/* The neighbour's addresses become the range's own. */
static void absorb_kept(huge_t *huge, huge_t *other)
{
  if (!other)
    return;
  kept_leave(other);
  huge->range.start = min_size(huge->range.start, other->range.start);
  huge->range.size += other->range.size;
  huge_record_give(other);
}

void kept_enter(huge_t *huge)
{
  uintptr_t start = huge->range.start, end = start + huge->range.size;
  huge->owner = NULL;
  absorb_kept(huge, neighbour(range_at_or_below(huge_ranges, start - 1), start, huge->clean));
  absorb_kept(huge, neighbour(range_at_or_above(huge_ranges, end), end, huge->clean));
  range_insert(&huge_ranges, &huge->range);
  shelve_kept(huge);
}

bool kept_any(void) { return dirty.count || clean.count; }

bool kept_is_all(void) { return settings.purge_delay_ms == PURGE_NEVER; }

/* Clean ranges cost addresses alone, so only their number is bounded. That of dirty ranges is not: a pool of buffers that frees
 * half of them at random leaves a range for each, and each was a mapping before. */
static bool is_over(const store_t *store, size_t keep)
{
  return store == &clean ? store->count > CLEAN_MOST : store->bytes > keep;
}

bool kept_give(huge_t *huge)
{
  bool keep = settings.purge_delay_ms != 0;
  if (keep)
    kept_enter(huge);
  return keep;
}

/* ---- unmapping: inside the gate, without the lock; the range is in no list ---- */

/* To the system neighbours are one mapping, and unmapping a range from between two others makes two of it. A process may have
 * only so many; at the limit nothing can be mapped, neither an arena nor the stack of a thread. Each mapping that was split off
 * holds a range, so the number of ranges is what is bounded. */
static bool may_unmap(const huge_t *huge)
{
  uintptr_t start = huge->range.start, end = start + huge->range.size;
  lock_acquire(&huge_lock);
  bool few = huge_live.count + dirty.count + clean.count <= RANGES_MOST;
  bool may = few || !range_touches(range_at_or_below(huge_ranges, start - 1), start) ||
             !range_touches(range_at_or_above(huge_ranges, end), end);
  lock_release(&huge_lock);
  return may;
}

/* The memory of a long range goes back in steps first, between which others get their turn. A mapping without pages is then
 * unmapped in no time. A range that stays gives back its memory at least. */
static bool unmap_range(huge_t *huge)
{
  if (!huge->clean && huge_size(huge) > OS_PURGE_STEP)
    huge->clean = os_purge_in_steps(huge_start(huge), huge_size(huge));
  if (may_unmap(huge) && os_unmap(huge_start(huge), huge_size(huge)))
    return true;
  huge->clean = huge->clean || os_purge(huge_start(huge), huge_size(huge));
  return false;
}

void kept_count_purged(size_t bytes) { __atomic_fetch_add(&purged_total, bytes, __ATOMIC_RELAXED); }

/* A range that cannot be unmapped is kept after all, or its addresses would be lost. */
bool kept_unmap(huge_t *huge, size_t *purged)
{
  bool was_clean = huge->clean, gone = unmap_range(huge), some = gone || huge->clean != was_clean;
  *purged = !was_clean && some ? huge_size(huge) : 0;
  kept_count_purged(*purged);
  lock_acquire(&huge_lock);
  if (gone)
    huge_record_give(huge);
  else
    kept_enter(huge);
  lock_release(&huge_lock);
  return some;
}

/* Takes the oldest range out of its store, if dirty bytes are over `keep`; only the high end of it, if less is over. NULL:
 * nothing is to go. Clean ranges go if they are too many, or if nothing is to be kept. */
static huge_t *take_next_over(store_t *store, size_t keep)
{
  lock_acquire(&huge_lock);
  huge_t *huge = is_over(store, keep) || !keep ? oldest(store) : NULL;
  if (huge) {
    /* Of a dirty range only what is over goes, from its high end: the low end is what the next block takes. */
    size_t beyond = store == &dirty && store->bytes > keep ? round_up(store->bytes - keep, os_page_size()) : huge_size(huge);
    kept_leave(huge);
    huge_t *rest = beyond < huge_size(huge) ? huge_cut(huge, huge_size(huge) - beyond) : NULL;
    if (rest) {
      kept_enter(huge);
      huge = rest;
    }
    if (store == &dirty)
      low_water_lessen(&low_kept, huge_size(huge) >> COUNT_LOG2);
  }
  lock_release(&huge_lock);
  return huge;
}

/* Tries each range once: one that cannot be unmapped comes back as the newest. A clean range that is refused has cost a call
 * for nothing, so after several in a row the rest is not tried. */
static size_t trim_store(store_t *store, size_t keep, size_t most_tries)
{
  size_t all = 0, purged;
  unsigned refusals = 0, most_refusals = store == &clean ? REFUSALS_MOST : UINT32_MAX;
  lock_acquire(&huge_lock);
  size_t tries = min_size(store->count + 1, most_tries);
  lock_release(&huge_lock);
  for (huge_t *huge; tries && refusals < most_refusals && (huge = take_next_over(store, keep)) != NULL; tries--) {
    refusals = kept_unmap(huge, &purged) ? 0 : refusals + 1;
    all += purged;
  }
  return all;
}

size_t kept_trim_beyond(size_t keep, size_t most_tries)
{
  size_t purged = trim_store(&dirty, keep, most_tries);
  return purged + trim_store(&clean, keep, most_tries);
}

static size_t trim_in_gate(size_t keep, size_t most_tries)
{
  lock_t *gate = gate_enter(GATE_SYSTEM);
  size_t purged = kept_trim_beyond(keep, most_tries);
  gate_leave(gate);
  return purged;
}

size_t kept_trim(size_t keep) { return trim_in_gate(keep, SIZE_MAX); }

/* Atomic, because kept_tick_is_under_way() reads it without the lock. */
static void set_steps(size_t steps) { __atomic_store_n(&pass.steps, steps, __ATOMIC_RELAXED); }
bool kept_tick_is_under_way(void) { return __atomic_load_n(&pass.steps, __ATOMIC_RELAXED) != 0; }

static size_t bytes_over(void) { return min_size(dirty.bytes - min_size(dirty.bytes, pass.keep), pass.left); }
static bool anything_over(void) { return bytes_over() || is_over(&clean, 0) || (!pass.keep && clean.count); }

/* The last tick's pass may be under way still, and goes at least as far as it was to go. */
void kept_tick(size_t epochs)
{
  lock_acquire(&huge_lock);
  if (!pass.steps) {
    pass.keep = SIZE_MAX;
    pass.left = 0;
    pass.pace = 0;
  }
  size_t unneeded = low_water_tick(&low_kept, dirty.bytes >> COUNT_LOG2, epochs) << COUNT_LOG2;
  pass.keep = min_size(pass.keep, dirty.bytes - unneeded);
  pass.left = max_size(pass.left, unneeded);
  set_steps(anything_over() ? bytes_over() / STEP_BYTES + SPARE_STEPS : 0);
  lock_release(&huge_lock);
}

/* Another caller may do the next step meanwhile. What the system refuses stays `left`, and another range is tried. */
void kept_step(uint64_t now_ms)
{
  lock_acquire(&huge_lock);
  size_t steps = anything_over() ? min_size(pace_steps(&pass.pace, now_ms), pass.steps) : 0;
  size_t keep = dirty.bytes - min_size(bytes_over(), steps * STEP_BYTES);
  set_steps(steps ? pass.steps - steps : 0);
  lock_release(&huge_lock);
  if (!steps)
    return;
  size_t purged = trim_in_gate(keep, steps * STEP_TRIES);
  lock_acquire(&huge_lock);
  pass.left -= min_size(pass.left, purged);
  lock_release(&huge_lock);
}

/* ---- taking what is kept, under the lock ---- */

/* The block begins at the first aligned address of the range. */
static bool fits(const huge_t *huge, size_t size, size_t alignment)
{
  size_t has = huge_size(huge), gap = -huge->range.start & (alignment - 1);
  return gap < has && has - gap >= size;
}

/* The shortest range of a shelf that has room for the block and is shorter than `best`. */
static huge_t *shortest(const shelf_t *shelf, size_t size, size_t alignment, huge_t *best)
{
  size_t looks = LOOKS_MOST;
  for (huge_t *huge = shelf->newest; huge && looks-- && !(best && huge_size(best) == size); huge = huge->older)
    if (fits(huge, size, alignment) && (!best || huge_size(huge) < huge_size(best)))
      best = huge;
  return best;
}

/* The longest range of a shelf that is shorter than the block, has at least half of it and is longer than `best`. */
static huge_t *longest(const shelf_t *shelf, size_t size, huge_t *best)
{
  size_t looks = LOOKS_MOST;
  for (huge_t *huge = shelf->newest; huge && looks--; huge = huge->older) {
    size_t has = huge_size(huge);
    if (has < size && has >= size / 2 && (!best || has > huge_size(best)))
      best = huge;
  }
  return best;
}

static size_t next_filled(size_t from)
{
  return min_size(bits_next_set(dirty.filled, from, SHELVES), bits_next_set(clean.filled, from, SHELVES));
}

/* Returns the shortest kept range that has room for the block; without one, the longest that can grow to it and has at least
 * half of it. A range may move when it grows, so it cannot serve a strict alignment. */
static huge_t *choose_kept(size_t size, size_t alignment)
{
  huge_t *best = NULL;
  unsigned first = kept_shelf_of(size), half = kept_shelf_of(max_size(size / 2, os_page_size()));
  for (size_t at = next_filled(first); at < SHELVES && !best; at = next_filled(at + 1))
    best = shortest(&clean.shelves[at], size, alignment, shortest(&dirty.shelves[at], size, alignment, NULL));
  for (size_t at = first + 1; at-- > half && !best && alignment <= os_page_size();)
    best = longest(&clean.shelves[at], size, longest(&dirty.shelves[at], size, NULL));
  return best;
}

/* Cuts the block out of a kept range that has left its shelf; the rest is kept. NULL: there is no memory for a record, and all
 * of it is kept. */
static huge_t *carve(huge_t *huge, size_t size, size_t alignment)
{
  size_t gap = -huge->range.start & (alignment - 1);
  if (gap) {
    huge_t *block = huge_cut(huge, gap);
    kept_enter(huge);
    huge = block;
  }
  if (huge && huge_size(huge) > size) {
    huge_t *rest = huge_cut(huge, size);
    kept_enter(rest ? rest : huge);
    huge = rest ? huge : NULL;
  }
  return huge;
}

huge_t *kept_take(size_t size, size_t alignment)
{
  huge_t *huge = choose_kept(size, alignment);
  if (!huge)
    return NULL;
  kept_leave(huge);
  if (huge_size(huge) >= size)
    huge = carve(huge, size, alignment);
  note_low();
  return huge;
}

/* Without memory for another record the range goes along whole, which is more than was asked for, but never less. */
huge_t *kept_take_behind(const huge_t *huge, size_t more)
{
  uintptr_t end = huge->range.start + huge->range.size;
  range_t *range = range_at_or_above(huge_ranges, end);
  huge_t *behind = range && range->start == end && range->size >= more && !huge_of(range)->owner ? huge_of(range) : NULL;
  if (!behind)
    return NULL;
  kept_leave(behind);
  huge_t *rest = huge_size(behind) > more ? huge_cut(behind, more) : NULL;
  if (rest)
    kept_enter(rest);
  note_low();
  return behind;
}
