/* SPDX-License-Identifier: MIT
 *
 * What a recording is shown as: sums by site, memory over time, and how long blocks of which size lived. */
#ifndef SHOW_H
#define SHOW_H

#include "callers.h"
#include "recording/trace.h"
#include <stdio.h>

typedef enum sum { SUM_PEAK, SUM_END, SUM_ALLOCATED, SUMS } sum_t; /* live at the peak, live at the end, all */

typedef struct total {
  uint64_t bytes[SUMS], blocks[SUMS];
} total_t;

enum {
  POINTS = 400,
  SIZE_ROWS = 24,
  LIFE_COLUMNS = 10
}; /* sizes by twos from 16 bytes on; times by tens from a microsecond on */

typedef struct point {
  uint64_t ns, bytes, blocks;
} point_t;

typedef struct show {
  const char *path;
  trace_t trace;
  callers_t callers;
  total_t *sites; /* as many as callers.stack_count, and 1 at least */
  total_t all;
  uint64_t peak_ns;
  point_t points[POINTS + 1]; /* the most that was live in each part of the time */
  size_t point_count;
  uint64_t lives[SIZE_ROWS][LIFE_COLUMNS]; /* blocks by the logarithm of their size, and how long they lived */
} show_t;

void show_sum(show_t *show);
void show_print(const show_t *show, FILE *to, size_t sites);
void show_write_page(const show_t *show, FILE *to);

#endif
