/* SPDX-License-Identifier: MIT
 *
 * How much of what is to go back one caller gives back. A program that comes by often pays a little each time. One that seldom
 * does would keep its memory for long: it pays for the time that has passed. */
#ifndef PACE_H
#define PACE_H

#include "base/bits.h"

enum { STEP_MS = 4, STEPS_MOST = 128 };

/* When the last caller came; 0: there was none yet. */
typedef uint64_t pace_t;

/* Returns how many steps the caller makes at once. It may have read the clock before another did, who came first. Any thread
 * may call this; a time that is lost between two of them makes no difference. */
static inline size_t pace_steps(pace_t *pace, uint64_t now_ms)
{
  uint64_t last = __atomic_load_n(pace, __ATOMIC_RELAXED), since = last && now_ms > last ? now_ms - last : 0;
  if (now_ms != last)
    __atomic_store_n(pace, now_ms, __ATOMIC_RELAXED);
  return max_size(min_size(since / STEP_MS, STEPS_MOST), 1);
}

#endif
