/* SPDX-License-Identifier: MIT */
#include "huge.h"
#include "gate.h"
#include "metadata.h"
#include "option.h"
#include "os/os.h"
#include <stddef.h>
#include <string.h>

enum {
  KEPT_MOST = 64,                /* ranges */
  LOOKS_MOST = 4 * KEPT_MOST,    /* at ranges for a block, and for what can go in a tick, should the system refuse to take them */
  BREATH_BYTES = 32 << 20,
  LITTLE_BYTES = 1 << 20
};

lock_t huge_lock;
static range_t *blocks;          /* live and kept */
static huge_t *newest, *oldest;  /* kept */
static huge_t *unused;
static size_t kept_count, kept_bytes, live_bytes;
static size_t freed_lately, taken_again;   /* bytes; the latter are those of the former that were asked for again */
static size_t low_kept;          /* the fewest kept bytes since the last tick of a whole purge delay */
static bool unmap_refused;       /* since the last tick: the system, at its limit of mappings, would not take a range */

size_t huge_bytes(size_t size) { return round_up(size + !size, os_page_size()); }
size_t huge_kept_bytes(void) { return __atomic_load_n(&kept_bytes, __ATOMIC_RELAXED); }

static huge_t *huge_of(range_t *range) { return (huge_t *)range; }
_Static_assert(offsetof(huge_t, range) == 0, "a range is its huge block");

/* ---- records, under the lock ---- */

static huge_t *record_take(void)
{
  huge_t *huge = unused;
  if (!huge)
    return metadata_take(sizeof *huge, METADATA_ALIGNMENT);
  unused = huge->older;
  return huge;
}

static void record_give(huge_t *huge)
{
  huge->older = unused;
  unused = huge;
}

static void count_kept(const huge_t *huge, bool more)
{
  size_t bytes = huge->clean ? 0 : huge_size(huge);
  kept_count += more ? 1 : -(size_t)1;
  __atomic_store_n(&kept_bytes, kept_bytes + (more ? bytes : -bytes), __ATOMIC_RELAXED);
}

/* A range leaves the list whole to be cut or to be joined with another: only what is left in the end was not needed. */
static void note_low(void) { low_kept = min_size(low_kept, kept_bytes); }

static void kept_leave(huge_t *huge)
{
  *(huge->newer ? &huge->newer->older : &newest) = huge->older;
  *(huge->older ? &huge->older->newer : &oldest) = huge->newer;
  range_remove(&blocks, &huge->range);
  count_kept(huge, false);
}

/* The kept range that ends or begins at an address and is as clean. */
static huge_t *neighbour(range_t *range, uintptr_t border, bool clean)
{
  huge_t *huge = range ? huge_of(range) : NULL;
  bool touches = huge && (range->start == border || range->start + range->size == border);
  return touches && !huge->owner && huge->clean == clean ? huge : NULL;
}

/* The neighbour's addresses become the range's own. */
static void absorb(huge_t *huge, huge_t *other)
{
  if (!other)
    return;
  kept_leave(other);
  huge->range.start = min_size(huge->range.start, other->range.start);
  huge->range.size += other->range.size;
  record_give(other);
}

static void kept_enter(huge_t *huge)
{
  uintptr_t start = huge->range.start, end = start + huge->range.size;
  huge->owner = NULL;
  absorb(huge, neighbour(range_at_or_below(blocks, start - 1), start, huge->clean));
  absorb(huge, neighbour(range_at_or_above(blocks, end), end, huge->clean));
  huge->older = newest;
  huge->newer = NULL;
  *(newest ? &newest->newer : &oldest) = huge;
  newest = huge;
  range_insert(&blocks, &huge->range);
  count_kept(huge, true);
}

static void live_enter(huge_t *huge)
{
  range_insert(&blocks, &huge->range);
  live_bytes += huge_size(huge);
}

static void live_leave(huge_t *huge)
{
  range_remove(&blocks, &huge->range);
  live_bytes -= huge_size(huge);
}

