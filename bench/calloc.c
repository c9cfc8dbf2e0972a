/* SPDX-License-Identifier: MIT
 * Zeroed blocks in a queue. Small ones cost their memset; large ones show whether fresh pages, zero already, are zeroed
 * again, and whether used ones are zeroed or exchanged for fresh ones. And a mix of sizes, as programs have it. */
#include "fifo.h"
#include "slots.h"

static inline void *take(size_t size) { return bench_calloc(1, size); }

static void zeroed(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  fifo_run(state, of->size, of->count, take);
}

static void replace_zeroed(slots_t *slots, random_t *random, uint64_t rounds)
{
  for (uint64_t i = 0; i < rounds; i++) {
    size_t at = random_below(random, slots->count);
    bench_free(slots->block[at]);
    slots->block[at] = taken(take(slots_size(slots, random)));
  }
}

static void program(bench_state_t *state) { slots_change(state, SIZES_PROGRAM, replace_zeroed); }
static void small(bench_state_t *state) { slots_change(state, SIZES_SMALL, replace_zeroed); }

static const bench_case_t cases[] = {
  {"calloc/64", "replace the oldest of 100 zeroed blocks of 64 bytes", zeroed, .size = 64, .count = 100, .brief = true},
  {"calloc/1k", "replace the oldest of 100 zeroed blocks of 1 kB", zeroed, .size = 1000, .count = 100},
  {"calloc/100k", "replace the oldest of 10 zeroed blocks of 100 kB", zeroed, .size = 100000, .count = 10, .brief = true},
  {"calloc/program", "replace one of 10,000 zeroed blocks, half up to 64 bytes, tail to 32 KiB", program, .count = 10000,
   .brief = true},
  {"calloc/small", "replace one of 10,000 zeroed blocks of 8 to 263 bytes", small, .count = 10000},
  {"calloc/10m", "replace the oldest of 2 zeroed blocks of 10 MB", zeroed, .size = 10000000, .count = 2},
};

BENCH_SUBJECT(calloc, cases);
