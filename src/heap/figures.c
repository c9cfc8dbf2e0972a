/* SPDX-License-Identifier: MIT
 *
 * Nothing is counted twice: a block is live or cached, and everything else that a slab or a run holds is idle. Memory that
 * belongs to no heap is counted in the default heap. */
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/locate.h"
#include "option.h"
#include "space/metadata.h"

/* ---- granules ---- */

/* granular_largest() for a question about all heaps, approximately. The pages at both ends of a stretch may be paid for
 * already; those between are not. */
static size_t granular_largest_beside(heap_t *heap, size_t *longest)
{
  const size_t ends = (size_t)2 * GRANULE_PAGE << GRANULE_LOG2;
  size_t granules = granules_longest_beside(&heap->region.granules), room = granular_room(heap);
  room = room < SIZE_MAX - ends ? room + ends : room;
  *longest = granules << GRANULE_LOG2;
  return granules < GRANULES_LEAST ? 0 : min_size(*longest, room);
}

/* Pages without a block that hold something, all pages without a block if the region is prepaid, and bytes that purges have
 * returned, approximately. A guest has no purges, and its record no counters. */
READS_BESIDE_OWNER static space_figures_t granular_space_figures(const heap_t *heap)
{
  const heap_region_t *region = &heap->region;
  space_figures_t f = {0};
  if (region_is_prepaid(region))
    f.unused_bytes = region->size - min_size(granular_figures(heap).held_bytes, region->size);
  if (heap_is_guest(heap) || !region->dirty)
    return f;
  const volatile word_t *dirty = region->dirty;
  size_t pages = (region->granules.count + GRANULE_PAGE - 1) / GRANULE_PAGE;
  for (size_t w = 0; w * WORD_BITS < pages; w++)
    f.dirty_bytes += bits_set_in(dirty[w]) * (size_t)GRANULE_PAGE << GRANULE_LOG2;
  f.purged_bytes = __atomic_load_n(&region->purged_bytes, __ATOMIC_RELAXED);
  return f;
}

/* ---- bins and large blocks ---- */

/* Under threads_lock. */
static size_t cached_in(const thread_t *thread, const bin_t *bin)
{
  size_t blocks = 0;
  for (; thread; thread = thread->next) {
    const magazines_t *magazines = heap_magazines_in(thread, bin->heap);
    blocks += magazines ? magazines_count(magazines, bin->size_class) : 0;
  }
  return blocks;
}

/* Blocks that a fork has lost, and blocks in quarantine, are with no caller, so they count as cached. */
bin_figures_t heap_bin_figures(bin_t *bin)
{
  if (!bin_has_magazines(bin))
    return bin_figures(bin, __atomic_load_n(&bin->withheld, __ATOMIC_RELAXED));
  LOCKED(&threads_lock);
  return bin_figures(bin, cached_in(threads_first(), bin) + cached_in(threads_first_lost(), bin));
}

static large_figures_t figures_of(const heap_t *heap)
{
  return (large_figures_t){.live_blocks = __atomic_load_n(&heap->large_blocks, __ATOMIC_RELAXED),
                           .live_bytes = __atomic_load_n(&heap->large_bytes, __ATOMIC_RELAXED),
                           .held_bytes = __atomic_load_n(&heap->large_held, __ATOMIC_RELAXED)};
}

/* A block that one thread takes and another frees may be seen only at its free. */
static size_t none_if_negative(size_t figure) { return figure > SIZE_MAX / 2 ? 0 : figure; }

/* Threads with spares keep a part of the default heap's figures in their records. */
static large_figures_t figures_with_spares(const heap_t *heap)
{
  LOCKED(&threads_lock);
  large_figures_t f = figures_of(heap);
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    f.live_blocks += __atomic_load_n(&thread->spares.live_blocks, __ATOMIC_RELAXED);
    f.live_bytes += __atomic_load_n(&thread->spares.live_bytes, __ATOMIC_RELAXED);
  }
  f.live_blocks = none_if_negative(f.live_blocks);
  f.live_bytes = none_if_negative(f.live_bytes);
  return f;
}

large_figures_t heap_large_figures(heap_t *heap)
{
  large_figures_t f = heap_is_default(heap) ? figures_with_spares(heap) : figures_of(heap);
  if (heap_has_granules(heap)) {
    granular_figures_t g = granular_figures(heap);
    f = (large_figures_t){f.live_blocks + g.live_blocks, f.live_bytes + g.live_bytes, f.held_bytes + g.held_bytes, 0};
  }
  withheld_figures_t q = heap_is_checked(heap) ? heads->withheld(heap) : (withheld_figures_t){0};
  f.cached_bytes = min_size(q.bytes, f.live_bytes);
  f.live_blocks -= min_size(q.blocks, f.live_blocks);
  f.live_bytes -= f.cached_bytes;
  return f;
}