/* ---- unmapping: inside the gate, without the lock; the mapping is in no list ---- */

static bool unmap(huge_t *huge)
{
  if (os_unmap(huge_start(huge), huge_size(huge)))
    return true;
  huge->clean = huge->clean || os_purge(huge_start(huge), huge_size(huge));
  return false;
}

/* Takes the record's place: either it is unused, or the mapping is kept after all. Returns the bytes the system took. */
static size_t dispose(huge_t *huge)
{
  bool was_clean = huge->clean, gone = unmap(huge);
  size_t taken = !was_clean && (gone || huge->clean) ? huge_size(huge) : 0;
  lock_acquire(&huge_lock);
  if (gone) {
    record_give(huge);
  } else {
    unmap_refused = true;
    kept_enter(huge);
  }
  lock_release(&huge_lock);
  return taken;
}

static size_t most_kept(void)
{
  if (settings.purge_delay_ms == PURGE_NEVER)
    return SIZE_MAX;
  return settings.purge_delay_ms ? min_size(taken_again, max_size(live_bytes, BREATH_BYTES)) : 0;
}

/* Cuts the range behind `size` bytes; the rest is a range of its own. NULL: no memory for another record, and nothing is done. */
static huge_t *cut(huge_t *huge, size_t size)
{
  huge_t *rest = record_take();
  if (!rest)
    return NULL;
  *rest = (huge_t){.range = {.start = huge->range.start + size, .size = huge->range.size - size}, .clean = huge->clean};
  huge->range.size = size;
  return rest;
}

/* The oldest beyond `keep` bytes and KEPT_MOST ranges, or its high end, out of the list; at most `tries` are left to try. NULL: none.
 * Clean ranges cost addresses alone: they go where there are too many, or nothing is to be kept. */
static huge_t *next_to_dispose(size_t keep, size_t *tries)
{
  lock_acquire(&huge_lock);
  bool clean_too = !keep || kept_count > KEPT_MOST;
  huge_t *huge = *tries && (clean_too || kept_bytes > keep) ? oldest : NULL;
  while (huge && huge->clean && !clean_too)
    huge = huge->newer;
  if (huge) {
    size_t beyond = kept_bytes > keep && !huge->clean ? round_up(kept_bytes - keep, os_page_size()) : huge_size(huge);
    kept_leave(huge);
    huge_t *rest = beyond < huge_size(huge) ? cut(huge, huge_size(huge) - beyond) : NULL;
    if (rest) {
      kept_enter(huge);
      huge = rest;
    }
    note_low();
  }
  lock_release(&huge_lock);
  *tries -= huge != NULL;
  return huge;
}

/* Each range once: one that cannot be unmapped comes back as the newest. */
static size_t dispose_beyond(size_t keep, size_t most_tries)
{
  size_t taken = 0;
  lock_acquire(&huge_lock);
  size_t tries = min_size(kept_count + 1, most_tries);
  lock_release(&huge_lock);
  for (huge_t *huge; (huge = next_to_dispose(keep, &tries)) != NULL;)
    taken += dispose(huge);
  return taken;
}

static size_t release(size_t keep, size_t most_tries)
{
  lock_t *gate = gate_enter();
  size_t taken = dispose_beyond(keep, most_tries);
  gate_leave(gate);
  return taken;
}

size_t huge_release(size_t keep) { return release(keep, SIZE_MAX); }

/* Half of what nobody needed for a whole purge delay, or all of it where that is little. */
static size_t unneeded(void)
{
  size_t low = min_size(low_kept, kept_bytes);
  return low > LITTLE_BYTES ? low / 2 : low;
}

