/* SPDX-License-Identifier: MIT
 *
 * What a heap holds, and for what. The layers below count; here it is added up. Threads may go on meanwhile: then the figures
 * are close. */
#ifndef FIGURES_H
#define FIGURES_H

#include "bin/bin.h"
#include "heap/heap.h"
#include <tidepool/stats.h>

/* As pool_heap_stats(). It changes nothing. For the default heap under heaps_lock. */
void heap_figures(heap_t *heap, pool_stats_t *stats);

/* The same for a question about all heaps, under heaps_lock. It may come beside the owner of a heap of one thread: then the
 * figures are close. The largest request of a small heap is the longest free piece between its blocks, kept ones included. */
void heap_figures_beside(heap_t *heap, pool_stats_t *stats);

/* As pool_heap_largest(): what is kept and in quarantine goes back first. */
size_t heap_largest(heap_t *heap);

bin_figures_t heap_bin_figures(bin_t *bin);

/* The figures of blocks of no class: of large ones, and of those cut from granules. Spares are held, but not live; what is
 * in quarantine is cached. */
typedef struct large_figures {
  size_t live_blocks, live_bytes, held_bytes, cached_bytes;
} large_figures_t;
large_figures_t heap_large_figures(heap_t *heap);

/* What the figures of the default heap have beyond its own: what the process holds for no heap. */
size_t heap_of_nobody_bytes(void);

#endif
