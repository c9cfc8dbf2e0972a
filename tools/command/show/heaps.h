/* SPDX-License-Identifier: MIT
 *
 * What a recording is by heap and object pool. */
#ifndef SHOW_HEAPS_H
#define SHOW_HEAPS_H

#include "show.h"

/* Of a recording, as many as the trace has names of heaps, 0 being malloc(). It needs show_sum(). */
heap_total_t *heaps_sum(const show_t *show);

/* The numbers of those that allocated anything, the one with the most bytes of the first kind first; returns how many. */
uint32_t heaps_order(const show_t *show, uint32_t order[HEAP_NAMES_MOST]);

void heaps_print(const show_t *show, FILE *to);

#endif
