/* SPDX-License-Identifier: MIT */
#include "space/huge.h"
#include "space/gate.h"
#include "space/metadata.h"
#include "option.h"
#include "os/os.h"
#include <stddef.h>
#include <string.h>

enum {
  KEPT_MOST = 64,                /* dirty ranges, and clean ones */
  LOOKS_MOST = 4 * KEPT_MOST,    /* at ranges of a shelf for a block, and for what can go in a tick */
  REFUSALS_MOST = 16,            /* in a row: the system takes none of the other clean ranges either */
  RANGES_MOST = 32 << 10,        /* half of the mappings that Linux allows a process */
  RETAINED_LEAST_BYTES = 32 << 20,
  LITTLE_BYTES = 1 << 20,
  STEPS_LOG2 = 2,                /* shelves to a doubling of the size */
  SHELVES = 64 << STEPS_LOG2
};

/* Kept ranges of about one size, by age. */
typedef struct shelf { huge_t *newest, *oldest; } shelf_t;

/* All that are dirty, or all that are clean. */
typedef struct store {
  shelf_t  shelves[SHELVES];
  uint64_t filled[SHELVES / WORD_BITS];   /* a bit for each shelf with ranges */
  size_t   count, bytes;
  bool     stuck;   /* since the last tick: the system took neither the addresses nor the memory of one of them */
} store_t;

lock_t huge_lock;
static range_t *blocks;          /* live and kept */
static store_t dirty, clean;     /* kept */
static huge_t *unused;
static size_t live_count, live_bytes;
static size_t freed_lately, taken_again;   /* bytes; the latter are those of the former that were asked for again */
static size_t low_kept;          /* the fewest kept bytes since the last tick of a whole purge delay */
static uint64_t given_bytes;     /* to the system, in total */

size_t huge_bytes(size_t size) { return round_up(size + !size, os_page_size()); }
size_t huge_kept_bytes(void) { return __atomic_load_n(&dirty.bytes, __ATOMIC_RELAXED); }
uint64_t huge_given_bytes(void) { return __atomic_load_n(&given_bytes, __ATOMIC_RELAXED); }

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

/* ---- what is kept, under the lock: by size, and by age where that is about the same ---- */

static unsigned shelf_of(size_t size)
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

static void shelve(huge_t *huge)
{
  static uint32_t age;
  store_t *store = store_of(huge);
  unsigned at = shelf_of(huge_size(huge));
  shelf_t *shelf = &store->shelves[at];
  huge->age = age++;
  huge->older = shelf->newest;
  huge->newer = NULL;
  *(shelf->newest ? &shelf->newest->newer : &shelf->oldest) = huge;
  shelf->newest = huge;
  bits_set(store->filled, at, at + 1);
  count_kept(store, 1, huge_size(huge));
}

static void unshelve(huge_t *huge)
{
  store_t *store = store_of(huge);
  unsigned at = shelf_of(huge_size(huge));
  shelf_t *shelf = &store->shelves[at];
  *(huge->newer ? &huge->newer->older : &shelf->newest) = huge->older;
  *(huge->older ? &huge->older->newer : &shelf->oldest) = huge->newer;
  if (!shelf->newest)
    bits_clear(store->filled, at, at + 1);
  count_kept(store, -(size_t)1, -huge_size(huge));
}

static huge_t *oldest(const store_t *store)
{
  huge_t *huge = NULL;
  for (size_t at = bits_next_set(store->filled, 0, SHELVES); at < SHELVES; at = bits_next_set(store->filled, at + 1, SHELVES)) {
    huge_t *other = store->shelves[at].oldest;
    huge = !huge || (int32_t)(other->age - huge->age) < 0 ? other : huge;
  }
  return huge;
}

/* A range leaves its shelf whole to be cut or to be joined with another: only what is left in the end was not needed. */
static void note_low(void) { low_kept = min_size(low_kept, dirty.bytes); }

static void kept_leave(huge_t *huge)
{
  unshelve(huge);
  range_remove(&blocks, &huge->range);
}

static bool touches(const range_t *range, uintptr_t border)
{
  return range && (range->start == border || range->start + range->size == border);
}

