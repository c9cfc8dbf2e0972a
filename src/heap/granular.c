/* SPDX-License-Identifier: MIT
 * Converts bytes to granules and charges the budget for pages. */
#include "heap/granular.h"
#include "base/fill.h"
#include "base/granules.h"
#include "option.h"
#include "os/lock.h"
#include <string.h>

enum {
  TICK_GIVES = 16, /* frees that leave a page without a block, between two looks at the clock */
  STEP_PAGES = 32  /* pages that one step of a tick returns, in one system call */
};

static size_t granule_of(const heap_t *heap, const void *address)
{
  return (size_t)((const char *)address - heap->region.base) >> GRANULE_LOG2;
}

static char *address_of(const heap_t *heap, size_t granule) { return heap->region.base + (granule << GRANULE_LOG2); }

void granular_init(heap_t *heap, void *index, char *base, size_t count)
{
  granules_init(&heap->region.granules, index, count);
  heap->region.base = base;
}

/* ---- pages ----
 *
 * Memory is returned by system pages. One that is longer than the pages here is a group of them, and is returned if none of
 * them is in use. The region begins with a system page, and what is behind its last granule is nobody's. */

static size_t page_start(size_t page) { return page * GRANULE_PAGE; }
static size_t page_end(const granules_t *g, size_t page) { return min_size(page_start(page) + GRANULE_PAGE, g->count); }
static size_t page_bytes(const granules_t *g, size_t page) { return (page_end(g, page) - page_start(page)) << GRANULE_LOG2; }
static size_t group_pages(void) { return max_size(os_page_size() / (GRANULE_PAGE << GRANULE_LOG2), 1); }

static size_t pages_of_region(const heap_region_t *r) { return (r->granules.count + GRANULE_PAGE - 1) / GRANULE_PAGE; }

/* A guest's memory is the caller's and never dirty here. */
static bool has_dirty_pages(const heap_region_t *region) { return !region_is_guest(region) && region->dirty; }

static size_t unpaid_bytes; /* of all heaps: a figure */

size_t granular_unpaid_bytes(void) { return __atomic_load_n(&unpaid_bytes, __ATOMIC_RELAXED); }

/* A page of a budget's region without a block is charged to nobody, so its contents count for the process. */
static void count_unpaid(const heap_region_t *region, ptrdiff_t bytes)
{
  if (!region_is_prepaid(region))
    __atomic_fetch_add(&unpaid_bytes, (size_t)bytes, __ATOMIC_RELAXED);
}

static void note_dirty(heap_region_t *region, size_t page, bool dirty)
{
  if (!has_dirty_pages(region) || bit_test(region->dirty, page) == dirty)
    return;
  region->dirty[page / WORD_BITS] ^= bit_of(page);
  bit_clear(region->idle, round_down(page, group_pages()));
  ptrdiff_t bytes = (ptrdiff_t)page_bytes(&region->granules, page);
  count_unpaid(region, dirty ? bytes : -bytes);
  if (dirty)
    sleeper_note();
}

static void fill_page(heap_t *heap, size_t page)
{
  dead_fill(address_of(heap, page_start(page)), page_bytes(&heap->region.granules, page));
}

/* A block [from, to) becomes the first in some pages, which have been charged. A dirty page of a checked heap has the pattern
 * since its blocks were freed, which reveals later writes to them. Other pages were never used, or were purged. */
COLD static void open_pages(heap_t *heap, size_t from, size_t to)
{
  heap_region_t *region = &heap->region;
  const granules_t *g = &region->granules;
  if (!has_dirty_pages(region))
    return;
  for (size_t page = from / GRANULE_PAGE; page <= (to - 1) / GRANULE_PAGE; page++) {
    if (bit_test(g->used, page))
      continue;
    if (heap_is_checked(heap) && !bit_test(region->dirty, page))
      fill_page(heap, page);
    note_dirty(region, page, false);
  }
}

