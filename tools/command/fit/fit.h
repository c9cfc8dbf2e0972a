/* SPDX-License-Identifier: MIT
 *
 * Which size classes, and which budget, a program would do with: all of its blocks go to one heap, in the recorded order. */
#ifndef FIT_H
#define FIT_H

#include "recording/trace.h"

enum { FIT_CLASSES_MOST = 104, FIT_STEP = 16, FIT_CLASS_MOST = 256 << 10 };

typedef struct classes {
  size_t of[FIT_CLASSES_MOST];
  size_t count; /* 0: the built-in ones */
} classes_t;

/* What blocks of each size were live, and for how long: the integral over time, by steps of FIT_STEP. */
typedef struct sizes {
  double *held; /* of each multiple; blocks times nanoseconds */
  size_t steps;
  double duration;
} sizes_t;
void sizes_measure(sizes_t *sizes, const trace_t *trace);
void sizes_free(sizes_t *sizes);

/* The classes that leave the least over, at most so many. Only sizes that blocks have are one. */
void sizes_fit(const sizes_t *sizes, size_t most, classes_t *classes);

typedef struct trial {
  double internal;      /* bytes that blocks have and nobody asked for, on average over time */
  double mean;          /* held bytes, likewise */
  uint64_t peak;        /* of held bytes */
  uint64_t peak_usable; /* of what blocks take, without what the heap holds besides */
  uint64_t refused;
  size_t first_refused; /* the act; valid if any was */
  bool is_made;         /* false: no heap has such a budget */
} trial_t;

/* Does all of it on a heap with these classes and that budget; 0: none. With `until_refused` it ends at the first. */
void fit_try(const trace_t *trace, const classes_t *classes, uint64_t budget, bool until_refused, trial_t *trial);

#endif
