/* SPDX-License-Identifier: MIT
 *
 * Times, counted by their length: each nanosecond up to 32, and sixteen steps for each factor of two from there on, so what is
 * read from it is at most a sixteenth wrong. It is of a fixed size, and adding takes some instructions. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_STEPS_LOG2 = 4, HISTOGRAM_BINS = (64 - HISTOGRAM_STEPS_LOG2 + 1) << HISTOGRAM_STEPS_LOG2 };

typedef struct histogram {
  uint64_t bins[HISTOGRAM_BINS];
  uint64_t count, longest;
} histogram_t;

static inline size_t histogram_bin(uint64_t ns)
{
  if (ns >> (HISTOGRAM_STEPS_LOG2 + 1) == 0)
    return (size_t)ns;
  unsigned shift = 63 - HISTOGRAM_STEPS_LOG2 - (unsigned)__builtin_clzll(ns);
  return ((size_t)shift << HISTOGRAM_STEPS_LOG2) + (size_t)(ns >> shift);
}

/* The least that is counted in a bin. */
static inline uint64_t histogram_least(size_t bin)
{
  if (bin >> (HISTOGRAM_STEPS_LOG2 + 1) == 0)
    return bin;
  size_t shift = (bin >> HISTOGRAM_STEPS_LOG2) - 1;
  return (uint64_t)(bin - (shift << HISTOGRAM_STEPS_LOG2)) << shift;
}

static inline void histogram_add(histogram_t *histogram, uint64_t ns)
{
  histogram->bins[histogram_bin(ns)]++;
  histogram->count++;
  histogram->longest = ns > histogram->longest ? ns : histogram->longest;
}

/* What that share of all is not longer than. */
static inline uint64_t histogram_at(const histogram_t *histogram, double share)
{
  uint64_t wanted = (uint64_t)(share * (double)histogram->count), seen = 0;
  for (size_t i = 0; i < HISTOGRAM_BINS; i++) {
    seen += histogram->bins[i];
    if (seen > wanted)
      return histogram_least(i);
  }
  return histogram->longest;
}

#endif
