/* SPDX-License-Identifier: MIT
 *
 * What a recording is by heap and object pool. */
#ifndef SHOW_HEAPS_H
#define SHOW_HEAPS_H

#include "show.h"

typedef struct heap_total {
  total_t of;
  uint64_t points[POINTS + 1]; /* bytes that were live where the recording has its points */
} heap_total_t;

/* As many as the trace has names of heaps, 0 being malloc(). It needs show_sum(). */
heap_total_t *heaps_sum(const show_t *show);

/* Whether there is more to say than that all is malloc()'s. */
bool heaps_are_several(const show_t *show);

void heaps_print(const show_t *show, const heap_total_t *heaps, FILE *to);

#endif