/* The kept range that ends or begins at an address and is as clean. */
static huge_t *neighbour(range_t *range, uintptr_t border, bool is_clean)
{
  huge_t *huge = touches(range, border) ? huge_of(range) : NULL;
  return huge && !huge->owner && huge->clean == is_clean ? huge : NULL;
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
  range_insert(&blocks, &huge->range);
  shelve(huge);
}

static void live_enter(huge_t *huge)
{
  range_insert(&blocks, &huge->range);
  live_count++;
  live_bytes += huge_size(huge);
}

static void live_leave(huge_t *huge)
{
  range_remove(&blocks, &huge->range);
  live_count--;
  live_bytes -= huge_size(huge);
}

/* ---- unmapping: inside the gate, without the lock; the mapping is in no list ---- */

/* Neighbours are one mapping to the system, and what goes from between them makes two of it. A process may have so many; at the limit
 * nobody can map anything, the first arena and a thread's stack included. Each mapping that was split off holds a range, so it is
 * their number that is bounded. */
static bool may_unmap(const huge_t *huge)
{
  uintptr_t start = huge->range.start, end = start + huge->range.size;
  lock_acquire(&huge_lock);
  bool few = live_count + dirty.count + clean.count <= RANGES_MOST;
  bool may = few || !touches(range_at_or_below(blocks, start - 1), start) || !touches(range_at_or_above(blocks, end), end);
  lock_release(&huge_lock);
  return may;
}

/* Without its pages a mapping goes in no time, however long it is. */
static bool unmap(huge_t *huge)
{
  if (!huge->clean && huge_size(huge) > OS_PURGE_STEP)
    huge->clean = os_purge_in_steps(huge_start(huge), huge_size(huge));
  if (may_unmap(huge) && os_unmap(huge_start(huge), huge_size(huge)))
    return true;
  huge->clean = huge->clean || os_purge(huge_start(huge), huge_size(huge));
  return false;
}

static void count_given(size_t bytes) { __atomic_fetch_add(&given_bytes, bytes, __ATOMIC_RELAXED); }

/* Takes the record's place: either it is unused, or the mapping is kept after all. *taken: the bytes the system took. False: it took
 * nothing at all. */
static bool dispose(huge_t *huge, size_t *taken)
{
  bool was_clean = huge->clean, gone = unmap(huge), some = gone || huge->clean != was_clean;
  *taken = !was_clean && some ? huge_size(huge) : 0;
  count_given(*taken);
  lock_acquire(&huge_lock);
  if (gone) {
    record_give(huge);
  } else {
    store_of(huge)->stuck = true;
    kept_enter(huge);
  }
  lock_release(&huge_lock);
  return some;
}

static bool keeps_all(void) { return settings.purge_delay_ms == PURGE_NEVER; }

