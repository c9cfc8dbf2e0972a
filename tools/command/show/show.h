/* SPDX-License-Identifier: MIT
 *
 * What a recording is shown as: sums by site, memory over time, and how long blocks of which size lived. Of a profile there are
 * the sums of what was live when it was written, and of what had been allocated. */
#ifndef SHOW_H
#define SHOW_H

#include "callers.h"
#include "recording/trace.h"
#include <stdio.h>

typedef enum sum { SUM_PEAK, SUM_END, SUM_ALLOCATED, SUMS } sum_t; /* live at the peak, live at the end, all */

/* Of a profile the sums are reckoned from so many samples. */
typedef struct total {
  uint64_t bytes[SUMS], blocks[SUMS], samples[SUMS];
} total_t;

/* What is reckoned from fewer samples is off by a third or more, unless nearly each block is one. */
enum { SAMPLES_FEW = 10 };

enum {
  POINTS = 400,
  SIZE_ROWS = 24,
  LIFE_COLUMNS = 10
}; /* sizes by twos from 16 bytes on; times by tens from a microsecond on */

typedef struct point {
  uint64_t ns, bytes, blocks;
  uint64_t last; /* bytes at its end */
} point_t;

/* What a heap or an object pool has, or all of one name. */
typedef struct heap_total {
  total_t of;
  uint64_t points[POINTS + 1]; /* bytes that were live where a recording has its points */
} heap_total_t;

/* One kind of sums that a file has, and how it is called. */
typedef struct kind {
  sum_t sum;
  const char *name;
} kind_t;

typedef struct show {
  char *title;
  bool is_profile, lacks_heap;
  kind_t kinds[SUMS];
  size_t kind_count;
  callers_t callers;
  total_t *sites; /* as many as callers.stack_count, and 1 at least */
  total_t all;
  heap_total_t *heaps; /* by the numbers of names that the trace has; NULL: all is malloc()'s, or it is not known */

  /* of a profile */
  uint64_t distance;      /* of two samples, in bytes; 0: each block is in it */
  uint64_t sampled[SUMS]; /* blocks from which the sums are reckoned */

  /* of a recording */
  trace_t trace;
  uint64_t peak_ns;
  point_t points[POINTS + 1]; /* the most that was live in each part of the time */
  size_t point_count;
  uint64_t lives[SIZE_ROWS][LIFE_COLUMNS]; /* blocks by the logarithm of their size, and how long they lived */
} show_t;

/* What of a file is looked at. */
typedef struct part {
  const char *heap;  /* heaps and object pools of that name; NULL: all */
  bool may_lack;     /* there need be none */
  bool with_lines;   /* functions have the line of the call */
  uint64_t until_ns; /* of a recording what was done until then; UINT64_MAX: all */
} part_t;

/* Reads a recording or a profile, with names and sums. What is neither ends the program; `command` is the name of the
 * subcommand. */
void show_read(show_t *show, const char *command, const char *path, const part_t *part);
void show_free(show_t *show);

size_t show_site_count(const show_t *show); /* one at least */
static inline bool total_is_none(const total_t *total) { return !total->blocks[SUM_END] && !total->blocks[SUM_ALLOCATED]; }

/* A profile in words; and that a figure is reckoned from few samples. */
void show_print_samples(const show_t *show, FILE *to);
void show_print_few(const show_t *show, uint64_t blocks, uint64_t samples, FILE *to);

void show_sum(show_t *show);
void show_print(const show_t *show, FILE *to, size_t sites);
void show_write_page(const show_t *show, FILE *to);

#endif
