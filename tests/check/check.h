/* SPDX-License-Identifier: MIT
 *
 * The invariants of the headers, executable. Each function returns true or ends the program with one line,
 *
 *     tidepool: check: B1 violated: blocks out of the slabs: 41, counted: 40
 *
 * Call them while no other thread is in a call of the manager. Unit tests always do; the tests of stress and races do so in a
 * build with -Dchecked=true. */
#ifndef CHECK_H
#define CHECK_H

#include "base/granules.h"
#include "heap/heap.h"

/* Checks every heap, space, thread and the class map. */
bool check_everything(void);

/* Checks one heap, and the spaces. */
bool check_heap(heap_t *heap);

/* These need less than a heap. check_space() checks A1 to A5, F1, S1, S3 and M1. check_bin() adds B1 to B3, D1 to D3, and S2
 * between bitmaps and depots. */
bool check_space(space_t *space);
bool check_bin(bin_t *bin);

/* What base/granules.h states. */
void check_granules(const granules_t *g);

#endif
