/* SPDX-License-Identifier: MIT
 * One size for each decade, from 10 bytes to 10 MB, in a queue of some 4 MB but at least 4 and at most 1,000 blocks. Every
 * page is written to, so from 10 kB on the time is mostly that of pages: used again, or fresh from the system. */
#include "fifo.h"

static inline void *take(size_t size) { return bench_alloc(size); }

static void decade(bench_state_t *state)
{
  const size_t size = bench_case_of(state)->size;
  fifo_run(state, size, larger(4, smaller(1000, 4000000 / size)), take);
}

static const bench_case_t cases[] = {
  {"decades/10", "replace the oldest of 1,000 blocks of 10 bytes", decade, .size = 10, .brief = true},
  {"decades/100", "replace the oldest of 1,000 blocks of 100 bytes", decade, .size = 100},
  {"decades/1k", "replace the oldest of 1,000 blocks of 1 kB", decade, .size = 1000, .brief = true},
  {"decades/10k", "replace the oldest of 400 blocks of 10 kB", decade, .size = 10000},
  {"decades/100k", "replace the oldest of 40 blocks of 100 kB", decade, .size = 100000, .brief = true},
  {"decades/1m", "replace the oldest of 4 blocks of 1 MB", decade, .size = 1000000},
  {"decades/10m", "replace the oldest of 4 blocks of 10 MB", decade, .size = 10000000},
};

BENCH_SUBJECT(decades, cases);
