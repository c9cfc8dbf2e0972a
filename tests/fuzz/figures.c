/* SPDX-License-Identifier: MIT
 *
 * What a heap says of all its blocks: a walk of them, and figures. */
#include "operations.h"

typedef struct visits {
  unsigned heap;
  size_t count;
} visits_t;

static bool visit(const pool_block_t *block, void *context)
{
  visits_t *visits = context;
  const slot_t *slot = slot_around(block->start);
  must(slot && slot->block == block->start && slot->usable == block->size && slot->heap == visits->heap);
  visits->count++;
  return true;
}

static void walk_heap(unsigned heap)
{
  visits_t visits = {.heap = heap};
  size_t live = 0;
  must(pool_heap_walk(model.heaps[heap].heap, visit, &visits));
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    live += slot->block && slot->heap == heap;
  must(visits.count == live);
}

void op_heap_walk(void) { walk_heap(some_heap()); }

void op_walk_all(void)
{
  for (unsigned heap = 0; heap < HEAPS; heap++)
    if (model.heaps[heap].heap)
      walk_heap(heap);
}

/* What is asked of a checked heap takes some bytes more than the caller may use. */
static size_t figures_agree(unsigned heap)
{
  pool_stats_t stats;
  size_t blocks = 0, bytes = 0;
  must(pool_heap_stats(model.heaps[heap].heap, &stats));
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot->heap == heap) {
      blocks++;
      bytes += slot->usable;
    }
  must(stats.live_blocks == blocks && (model.heaps[heap].checked ? stats.live_bytes >= bytes : stats.live_bytes == bytes));
  must(stats.live_bytes + stats.cached_bytes + stats.idle_bytes + stats.metadata_bytes + stats.children_bytes ==
       stats.held_bytes);
  must(stats.peak_held_bytes >= stats.held_bytes && (!stats.budget || stats.held_bytes <= stats.budget));
  return stats.held_bytes;
}

void op_figures(void) { figures_agree(some_heap()); }

/* What a heap holds is held by its parent too. */
void all_figures_agree(void)
{
  size_t held[HEAPS], below[HEAPS] = {0};
  for (unsigned heap = 0; heap < HEAPS; heap++)
    held[heap] = model.heaps[heap].heap ? figures_agree(heap) : 0;
  for (unsigned heap = 1; heap < HEAPS; heap++)
    below[model.heaps[heap].parent] += held[heap];
  for (unsigned heap = 1; heap < HEAPS; heap++)
    must(held[heap] >= below[heap]);
}
