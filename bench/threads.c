/* SPDX-License-Identifier: MIT
 * One to four threads that share nothing but the allocator. Time is for one operation of all threads together: half with
 * two threads is perfect. */
#include "slots.h"

static void pairs(bench_state_t *state)
{
  const size_t size = bench_case_of(state)->size;
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    bench_free(taken(bench_alloc(size)));
  bench_end(state, rounds);
  bench_live(state, size);
}

static void slots(bench_state_t *state) { slots_run(state, SIZES_PROGRAM); }

static const bench_case_t cases[] = {
  {"threads/pairs", "allocate and free 64 bytes in every thread", pairs, .size = 64, .threads = RUN_THREADS_1_TO_4},
  {"threads/slots", "replace one of 2,000 blocks in every thread, half up to 64 bytes, tail to 32 KiB", slots, .count = 2000,
   .threads = RUN_THREADS_1_TO_4, .brief = true},
};

BENCH_SUBJECT(threads, cases);
