/* SPDX-License-Identifier: MIT */
#include "soak_clock.h"
#include <time.h>

double clock_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void clock_pause(unsigned ms) { nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL); }

void clock_work(unsigned ms) { (void)ms; }
