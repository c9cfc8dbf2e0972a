/* SPDX-License-Identifier: MIT
 *
 * The random-slots workload: an array of blocks, and at every step one of them, chosen at random, is freed and replaced by
 * a new one of a random size. Lifetimes are exponential, sizes mix in memory, and the live set keeps its size. */
#ifndef BENCH_SLOTS_H
#define BENCH_SLOTS_H

#include "bench.h"
#include "sizes.h"

typedef struct slots {
  sizes_t sizes;
  size_t count;
  void *block[];
} slots_t;

enum { SLOTS_MOST = (SCRATCH_SIZE - sizeof(slots_t)) / sizeof(void *) };

static inline size_t slots_size(const slots_t *slots, random_t *random)
{
  return slots->sizes.drawn[random_below(random, SIZES_DRAWN)];
}

static inline void slots_put(slots_t *slots, size_t at, random_t *random)
{
  size_t size = slots_size(slots, random);
  slots->block[at] = taken_whole(bench_alloc(size), size);
}

static inline slots_t *slots_fill(const bench_state_t *state, size_t count, distribution_t distribution, random_t *random)
{
  slots_t *slots = bench_scratch(state);
  sizes_draw(&slots->sizes, distribution);
  slots->count = smaller(count, SLOTS_MOST);
  for (size_t i = 0; i < slots->count; i++)
    slots_put(slots, i, random);
  return slots;
}

static inline void slots_replace(slots_t *slots, random_t *random, uint64_t rounds)
{
  for (uint64_t i = 0; i < rounds; i++) {
    size_t at = random_below(random, slots->count);
    bench_free(slots->block[at]);
    slots_put(slots, at, random);
  }
}

static inline void slots_empty(slots_t *slots)
{
  for (size_t i = 0; i < slots->count; i++)
    bench_free(slots->block[i]);
}

static inline size_t slots_live(const slots_t *slots) { return slots->count * slots->sizes.mean; }

typedef void slots_step_fn(slots_t *slots, random_t *random, uint64_t rounds);

/* A case: fills the slots, lets `step` change so many of them one after the other, and empties them. */
static inline __attribute__((always_inline)) void slots_change(bench_state_t *state, distribution_t distribution,
                                                               slots_step_fn *step)
{
  random_t random = random_for(state);
  slots_t *slots = slots_fill(state, bench_case_of(state)->count, distribution, &random);
  const uint64_t rounds = bench_begin(state);
  step(slots, &random, rounds);
  bench_end(state, rounds);
  slots_empty(slots);
  bench_live(state, slots_live(slots));
}

static inline void slots_run(bench_state_t *state, distribution_t distribution)
{
  slots_change(state, distribution, slots_replace);
}

#endif
