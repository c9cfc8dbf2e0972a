/* SPDX-License-Identifier: MIT
 * Time of one call, in ticks of the cheapest clock there is. A fence keeps what comes before out of the measured part. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include <stdint.h>
#include <time.h>

static inline uint64_t timer_nanoseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
#include <x86intrin.h>

static inline uint64_t timer_start(void)
{
  _mm_lfence();
  uint64_t now = __rdtsc();
  _mm_lfence();
  return now;
}

static inline uint64_t timer_stop(void)
{
  unsigned processor;
  uint64_t now = __rdtscp(&processor);
  _mm_lfence();
  return now;
}
#else
static inline uint64_t timer_start(void) { return timer_nanoseconds(); }

static inline uint64_t timer_stop(void) { return timer_nanoseconds(); }
#endif

#endif