void huge_tick(void)
{
  static unsigned ticks;   /* under the lock */
  size_t keep = SIZE_MAX;
  lock_acquire(&huge_lock);
  unmap_refused = false;
  if (++ticks % TICKS_PER_DELAY == 0) {
    freed_lately /= 2;
    taken_again /= 2;
    low_kept = keep = kept_bytes - unneeded();
  }
  bool none = !kept_count;
  lock_release(&huge_lock);
  if (!none)
    release(keep, LOOKS_MOST);
}

/* ---- giving ---- */

void huge_give(huge_t *huge)
{
  lock_t *gate = gate_enter();
  lock_acquire(&huge_lock);
  size_t size = huge_size(huge);
  live_leave(huge);
  huge->clean = huge->is_region = false;
  freed_lately += size;
  size_t most = most_kept();
  bool keep = size <= most;
  if (keep)
    kept_enter(huge);
  bool over = !unmap_refused && (kept_bytes > most || kept_count > KEPT_MOST);
  lock_release(&huge_lock);
  if (!keep)
    dispose(huge);
  if (over)
    dispose_beyond(most, LOOKS_MOST);
  gate_leave(gate);
}

/* ---- taking ---- */

/* The shortest kept range that has room for the block; without one, the longest that can grow to it and has at least half of it. */
static huge_t *choose_kept(size_t size, size_t alignment)
{
  huge_t *best = NULL;
  size_t looks = LOOKS_MOST;
  for (huge_t *huge = newest; huge && looks--; huge = huge->older) {
    size_t has = huge_size(huge), front = -huge->range.start & (alignment - 1);
    bool fits = front < has && has - front >= size;
    if (!fits && (front || has < size / 2 || has > size))
      continue;
    if (!best || (fits ? huge_size(best) < size || has < huge_size(best) : huge_size(best) < has))
      best = huge;
  }
  return best;
}

/* The block's part of a kept range that has left the list; the rest stays. NULL: no memory for a record. */
static huge_t *carve(huge_t *huge, size_t size, size_t alignment)
{
  size_t front = -huge->range.start & (alignment - 1);
  if (front) {
    huge_t *block = cut(huge, front);
    kept_enter(huge);
    huge = block;
  }
  if (huge && huge_size(huge) > size) {
    huge_t *rest = cut(huge, size);
    kept_enter(rest ? rest : huge);
    huge = rest ? huge : NULL;
  }
  return huge;
}

static bool grow(huge_t *huge, size_t size)
{
  void *start = os_remap(huge_start(huge), huge_size(huge), size, true);
  if (!start)
    return false;
  huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return true;
}

static huge_t *take_kept(size_t size, size_t alignment)
{
  lock_acquire(&huge_lock);
  size_t again = min_size(size, freed_lately);
  freed_lately -= again;
  taken_again += again;
  huge_t *huge = choose_kept(size, alignment);
  if (huge) {
    kept_leave(huge);
    if (huge_size(huge) >= size)
      huge = carve(huge, size, alignment);
    note_low();
  }
  lock_release(&huge_lock);
  if (!huge || huge_size(huge) == size || (alignment <= os_page_size() && grow(huge, size)))
    return huge;
  lock_acquire(&huge_lock);
  kept_enter(huge);
  lock_release(&huge_lock);
  return NULL;
}

static bool map_new(huge_t *huge, size_t size, size_t alignment)
{
  void *start = os_map(size, alignment);
  huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return start != NULL;
}

static huge_t *take_new(size_t size, size_t alignment)
{
  lock_acquire(&huge_lock);
  huge_t *huge = record_take();
  lock_release(&huge_lock);
  if (!huge)
    return NULL;
  if (map_new(huge, size, alignment))
    return huge;
  dispose_beyond(0, SIZE_MAX);   /* memory, or addresses that are clean */
  if (map_new(huge, size, alignment))
    return huge;
  lock_acquire(&huge_lock);
  record_give(huge);
  lock_release(&huge_lock);
  return NULL;
}