/* Under heaps_lock. */
static size_t charged_metadata(void)
{
  size_t bytes = 0;
  for (const heap_t *heap = heaps_first(); heap; heap = heap->next)
    bytes += heap->metadata_shared + __atomic_load_n(&heap->record_bytes, __ATOMIC_RELAXED);
  return bytes;
}

/* Returns the largest argument of all calls. The process's peak is not counted, so this is the highest figure that was seen. */
static size_t most_of_all_times(size_t bytes)
{
  static size_t most;
  size_t seen = __atomic_load_n(&most, __ATOMIC_RELAXED);
  while (seen < bytes && !__atomic_compare_exchange_n(&most, &seen, bytes, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
  return max_size(seen, bytes);
}

/* Returns the bytes of records that serve all heaps. A record is charged before it is touched and discharged after it is gone,
 * so the charge may briefly exceed it. Under heaps_lock. */
static size_t shared_records(const arena_figures_t *arenas)
{
  size_t all = metadata_touched() + arenas->record_bytes;
  return all - min_size(charged_metadata(), all);
}

static size_t observer_bytes(void) { return observer ? observer->kept_bytes() : 0; }

static size_t idle_of_process(const space_figures_t *f)
{
  return f->dirty_bytes + huge_left_bytes() + observer_bytes() + space_left_bytes() + granular_unpaid_bytes();
}

size_t heap_of_nobody_bytes(void)
{
  space_figures_t f = space_figures(&space_of_process);
  arena_figures_t arenas = space_arena_figures();
  LOCKED(&heaps_lock);
  return shared_records(&arenas) + idle_of_process(&f);
}

/* Returns all that the manager has mapped. Standalone blocks count as their heaps hold them: the memory around them is
 * inaccessible. Under heaps_lock, which keeps the reserves. */
static size_t mapped_by_process(const arena_figures_t *arenas)
{
  size_t bytes = arenas->mapped_bytes + space_left_mapped() + metadata_mapped() + huge_mapped_bytes() +
                 huge_standalone_bytes() + observer_bytes();
  for (const heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (!heap_is_guest(heap) && heap_own_arena(heap))
      bytes += arena_mapped_bytes(heap->region.space.own_arena);
  return bytes;
}

/* Returns what heaps but the default one and guests hold, each without its children. Under heaps_lock. */
static size_t held_by_others(void)
{
  size_t bytes = 0;
  for (const heap_t *heap = heaps_first()->next; heap; heap = heap->next) {
    size_t held = budget_held(&heap->budget);
    bytes += heap_is_guest(heap) ? 0 : held - min_size(budget_below(&heap->budget), held);
  }
  return bytes;
}

/* Memory of the process's space beyond blocks belongs to no heap, so the default heap counts it. */
static void add_process_figures(pool_stats_t *stats, const arena_figures_t *arenas)
{
  space_figures_t f = space_figures(&space_of_process);
  size_t records = shared_records(arenas), dirty = idle_of_process(&f);
  stats->purged_bytes = f.purged_bytes + huge_purged_bytes() + space_ended_bytes() + metadata_purged_bytes();
  stats->idle_bytes += dirty;
  stats->held_bytes += dirty + records;
  stats->metadata_bytes += records;
  stats->peak_held_bytes = most_of_all_times(max_size(stats->peak_held_bytes, stats->held_bytes));
}

/* Mapped bytes that no heap holds have no pages behind them. */
static void add_unheld(pool_stats_t *stats, const arena_figures_t *arenas)
{
  size_t mapped = mapped_by_process(arenas), held = held_by_others() + stats->held_bytes;
  held -= min_size(stats->children_bytes, held);
  stats->returned_bytes += mapped - min_size(held, mapped);
  stats->advised_bytes = arenas->advised_bytes + (settings.huge_pages == HUGE_PAGES_ALWAYS ? huge_mapped_bytes() : 0);
}

/* A prepaid region holds its unused units, too. */
static void add_region_figures(pool_stats_t *stats, heap_t *heap)
{
  space_figures_t f = heap_has_granules(heap) ? granular_space_figures(heap) : space_figures(&heap->region.space);
  stats->idle_bytes += f.unused_bytes;
  if (!(heap->flags & HEAP_REAL_TIME))
    stats->returned_bytes += f.unused_bytes - min_size(f.dirty_bytes, f.unused_bytes);
  stats->purged_bytes += f.purged_bytes;
}

static void add_bins(pool_stats_t *stats, heap_t *heap)
{
  FOR_EACH_BIN(bin, heap) {
    bin_figures_t f = heap_bin_figures(bin);
    stats->live_blocks += f.live_blocks;
    stats->live_bytes += f.live_blocks * f.block_size;
    stats->cached_bytes += f.cached_blocks * f.block_size;
    stats->idle_bytes += f.idle_bytes;
    stats->returned_bytes += f.returned_bytes;
  }
}

/* Slack of large blocks and spares are idle. The figures are read one after the other, so the difference is clamped at 0. */
static void add_large(pool_stats_t *stats, heap_t *heap)
{
  large_figures_t f = heap_large_figures(heap);
  stats->live_blocks += f.live_blocks;
  stats->live_bytes += f.live_bytes;
  stats->cached_bytes += f.cached_bytes;
  stats->idle_bytes += f.held_bytes - min_size(f.live_bytes + f.cached_bytes, f.held_bytes);
}

/* Blocks outside a region take whole units, or pages if they are mappings. */
static size_t largest_in_process(heap_t *heap, size_t room)
{
  bool huge = large_is_huge(heap, room, 1);
  return min_size(round_down(room, huge ? os_page_size() : UNIT), PTRDIFF_MAX - 2 * UNIT);
}

/* Returns the largest request that would succeed. *longest is the longest free piece of granules: the largest request may be
 * smaller by a head, and by what the budget cannot pay. `beside`: approximately, for a question about all heaps. */
static size_t largest_now(heap_t *heap, bool beside, size_t *longest)
{
  size_t largest = 0, room = budget_room(&heap->budget);
  if (heap_has_granules(heap))
    largest = beside ? granular_largest_beside(heap, longest) : granular_largest(heap, longest);
  if (heap_may_have_standalone(heap) && heap->source)
    return heap->source->largest(min_size(room, PTRDIFF_MAX - 2 * UNIT));
  if (!heap_has_granules(heap) && heap_own_arena(heap))
    largest = space_longest_free(&heap->region.space, room);
  if (!heap_is_guest(heap) && (!heap_has_granules(heap) || granular_may_leave(heap)))
    largest = max_size(largest, largest_in_process(heap, room));
  return heap_is_headed(heap) ? largest - min_size(largest, HEAD_BYTES) : largest;
}

size_t heap_largest(heap_t *heap)
{
  size_t longest;
  if (heap_is_checked(heap))
    heads->release_withheld(heap, "pool_heap_largest");
  if (heap_has_granules(heap))
    granular_drain(heap);
  return largest_now(heap, false, &longest);
}

static void add_fragmentation(pool_stats_t *stats, heap_t *heap, bool beside)
{
  size_t longest = 0, free = heap_has_granules(heap) ? granular_figures(heap).free_bytes : 0;
  stats->largest_free = largest_now(heap, beside, &longest);
  stats->fragmentation = free ? (unsigned)(1000 - (uint64_t)min_size(longest, free) * 1000 / free) : 0;
}

/* Splits idle bytes into free and returned ones: some idle blocks and units have no pages behind them. */
static void add_backing(pool_stats_t *stats, heap_t *heap)
{
  arena_figures_t arenas = {0};
  bool all = heap_is_default(heap);
  if (all) {
    arenas = space_arena_figures();
    add_process_figures(stats, &arenas);
  } else if (heap->region.kind) {
    add_region_figures(stats, heap);
  }
  stats->returned_bytes = min_size(stats->returned_bytes, stats->idle_bytes);
  stats->free_bytes = stats->idle_bytes - stats->returned_bytes;
  if (all)
    add_unheld(stats, &arenas);
  stats->mapped_bytes = stats->live_bytes + stats->cached_bytes + stats->free_bytes + stats->returned_bytes +
                        stats->metadata_bytes + stats->children_bytes;
}

void heap_figures(heap_t *heap, bool beside, pool_stats_t *stats)
{
  *stats = (pool_stats_t){.budget = budget_limit(&heap->budget), .held_bytes = budget_held(&heap->budget)};
  add_bins(stats, heap);
  add_large(stats, heap);
  stats->metadata_bytes = heap->metadata_bytes + __atomic_load_n(&heap->record_bytes, __ATOMIC_RELAXED) +
                          __atomic_load_n(&heap->record_run_bytes, __ATOMIC_RELAXED);
  stats->children_bytes = budget_below(&heap->budget);
  stats->peak_held_bytes = max_size(budget_peak(&heap->budget), stats->held_bytes); /* the peak is noted after the charge */
  stats->exhausted_count = __atomic_load_n(&heap->exhausted_count, __ATOMIC_RELAXED);
  stats->retried_count = __atomic_load_n(&heap->retried_count, __ATOMIC_RELAXED);
  stats->overflowed_count = __atomic_load_n(&heap->overflowed_count, __ATOMIC_RELAXED);
  stats->purged_bytes = __atomic_load_n(&heap->purged_bytes, __ATOMIC_RELAXED);
  add_backing(stats, heap);
  add_fragmentation(stats, heap, beside);
}
