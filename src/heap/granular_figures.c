/* SPDX-License-Identifier: MIT
 * Questions about a heap of granules as a whole: what is free, and what is held. */
#include "base/granules_kept.h"
#include "heap/granular.h"

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

/* The pages at both ends of a stretch may be paid for already; those between are not. */
size_t granular_largest_beside(heap_t *heap)
{
  const size_t ends = (size_t)2 * GRANULE_PAGE << GRANULE_LOG2;
  size_t longest = granules_longest_beside(&heap->region.granules), room = granular_room(heap);
  room = room < SIZE_MAX - ends ? room + ends : room;
  return longest < GRANULES_LEAST ? 0 : min_size(longest << GRANULE_LOG2, room);
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

READS_BESIDE_OWNER space_figures_t granular_space_figures(const heap_t *heap)
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