huge_t *huge_take(size_t size, size_t alignment, void *owner, bool is_region, bool *zeroed)
{
  size = huge_bytes(size);
  alignment = max_size(alignment, os_page_size());
  lock_t *gate = gate_enter();
  huge_t *huge = take_kept(size, alignment);
  *zeroed = !huge || huge->clean;
  if (!huge)
    huge = take_new(size, alignment);
  if (huge) {
    huge->owner = owner;
    huge->is_region = is_region;
    huge->hidden = is_region;
    lock_acquire(&huge_lock);
    live_enter(huge);
    lock_release(&huge_lock);
  }
  gate_leave(gate);
  if (huge && settings.huge_pages != HUGE_PAGES_NEVER)
    os_wish_huge_pages(huge_start(huge), size, true);
  return huge;
}

/* ---- changing the size ---- */

/* A block that was put together from several mappings cannot move as a whole. In its new place it can. */
static bool move_by_copy(huge_t *huge, size_t size)
{
  huge_t moved = {0};
  lock_acquire(&huge_lock);
  huge_t *old = record_take();
  lock_release(&huge_lock);
  if (!old)
    return false;
  bool done = map_new(&moved, size, os_page_size());
  if (done) {
    memcpy(huge_start(&moved), huge_start(huge), huge_size(huge));
    *old = (huge_t){.range = huge->range};
    huge->range = moved.range;
    dispose(old);
  } else {
    lock_acquire(&huge_lock);
    record_give(old);
    lock_release(&huge_lock);
  }
  return done;
}

static bool move(huge_t *huge, size_t size, bool may_move)
{
  void *start = os_remap(huge_start(huge), huge_size(huge), size, may_move);
  if (!start)
    return may_move && size > huge_size(huge) && move_by_copy(huge, size);
  huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return true;
}

/* What is kept may be all that is in the way of a larger block. The block is in no tree: whoever maps something meanwhile may get the
 * addresses that it leaves. */
static bool resize(huge_t *huge, size_t size, bool may_move)
{
  if (move(huge, size, may_move))
    return true;
  lock_acquire(&huge_lock);
  bool any = kept_count != 0;
  lock_release(&huge_lock);
  if (!any || size < huge_size(huge))
    return false;
  dispose_beyond(0, SIZE_MAX);
  return move(huge, size, may_move);
}

bool huge_resize(huge_t *huge, size_t size, bool may_move)
{
  size = huge_bytes(size);
  size_t had = huge_size(huge);
  if (size == had)
    return true;
  lock_t *gate = gate_enter();
  lock_acquire(&huge_lock);
  live_leave(huge);
  lock_release(&huge_lock);
  bool done = resize(huge, size, may_move);
  lock_acquire(&huge_lock);
  live_enter(huge);
  lock_release(&huge_lock);
  gate_leave(gate);
  if (!done && size < had)
    os_purge(huge_start(huge) + size, had - size);
  return done || size < had;
}

/* ---- questions ---- */

void huge_hide(huge_t *huge, bool hide)
{
  lock_acquire(&huge_lock);
  huge->hidden = hide;
  lock_release(&huge_lock);
}

static huge_t *find(const void *address)
{
  range_t *range = range_at_or_below(blocks, (uintptr_t)address);
  return range && (uintptr_t)address - range->start < range->size ? huge_of(range) : NULL;
}

bool huge_ask(const void *address, huge_ask_fn *ask, void *context)
{
  lock_acquire(&huge_lock);
  huge_t *huge = find(address);
  bool live = huge && huge->owner && !huge->hidden;
  if (live)
    ask(huge, context);
  lock_release(&huge_lock);
  return live;
}

huge_t *huge_next(const void *owner, const void *from)
{
  lock_acquire(&huge_lock);
  range_t *range = range_at_or_above(blocks, (uintptr_t)from);
  while (range && (huge_of(range)->owner != owner || huge_of(range)->is_region))
    range = range_at_or_above(blocks, range->start + 1);
  lock_release(&huge_lock);
  return range ? huge_of(range) : NULL;
}
