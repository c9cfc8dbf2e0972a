/* SPDX-License-Identifier: MIT
 * The queue workload: `count` blocks are live, and each new one pushes out the oldest. */
#ifndef BENCH_FIFO_H
#define BENCH_FIFO_H

#include "bench.h"

typedef void *take_block_fn(size_t size);

/* `take` is a static inline function of the subject; inlined with it, its call of the allocator is direct. */
__attribute__((always_inline)) static inline void fifo_run(bench_state_t *state, size_t size, size_t count, take_block_fn *take)
{
  void **queue = bench_scratch(state);
  for (size_t i = 0; i < count; i++)
    queue[i] = taken_whole(take(size), size);
  const uint64_t rounds = bench_begin(state);
  size_t oldest = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    bench_free(queue[oldest]);
    queue[oldest] = taken_whole(take(size), size);
    oldest = oldest + 1 < count ? oldest + 1 : 0;
  }
  bench_end(state, rounds);
  for (size_t i = 0; i < count; i++)
    bench_free(queue[i]);
  bench_live(state, size * count);
}

#endif
