/* SPDX-License-Identifier: MIT
 * Allocate, free, and again: the shortest way through an allocator, with everything it touches in the first cache. */
#include "bench.h"

static void pairs(bench_state_t *state)
{
  const size_t size = bench_case_of(state)->size;
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    bench_free(taken(bench_alloc(size)));
  bench_end(state, rounds);
  bench_live(state, size);
}

static const bench_case_t cases[] = {
  {"pairs/16", "allocate and free 16 bytes", pairs, .size = 16, .brief = true},
  {"pairs/200", "allocate and free 200 bytes", pairs, .size = 200, .brief = true},
  {"pairs/2000", "allocate and free 2,000 bytes", pairs, .size = 2000},
  {"pairs/20000", "allocate and free 20,000 bytes", pairs, .size = 20000, .brief = true},
};

BENCH_SUBJECT(pairs, cases);
