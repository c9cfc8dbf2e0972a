/* SPDX-License-Identifier: MIT
 *
 * Firmware's heaps: granules in memory of their callers (heap/granular.h), and no system below. A heap is one index over one
 * piece, so a request is one look at that index, then the callback, then the overflow heap. All heaps are in one list. A board
 * has few, so the list answers which block an address is.
 *
 * The firmware's lock stands for every lock. It nests, and is free whenever code of the firmware runs. */
#ifndef EMBEDDED_FRONT_H
#define EMBEDDED_FRONT_H

#include "heap/blocks.h"
#include <tidepool/heap.h>

/* The list of heaps. */
void heaps_enter(heap_t *heap);
void heaps_leave(heap_t *heap);
bool heap_is_needed(const heap_t *heap); /* as parent or overflow of another heap */

/* Calls `act` with the heap and with its descendants, except single-threaded ones, whose owner may be at work. */
void heaps_each_below(heap_t *heap, void (*act)(heap_t *heap));

/* Visits each live block until `visit` returns false. */
bool visit_blocks(heap_t *heap, pool_visit_fn *visit, void *context);

/* Ends the program if memory of a heap with heads was overwritten outside a live block. */
void verify_blocks(heap_t *heap, const char *call);

#endif
