/* SPDX-License-Identifier: MIT
 * Adds up the figures of the lower layers for a heap. They are approximate while other threads are at work. */
#ifndef FIGURES_H
#define FIGURES_H

#include "bin/bin.h"
#include "heap/heap.h"
#include <tidepool/stats.h>

/* pool_heap_stats(). Changes nothing. The caller holds heaps_lock for the default heap. `beside`: for a question about all
 * heaps, under heaps_lock. The figures are then approximate if the owner of a single-threaded heap is at work, and the largest
 * request of a small heap is the longest free piece between its blocks, kept ones included. */
void heap_figures(heap_t *heap, bool beside, pool_stats_t *stats);

/* pool_heap_largest(): gives kept and quarantined blocks back first. */
size_t heap_largest(heap_t *heap);

bin_figures_t heap_bin_figures(bin_t *bin);

/* Figures of large blocks and of granules. Spares are held but not live; quarantined blocks are cached. */
typedef struct large_figures {
  size_t live_blocks, live_bytes, held_bytes, cached_bytes;
} large_figures_t;
large_figures_t heap_large_figures(heap_t *heap);

/* Returns what the process holds for no heap. The default heap's figures include it. */
size_t heap_of_nobody_bytes(void);

#endif
