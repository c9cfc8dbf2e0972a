/* SPDX-License-Identifier: MIT
 * Blocks with an alignment beyond the natural one, in a queue: a cache line, a page, a huge page's half. */
#include "fifo.h"

static inline void *take_line(size_t size) { return bench_aligned_alloc(64, size); }

static inline void *take_page(size_t size) { return bench_aligned_alloc(PAGE, size); }

static inline void *take_mib(size_t size) { return bench_aligned_alloc(MIB, size); }

static void line(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  fifo_run(state, of->size, of->count, take_line);
}

static void page(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  fifo_run(state, of->size, of->count, take_page);
}

static void mib(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  fifo_run(state, of->size, of->count, take_mib);
}

static const bench_case_t cases[] = {
  {"aligned/line", "replace the oldest of 1,000 blocks of 192 bytes aligned to 64", line, .size = 192, .count = 1000,
   .brief = true},
  {"aligned/page", "replace the oldest of 200 blocks of 4 KiB aligned to 4 KiB", page, .size = 4 * KIB, .count = 200,
   .brief = true},
  {"aligned/1m", "replace the oldest of 4 blocks of 256 KiB aligned to 1 MiB", mib, .size = 256 * KIB, .count = 4},
};

BENCH_SUBJECT(aligned, cases);