/* The caller's memory, and dirty memory from the system, get the pattern at the start. */
void granular_begin(heap_t *heap)
{
  const heap_region_t *region = &heap->region;
  if (heap_has_granules(heap) && !(heap->flags & (HEAP_HEADED | POOL_HEAP_ZERO_ON_FREE)))
    heap->flags |= HEAP_PLAIN_GRANULES;
  if (!heap_has_granules(heap) || !heap_is_checked(heap))
    return;
  for (size_t page = 0; page_start(page) < region->granules.count; page++)
    if (!has_dirty_pages(region) || bit_test(region->dirty, page))
      fill_page(heap, page);
}

/* Of the dirty ones among pages [page, end). The last page of the region may be shorter. */
static size_t dirty_page_bytes(const heap_region_t *region, size_t page, size_t end)
{
  size_t last = pages_of_region(region) - 1, whole = bits_count(region->dirty, page, min_size(end, last));
  size_t rest = end > last && bit_test(region->dirty, last) ? page_bytes(&region->granules, last) : 0;
  return (whole * GRANULE_PAGE << GRANULE_LOG2) + rest;
}

void granular_count_dirty(heap_t *heap, word_t *bitmaps, bool dirty)
{
  heap_region_t *region = &heap->region;
  region->dirty = bitmaps;
  region->idle = bitmaps + granular_pages(region->granules.count) / WORD_BITS;
  if (!dirty)
    return;
  bits_set(region->dirty, 0, pages_of_region(region));
  count_unpaid(region, (ptrdiff_t)dirty_page_bytes(region, 0, pages_of_region(region)));
  sleeper_note();
}

void granular_forget_dirty(heap_t *heap)
{
  if (has_dirty_pages(&heap->region))
    count_unpaid(&heap->region, -(ptrdiff_t)dirty_page_bytes(&heap->region, 0, pages_of_region(&heap->region)));
  heap->region.dirty = NULL;
}

static size_t group_end(const heap_region_t *r, size_t page) { return min_size(page + group_pages(), pages_of_region(r)); }

/* Returns the first page of the next group with a dirty page, or the number of pages if there is none. */
static size_t next_dirty(const heap_region_t *region, size_t page)
{
  size_t pages = pages_of_region(region), found = bits_next_set(region->dirty, page, pages);
  return found < pages ? round_down(found, group_pages()) : pages;
}

static bool may_go(const heap_region_t *region, size_t page)
{
  size_t end = group_end(region, page);
  return bits_next_set(region->dirty, page, end) < end && bits_next_set(region->granules.used, page, end) == end;
}

/* Returns the groups [page, end) to the system, and the bytes of their dirty pages. A call refused because one page is locked
 * may have taken others. The halves are then tried, so that no returned page counts as dirty. */
static size_t purge_pages(heap_region_t *region, size_t page, size_t end)
{
  size_t bytes = (page_end(&region->granules, end - 1) - page_start(page)) << GRANULE_LOG2;
  size_t returned = dirty_page_bytes(region, page, end), half = page + round_down((end - page) / 2, group_pages());
  if (!os_purge(region->base + (page_start(page) << GRANULE_LOG2), round_up(bytes, os_page_size())))
    return half > page ? purge_pages(region, page, half) + purge_pages(region, half, end) : 0;
  while (page < end)
    note_dirty(region, page++, false);
  __atomic_store_n(&region->purged_bytes, region->purged_bytes + returned, __ATOMIC_RELAXED); /* read without the lock */
  return returned;
}

/* Returns whether the next round over the pages is due. Another thread may have stored a later time. */
static bool round_begins(const heap_region_t *region, uint64_t now_ms)
{
  return !region->ticked_page && now_ms >= region->ticked_ms + region->purge_delay_ms;
}

/* Returns pages that have been dirty and without a block since the last round but one. They wait between one and two purge
 * delays, and then until the round reaches them: the delay counts from the last step of a round. A step ends with one system
 * call. Returns true if that call returned memory. */
