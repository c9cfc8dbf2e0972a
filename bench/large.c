/* SPDX-License-Identifier: MIT
 * Large blocks of random sizes in random slots, every page written to. An allocator that returns each to the system pays
 * for its pages again; one that keeps them all pays in memory. */
#include "bench.h"

typedef struct large {
  size_t least, most, count;
  random_t random;
  void **slots;
} large_t;

static void put(large_t *large, size_t at)
{
  size_t size = large->least + random_below(&large->random, large->most - large->least);
  large->slots[at] = taken_whole(bench_alloc(size), size);
}

static void replace(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  large_t large = {of->size / 16, of->size, of->count, random_for(state), bench_scratch(state)};
  for (size_t i = 0; i < large.count; i++)
    put(&large, i);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    size_t at = random_below(&large.random, large.count);
    bench_free(large.slots[at]);
    put(&large, at);
  }
  bench_end(state, rounds);
  for (size_t i = 0; i < large.count; i++)
    bench_free(large.slots[i]);
  bench_live(state, (large.least + large.most) / 2 * large.count);
}

static const bench_case_t cases[] = {
  {"large/1m", "replace one of 32 blocks, 64 KiB to 1 MiB", replace, .size = 1 * MIB, .count = 32, .brief = true},
  {"large/16m", "replace one of 8 blocks, 1 to 16 MiB", replace, .size = 16 * MIB, .count = 8, .brief = true},
};

BENCH_SUBJECT(large, cases);