static size_t most_kept(void)
{
  if (keeps_all())
    return SIZE_MAX;
  return settings.purge_delay_ms ? min_size(taken_again, max_size(live_bytes, RETAINED_LEAST_BYTES)) : 0;
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

static bool is_over(const store_t *store, size_t keep)
{
  if (store == &clean)
    return store->count > KEPT_MOST;
  return store->bytes > keep || (store->count > KEPT_MOST && !keeps_all());
}

/* The oldest beyond `keep` bytes and KEPT_MOST ranges, or its high end, out of its store. NULL: none. Clean ranges cost addresses
 * alone: they go where there are too many, or nothing is to be kept. */
static huge_t *next_to_dispose(const store_t *store, size_t keep)
{
  lock_acquire(&huge_lock);
  huge_t *huge = is_over(store, keep) || !keep ? oldest(store) : NULL;
  if (huge) {
    size_t beyond = store == &dirty && store->bytes > keep ? round_up(store->bytes - keep, os_page_size()) : huge_size(huge);
    kept_leave(huge);
    huge_t *rest = beyond < huge_size(huge) ? cut(huge, huge_size(huge) - beyond) : NULL;
    if (rest) {
      kept_enter(huge);
      huge = rest;
    }
    note_low();
  }
  lock_release(&huge_lock);
  return huge;
}

/* Each range once: one that cannot be unmapped comes back as the newest. A clean one that stays cost a call for nothing. */
static size_t dispose_from(const store_t *store, size_t keep, size_t most_tries)
{
  size_t all = 0, taken;
  unsigned refusals = 0, most_refusals = store == &clean ? REFUSALS_MOST : UINT32_MAX;
  lock_acquire(&huge_lock);
  size_t tries = min_size(store->count + 1, most_tries);
  lock_release(&huge_lock);
  for (huge_t *huge; tries && refusals < most_refusals && (huge = next_to_dispose(store, keep)) != NULL; tries--) {
    refusals = dispose(huge, &taken) ? 0 : refusals + 1;
    all += taken;
  }
  return all;
}

static size_t dispose_beyond(size_t keep, size_t most_tries)
{
  size_t taken = dispose_from(&dirty, keep, most_tries);
  return taken + dispose_from(&clean, keep, most_tries);
}

static size_t release(size_t keep, size_t most_tries)
{
  lock_t *gate = gate_enter(GATE_SYSTEM);
  size_t taken = dispose_beyond(keep, most_tries);
  gate_leave(gate);
  return taken;
}

size_t huge_release(size_t keep) { return release(keep, SIZE_MAX); }

/* Half of what nobody needed for a whole purge delay, or all of it where that is little. */
static size_t unneeded(void)
{
  size_t low = min_size(low_kept, dirty.bytes);
  return low > LITTLE_BYTES ? low / 2 : low;
}

void huge_tick(void)
{
  static unsigned ticks;   /* under the lock */
  size_t keep = SIZE_MAX;
  lock_acquire(&huge_lock);
  dirty.stuck = clean.stuck = false;
  if (++ticks % TICKS_PER_DELAY == 0) {
    freed_lately /= 2;
    taken_again /= 2;
    low_kept = keep = dirty.bytes - unneeded();
  }
  bool none = !dirty.count && !clean.count;
  lock_release(&huge_lock);
  if (!none)
    release(keep, LOOKS_MOST);
}

/* ---- the lists of owners ---- */

static void list_enter(huge_t *huge, huge_t **list)
{
  huge->older = list ? *list : NULL;
  huge->link = list;
  if (huge->older)
    huge->older->link = &huge->older;
  if (list)
    *list = huge;
}

static void list_leave(huge_t *huge)
{
  if (huge->link)
    *huge->link = huge->older;
  if (huge->older)
    huge->older->link = huge->link;
}

/* ---- giving ---- */

void huge_give(huge_t *huge)
{
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  size_t size = huge_size(huge), taken;
  live_leave(huge);
  list_leave(huge);
  huge->clean = huge->is_region = false;
  freed_lately += size;
  size_t most = most_kept();
  bool keep = size <= most;
  if (keep)
    kept_enter(huge);
  bool dirty_over = !dirty.stuck && is_over(&dirty, most), clean_over = !clean.stuck && is_over(&clean, most);
  lock_release(&huge_lock);
  if (!keep)
    dispose(huge, &taken);
  if (dirty_over)
    dispose_from(&dirty, most, LOOKS_MOST);
  if (clean_over)
    dispose_from(&clean, most, LOOKS_MOST);
  gate_leave(gate);
}

/* ---- taking ---- */

static bool fits(const huge_t *huge, size_t size, size_t alignment)
{
  size_t has = huge_size(huge), front = -huge->range.start & (alignment - 1);
  return front < has && has - front >= size;
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

/* The shortest kept range that has room for the block; without one, the longest that can grow to it and has at least half of it. */
static huge_t *choose_kept(size_t size, size_t alignment)
{
  huge_t *best = NULL;
  unsigned first = shelf_of(size), half = shelf_of(max_size(size / 2, os_page_size()));
  for (size_t at = next_filled(first); at < SHELVES && !best; at = next_filled(at + 1))
    best = shortest(&clean.shelves[at], size, alignment, shortest(&dirty.shelves[at], size, alignment, NULL));
  for (size_t at = first + 1; at-- > half && !best && alignment <= os_page_size();)
    best = longest(&clean.shelves[at], size, longest(&dirty.shelves[at], size, NULL));
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

bool huge_is_hopeless(size_t size) { return size > os_memory_most(); }

/* Gives back what is kept, memory or addresses that are clean. False: that would not help. */
static bool make_room(size_t size)
{
  lock_acquire(&huge_lock);
  bool any = dirty.count || clean.count;
  lock_release(&huge_lock);
  if (!any || huge_is_hopeless(size))
    return false;
  dispose_beyond(0, SIZE_MAX);
  return true;
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
  if (map_new(huge, size, alignment) || (make_room(size) && map_new(huge, size, alignment)))
    return huge;
  lock_acquire(&huge_lock);
  record_give(huge);
  lock_release(&huge_lock);
  return NULL;
}

huge_t *huge_take(size_t size, size_t alignment, void *owner, huge_t **list, bool *zeroed)
{
  size = huge_bytes(size);
  alignment = max_size(alignment, os_page_size());
  lock_t *gate = gate_enter(GATE_SYSTEM);
  huge_t *huge = take_kept(size, alignment);
  *zeroed = !huge || huge->clean;
  if (!huge)
    huge = take_new(size, alignment);
  if (huge) {
    huge->owner = owner;
    huge->is_region = huge->hidden = !list;
    lock_acquire(&huge_lock);
    live_enter(huge);
    list_enter(huge, list);
    lock_release(&huge_lock);
  }
  gate_leave(gate);
  if (huge && settings.huge_pages != HUGE_PAGES_NEVER)
    os_wish_huge_pages(huge_start(huge), size, true);
  return huge;
}

/* ---- changing the size ---- */

/* With a delay that never ends nothing goes back: what a block leaves is kept. */
static bool keep_always(huge_t *rest)
{
  if (!rest || !keeps_all())
    return false;
  lock_acquire(&huge_lock);
  kept_enter(rest);
  lock_release(&huge_lock);
  return true;
}

static bool keep_end(huge_t *huge, size_t size)
{
  huge->clean = false;
  lock_acquire(&huge_lock);
  huge_t *rest = keeps_all() ? cut(huge, size) : NULL;
  lock_release(&huge_lock);
  return keep_always(rest);
}

/* A block that was put together from several mappings cannot move as a whole. In its new place it can. */
static bool move_by_copy(huge_t *huge, size_t size)
{
  huge_t moved = {0};
  size_t taken;
  lock_acquire(&huge_lock);
  huge_t *old = record_take();
  lock_release(&huge_lock);
  if (!old)
    return false;
  bool done = map_new(&moved, size, os_page_size());
  if (done) {
    memcpy(huge_start(&moved), huge_start(huge), huge_size(huge));
    if (huge->is_wiped)
      memset(huge_start(huge), 0, huge_size(huge));
    *old = (huge_t){.range = huge->range};
    huge->range = moved.range;
    if (!keep_always(old))
      dispose(old, &taken);
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

/* The kept range behind the block, if all of the growth is there: it goes, so that the block can have its addresses. */
static bool make_way(huge_t *huge, size_t more)
{
  uintptr_t end = huge->range.start + huge->range.size;
  size_t taken;
  lock_acquire(&huge_lock);
  range_t *range = range_at_or_above(blocks, end);
  huge_t *behind = range && range->start == end && range->size >= more && !huge_of(range)->owner ? huge_of(range) : NULL;
  huge_t *rest = NULL;
  if (behind) {
    kept_leave(behind);
    rest = huge_size(behind) > more ? cut(behind, more) : NULL;
    if (rest)
      kept_enter(rest);
    note_low();
  }
  lock_release(&huge_lock);
  return behind && dispose(behind, &taken);
}

/* What is kept may be all that is in the way of a larger block: behind it, or anywhere if it may move. The block is in no tree: whoever
 * maps something meanwhile may get the addresses that it leaves. */
static bool resize(huge_t *huge, size_t size, bool may_move)
{
  size_t had = huge_size(huge);
  if (move(huge, size, may_move))
    return true;
  if (size < had || !(may_move ? make_room(size - had) : make_way(huge, size - had)))
    return false;
  return move(huge, size, may_move);
}

bool huge_resize(huge_t *huge, size_t size, bool may_move)
{
  size = huge_bytes(size);
  size_t had = huge_size(huge);
  if (size == had)
    return true;
  bool purged = false;
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  live_leave(huge);
  lock_release(&huge_lock);
  bool kept = size < had && keep_end(huge, size);
  if (size < had && !kept && had - size > OS_PURGE_STEP)
    purged = os_purge_in_steps(huge_start(huge) + size, had - size);
  bool done = kept || resize(huge, size, may_move);
  lock_acquire(&huge_lock);
  live_enter(huge);
  lock_release(&huge_lock);
  gate_leave(gate);
  if (size < had && !kept && (done || purged || os_purge(huge_start(huge) + size, had - size)))
    count_given(had - size);
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