static bool tick_pages(heap_region_t *region, uint64_t now_ms)
{
  if (!region->ticked_page && !round_begins(region, now_ms))
    return false;
  region->ticked_ms = now_ms;
  size_t pages = pages_of_region(region);
  for (size_t page = region->ticked_page; (page = next_dirty(region, page)) < pages; page = group_end(region, page)) {
    size_t end = page;
    while (end < pages && end < page + STEP_PAGES && may_go(region, end) && bit_test(region->idle, end))
      end = group_end(region, end);
    if (end > page) {
      region->ticked_page = (uint32_t)(end % pages);
      return purge_pages(region, page, end) > 0;
    }
    bit_set(region->idle, page);
  }
  region->ticked_page = 0;
  return false;
}

static bool charge(heap_t *heap, size_t granules)
{
  return !granules || region_is_prepaid(&heap->region) || budget_charge(&heap->budget, granules << GRANULE_LOG2);
}

static void discharge(heap_t *heap, size_t bytes)
{
  if (!region_is_prepaid(&heap->region))
    budget_discharge(&heap->budget, bytes);
}

/* Pages of [from, to), `granules` long together, are now without a block. Every TICK_GIVES-th call may tick. */
COLD static void close_pages(heap_t *heap, size_t from, size_t to, size_t granules)
{
  heap_region_t *region = &heap->region;
  for (size_t page = from / GRANULE_PAGE; has_dirty_pages(region) && page <= (to - 1) / GRANULE_PAGE; page++)
    if (!bit_test(region->granules.used, page))
      note_dirty(region, page, true);
  discharge(heap, granules << GRANULE_LOG2);
  if (has_dirty_pages(region) && region->purge_delay_ms != PURGE_NEVER && ++region->gives % TICK_GIVES == 0)
    tick_pages(region, os_now_ms());
}

/* ---- blocks ---- */

static inline void give(heap_t *heap, size_t from, size_t to)
{
  size_t emptied = granules_give(&heap->region.granules, from, to);
  if (unlikely(emptied))
    close_pages(heap, from, to, emptied);
}

/* Frees the kept blocks, which only granular_take_plain() and granular_give() know of. Under the lock. */
static void give_kept(heap_t *heap)
{
  granules_t *g = &heap->region.granules;
  for (size_t from; (from = granules_take_any_kept(g)) != GRANULES_NONE;)
    give(heap, from, granules_end(g, from));
}

void granular_drain(heap_t *heap)
{
  HEAP_LOCKED(heap);
  give_kept(heap);
}

static bool pay_for(void *context, size_t from, size_t to)
{
  heap_t *heap = context;
  if (!charge(heap, granules_unused(&heap->region.granules, from, to)))
    return false;
  open_pages(heap, from, to);
  budget_note_peak(&heap->budget);
  return true;
}

/* Cuts a block at an alignment of `steps` granules, or after the first look has failed. If the budget cannot pay for the pages
 * of the best place, a second search checks every free stretch for a place that it can pay for. */
COLD static size_t cut_harder(heap_t *heap, size_t count, size_t steps)
{
  granules_t *g = &heap->region.granules;
  granule_fit_t fit;
  size_t first = ((uintptr_t)heap->region.base >> GRANULE_LOG2) & (steps - 1);
  if (!(steps > 1 ? granules_find_aligned(g, count, steps, first, &fit) : granules_find(g, count, &fit)))
    return GRANULES_NONE;
  if (!pay_for(heap, fit.at, fit.at + count) &&
      (!granules_find_within(g, count, steps, first, granular_room(heap) >> GRANULE_LOG2, &fit) ||
       !pay_for(heap, fit.at, fit.at + count)))
    return GRANULES_NONE;
  granules_take(g, &fit);
  return fit.at;
}

