/* SPDX-License-Identifier: MIT
 * Random slots (slots.h), with three distributions of sizes. */
#include "slots.h"

static void small(bench_state_t *state) { slots_run(state, SIZES_SMALL); }

static void wide(bench_state_t *state) { slots_run(state, SIZES_WIDE); }

static void program(bench_state_t *state) { slots_run(state, SIZES_PROGRAM); }

static const bench_case_t cases[] = {
  {"slots/small", "replace one of 10,000 blocks, 8 to 263 bytes", small, .count = 10000, .brief = true},
  {"slots/wide", "replace one of 2,000 blocks, 16 bytes to 8 KiB, each octave as likely", wide, .count = 2000, .brief = true},
  {"slots/program", "replace one of 10,000 blocks, half up to 64 bytes, tail to 32 KiB", program, .count = 10000,
   .brief = true},
  {"slots/program_100k", "replace one of 100,000 blocks, half up to 64 bytes, tail to 32 KiB", program, .count = 100000},
};

BENCH_SUBJECT(slots, cases);
