/* SPDX-License-Identifier: MIT
 * Figures of a heap of granules, which firmware has, too. */
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