size_t granular_purge(heap_t *heap, size_t keep)
{
  heap_region_t *region = &heap->region;
  size_t pages = pages_of_region(region), purged = 0, left = 0;
  HEAP_LOCKED(heap);
  give_kept(heap);
  for (size_t page = 0, end; has_dirty_pages(region) && (page = next_dirty(region, page)) < pages; page = end) {
    end = group_end(region, page);
    left += dirty_page_bytes(region, page, end);
    if (left <= keep || !may_go(region, page))
      continue;
    while (end < pages && may_go(region, end))
      end = group_end(region, end);
    purged += purge_pages(region, page, end);
  }
  return purged;
}

bool granular_tick(heap_t *heap, uint64_t now_ms, bool *left)
{
  heap_region_t *region = &heap->region;
  if (!has_dirty_pages(region) || region->purge_delay_ms == PURGE_NEVER)
    return false;
  HEAP_LOCKED(heap);
  if (round_begins(region, now_ms))
    give_kept(heap);
  bool purged = tick_pages(region, now_ms);
  size_t pages = pages_of_region(region);
  for (size_t page = 0; !*left && (page = next_dirty(region, page)) < pages; page = group_end(region, page))
    *left = may_go(region, page);
  return purged;
}

void *granular_take_plain(heap_t *heap, size_t size)
{
  granules_t *g = &heap->region.granules;
  if (unlikely(size > (size_t)g->count << GRANULE_LOG2))
    return NULL;
  size_t count = granules_for(heap_granular_size(heap, size));
  bool shared = closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  size_t at = granules_take_kept(g, count);
  if (at == GRANULES_NONE)
    at = granules_cut(g, count, pay_for, heap);
  closure_release(&heap->lock, shared);
  return likely(at != GRANULES_NONE) ? address_of(heap, at) : NULL;
}

void *granular_take(heap_t *heap, size_t size, size_t alignment, size_t *usable)
{
  size_t count = granules_for(size), at;
  if (size > (size_t)heap->region.granules.count << GRANULE_LOG2)
    return NULL;
  HEAP_LOCKED(heap);
  give_kept(heap);
  at = alignment > GRANULE || !HAS_SPEED ? GRANULES_NONE : granules_cut(&heap->region.granules, count, pay_for, heap);
  if (at == GRANULES_NONE)
    at = cut_harder(heap, count, max_size(alignment >> GRANULE_LOG2, 1));
  *usable = count << GRANULE_LOG2;
  return at != GRANULES_NONE ? address_of(heap, at) : NULL;
}

/* The heap goes on in the process's space once its budget was raised by a unit: earlier a bin would take what pages need. */
bool granular_may_leave(const heap_t *heap)
{
  size_t limit = budget_limit(&heap->budget), blocks = region_is_prepaid(&heap->region) ? 0 : heap->region.size;
  return !heap_is_guest(heap) && (!limit || limit >= heap->head_bytes + blocks + UNIT);
}

static bool is_block(const heap_t *heap, const void *block)
{
  uintptr_t offset = (uintptr_t)block - (uintptr_t)heap->region.base;
  return offset % GRANULE == 0 && granules_begins(&heap->region.granules, offset >> GRANULE_LOG2);
}

bool granular_give(heap_t *heap, void *block)
{
  granules_t *g = &heap->region.granules;
  bool shared = closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  bool live = is_block(heap, block);
  if (likely(live)) {
    size_t from = granule_of(heap, block), to = granules_end(g, from);
    live = !granules_is_kept(g, from, to);
    if (likely(live) && !(heap->flags & HEAP_PLAIN_GRANULES && granules_keep(g, from, to)))
      give(heap, from, to);
  }
  closure_release(&heap->lock, shared);
  return live;
}

