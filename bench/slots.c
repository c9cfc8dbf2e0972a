/* SPDX-License-Identifier: MIT
 * Random slots (slots.h), with three distributions of sizes. */
#include "slots.h"

static void replace(bench_state_t *state, distribution_t distribution)
{
  random_t random = random_for(state);
  slots_t *slots = slots_fill(state, bench_case_of(state)->count, distribution, &random);
  const uint64_t rounds = bench_begin(state);
  slots_replace(slots, &random, rounds);
  bench_end(state, rounds);
  slots_empty(slots);
  bench_live(state, slots_live(slots));
}

static void small(bench_state_t *state)
{
  replace(state, SIZES_SMALL);
}

static void wide(bench_state_t *state)
{
  replace(state, SIZES_WIDE);
}

static void program(bench_state_t *state)
{
  replace(state, SIZES_PROGRAM);
}

static const bench_case_t cases[] = {
  {"slots/small", "replace one of 10,000 blocks, 8 to 263 bytes", small, .count = 10000, .brief = true},
  {"slots/wide", "replace one of 2,000 blocks, 16 bytes to 8 KiB, each octave as likely", wide, .count = 2000, .brief = true},
  {"slots/program", "replace one of 10,000 blocks, half up to 64 bytes, tail to 32 KiB", program, .count = 10000, .brief = true},
  {"slots/program_100k", "replace one of 100,000 blocks, half up to 64 bytes, tail to 32 KiB", program, .count = 100000},
};

BENCH_SUBJECT(slots, cases);
