/* SPDX-License-Identifier: MIT
 * A batch of blocks is allocated, then all of it freed: in the order of allocation, as queues do, or in the reverse, as
 * stacks do. A thousand blocks fit what allocators keep at hand for a thread; a hundred thousand do not. */
#include "bench.h"

static void allocate_batch(void **batch, size_t count, size_t size)
{
  for (size_t i = 0; i < count; i++)
    batch[i] = taken(bench_alloc(size));
}

static void in_order(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  void **batch = bench_scratch(state);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t round = 0; round < rounds; round++) {
    allocate_batch(batch, of->count, of->size);
    for (size_t i = 0; i < of->count; i++)
      bench_free(batch[i]);
  }
  bench_end(state, rounds * of->count);
  bench_live(state, of->size * of->count);
}

static void reversed(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  void **batch = bench_scratch(state);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t round = 0; round < rounds; round++) {
    allocate_batch(batch, of->count, of->size);
    for (size_t i = of->count; i-- > 0;)
      bench_free(batch[i]);
  }
  bench_end(state, rounds * of->count);
  bench_live(state, of->size * of->count);
}

static const bench_case_t cases[] = {
  {"batches/in_order_1k", "1,000 blocks of 64 bytes, freed in order: one of them", in_order, .size = 64, .count = 1000,
   .brief = true},
  {"batches/reversed_1k", "1,000 blocks of 64 bytes, freed in reverse: one of them", reversed, .size = 64, .count = 1000,
   .brief = true},
  {"batches/in_order_100k", "100,000 blocks of 64 bytes, freed in order: one of them", in_order, .size = 64, .count = 100000,
   .brief = true},
  {"batches/reversed_100k", "100,000 blocks of 64 bytes, freed in reverse: one of them", reversed, .size = 64, .count = 100000},
};

BENCH_SUBJECT(batches, cases);
