/* SPDX-License-Identifier: MIT
 *
 * Magazines are linked through their words 0, the newest first: what was put away last is most likely to be in a cache
 * still. */
#include "bin/depot.h"
#include "space/metadata.h"

enum {
  DEPOT_LEAST = 4,
  DEPOT_DECAY = 7,     /* a 128th less when the bound is met */
  DEPOT_NEED_DECAY = 4 /* this part of what a shard needs is forgotten in an epoch without need */
};

/* ---- empty magazines ---- */

/* The lock of the magazines of bins that ended, and of new ones. */
lock_t bin_magazines_lock;
static void **ownerless;

/* Eight to a page. Taken one by one, between records of whole pages, each kept a page of its own: no record that was given back
 * has their alignment. */
static metadata_kind_t fresh_magazines = {.size = MAGAZINE_BYTES, .alignment = MAGAZINE_BYTES};

static void **magazine_take(void)
{
  lock_acquire(&bin_magazines_lock);
  void **magazine = ownerless;
  if (magazine)
    ownerless = magazine_below(magazine);
  else
    magazine = metadata_take_kind(&fresh_magazines);
  lock_release(&bin_magazines_lock);
  return magazine;
}

/* A whole list is handed over at once, so the lock is taken once for each depot. */
static void magazines_disown(void **magazine)
{
  if (!magazine)
    return;
  void **last = magazine;
  while (magazine_below(last))
    last = magazine_below(last);
  lock_acquire(&bin_magazines_lock);
  magazine_link(last, ownerless, 0);
  ownerless = magazine;
  lock_release(&bin_magazines_lock);
}

/* The shard's own empty magazine comes first: its words are likely to be in this core's cache. */
void **depots_take_empty(depots_t *depots, unsigned shard)
{
  depot_t *depot = &depots->of[shard];
  for (unsigned i = 1; !depot->empties && i < DEPOT_SHARDS; i++)
    depot = &depots->of[(shard + i) % DEPOT_SHARDS];
  void **magazine = depot->empties;
  if (!magazine)
    return magazine_take();
  depot->empties = magazine_below(magazine);
  __builtin_prefetch(depot->empties, 1);
  return magazine;
}

/* ---- magazines with entries ---- */

void depot_push(depots_t *depots, depot_t *depot, void **top)
{
  void **magazine = magazine_of(top);
  magazine_link(magazine, depot->newest, (size_t)(top - magazine));
  depot->newest = magazine;
  if (++depot->count > depot->high)
    depot->high = depot->count;
  depots->count++;
}

/* The newest magazine is taken, since its blocks were used last. The one below it is prefetched for the next call. */
void **depot_pop(depots_t *depots, depot_t *depot)
{
  void **magazine = depot->newest, **top = magazine_top(magazine);
  depot->newest = magazine_below(magazine);
  __builtin_prefetch(depot->newest, 1);
  depots->count--;
  if (--depot->count < depot->low)
    depot->low = depot->count;
  magazine[0] = NULL;
  return top;
}

/* What a shard needs is how far its own threads draw the depot below its high-water mark: so many will be asked for again. */
void **depot_pop_own(depots_t *depots, depot_t *depot)
{
  void **top = depot_pop(depots, depot);
  depot->need = (uint32_t)max_size(depot->need, depot->high - depot->count);
  return top;
}

/* A stolen magazine comes out of another core's cache, so its words are prefetched. The other shard keeps what it needs:
 * otherwise its threads would have to steal in their turn, and blocks would wander for ever (sh8bench with four threads takes
 * 4.8 s then, and 3.0 s so). What is stolen lowers the high mark, because the shard's own threads have not drawn it. */
void **depots_steal(depots_t *depots, unsigned shard, bool needed_too)
{
  for (unsigned i = 1; i < DEPOT_SHARDS; i++) {
    depot_t *depot = &depots->of[(shard + i) % DEPOT_SHARDS];
    /* Only the surplus may be stolen, unless there is no other way to a block. */
    if (depot->count <= (needed_too ? 0 : depot->need))
      continue;
    void **top = depot_pop(depots, depot);
    depot->high--;
    for (char *line = (char *)magazine_of(top); line <= (char *)top; line += 64)
      __builtin_prefetch(line, 1);
    return top;
  }
  return NULL;
}

/* A bound that is met falls a little: it must be earned again by blocks that change shards (slabs_note_change()). */
bool depots_have_room(depots_t *depots)
{
  if (depots->count < max_size(depots->bound, DEPOT_LEAST))
    return true;
  depots->bound -= depots->bound >> DEPOT_DECAY;
  return false;
}

/* The part that is forgotten is rounded up, so that the need ends at 0. */
void depot_begin_epoch(depot_t *depot)
{
  depot->low = depot->high = depot->count;
  depot->need -= (depot->need + DEPOT_NEED_DECAY - 1) / DEPOT_NEED_DECAY;
}

/* The need was for blocks that are gone. */
void depots_forget_entries(depots_t *depots)
{
  for (depot_t *depot = depots->of; depot < depots_end(depots); depot++) {
    while (depot->count)
      depot_put_empty(depot, magazine_of(depot_pop(depots, depot)));
    depot->high = depot->need = 0;
  }
}

/* The magazines of a bin that ends are never given back as memory: another bin needs some soon. */
void depots_destroy(depots_t *depots)
{
  if (depots->count)
    depots_forget_entries(depots);
  for (depot_t *depot = depots->of; depot < depots_end(depots); depot++) {
    magazines_disown(depot->empties);
    depot->empties = NULL;
  }
}

uint32_t depots_need(const depots_t *depots)
{
  uint32_t need = 0;
  for (const depot_t *depot = depots->of; depot < depots_end(depots); depot++)
    need += depot->need;
  return need;
}

/* ---- questions ---- */

/* The lists of a bin of one thread change beside a reader, who has no lock. It reads whole words, and each link leads to a
 * magazine, if not always to one of this list, because magazines are never unmapped. So the loads are volatile, and the thread
 * sanitizer is not asked. The count bounds the walk even if links lead in a circle. */
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

size_t depots_count(const depots_t *depots, const void *wanted, bool *found)
{
  size_t blocks = 0;
  for (const depot_t *depot = depots->of; depot < depots_end(depots); depot++)
    blocks += count_depot(depot, wanted, found);
  return blocks;
}