bool granular_resize(heap_t *heap, const void *block, size_t size)
{
  granules_t *g = &heap->region.granules;
  if (size > (size_t)g->count << GRANULE_LOG2)
    return false;
  HEAP_LOCKED(heap);
  size_t from = granule_of(heap, block), count = granules_for(size);
  size_t to = granules_end(g, from), new_to = from + count;
  if (new_to < to) {
    size_t emptied = granules_shorten(g, to, new_to);
    if (emptied)
      close_pages(heap, new_to, to, emptied);
  }
  if (new_to <= to)
    return true;
  give_kept(heap);
  if (granules_behind(g, to) < new_to - to || !charge(heap, granules_unused(g, to, new_to)))
    return false;
  open_pages(heap, to, new_to);
  granules_lengthen(g, to, new_to);
  budget_note_peak(&heap->budget);
  return true;
}

/* Free memory of a checked heap has its pattern already; the blocks get it now. */
static void fill_blocks(heap_t *heap)
{
  const granules_t *g = &heap->region.granules;
  for (size_t i = 0; (i = granules_next(g, i)) != GRANULES_NONE;) {
    size_t end = granules_end(g, i);
    dead_fill(address_of(heap, i), (end - i) << GRANULE_LOG2);
    i = end;
  }
}

/* The pages become dirty as if each block had been freed. */
void granular_end_blocks(heap_t *heap)
{
  granules_t *g = &heap->region.granules;
  size_t pages = (g->count + GRANULE_PAGE - 1) / GRANULE_PAGE, held = 0;
  HEAP_LOCKED(heap);
  if (heap_is_checked(heap))
    fill_blocks(heap);
  for (size_t page = 0; (page = bits_next_set(g->used, page, pages)) < pages; page++) {
    held += page_bytes(g, page);
    note_dirty(&heap->region, page, true);
  }
  granules_clear(g);
  discharge(heap, held);
}

/* ---- questions ---- */

char *granular_around(const heap_t *heap, const void *address, size_t *size)
{
  const granules_t *g = &heap->region.granules;
  size_t to, from = granules_around(g, granule_of(heap, address), &to);
  if (from == GRANULES_NONE)
    return NULL;
  *size = (to - from) << GRANULE_LOG2;
  return address_of(heap, from);
}

char *granular_next(heap_t *heap, const char *from, size_t *size)
{
  const granules_t *g = &heap->region.granules;
  HEAP_LOCKED(heap);
  give_kept(heap);
  size_t i = granules_next(g, from ? granule_of(heap, from) : 0);
  if (i == GRANULES_NONE)
    return NULL;
  *size = (granules_end(g, i) - i) << GRANULE_LOG2;
  return address_of(heap, i);
}

/* ---- figures ---- */

size_t granular_largest(heap_t *heap, size_t *longest)
{
  const granules_t *g = &heap->region.granules;
  HEAP_LOCKED(heap);
  granule_piece_t piece = granules_longest_piece(g);
  size_t room = granular_room(heap) >> GRANULE_LOG2, largest = piece.to - piece.from;
  *longest = largest << GRANULE_LOG2;
  if (largest && largest + 2 * GRANULE_PAGE > room && granules_unused(g, piece.from, piece.to) > room)
    largest = min_size(largest, granules_longest_within(g, room));
  return largest < GRANULES_LEAST ? 0 : largest << GRANULE_LOG2;
}

READS_BESIDE_OWNER granular_figures_t granular_figures(const heap_t *heap)
{
  const volatile granules_t *g = &heap->region.granules;
  const volatile word_t *used = g->used;
  size_t count = g->count, live = min_size(g->live, count), pages = (count + GRANULE_PAGE - 1) / GRANULE_PAGE, held = 0;
  for (size_t w = 0; w * WORD_BITS < pages; w++)
    held += bits_set_in(used[w]) * (size_t)GRANULE_PAGE;
  if (used[(pages - 1) / WORD_BITS] & bit_of(pages - 1))
    held -= pages * GRANULE_PAGE - count;
  return (granular_figures_t){.live_blocks = g->blocks,
                              .live_bytes = live << GRANULE_LOG2,
                              .held_bytes = held << GRANULE_LOG2,
                              .free_bytes = (count - live) << GRANULE_LOG2};
}
