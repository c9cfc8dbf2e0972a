/* SPDX-License-Identifier: MIT
 *
 * The time of every single call, as percentiles. The live set fills, is turned over at random, empties and is turned over
 * again, in phases of 16,384 steps, so that the slow ways through an allocator are walked too. What the caller then does
 * with a block is not in the time.
 *
 * A histogram has 32 buckets for each doubling, so a percentile is right to 3 %. All threads share one. */
#include "bench.h"
#include "sizes.h"
#include "timer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PHASE_LOG2 = 14, SUB_LOG2 = 5, SUBS = 1 << SUB_LOG2, BUCKETS = (64 - SUB_LOG2 + 1) * SUBS };

typedef struct histogram {
  uint64_t count[BUCKETS];
  uint64_t longest;
} histogram_t;

typedef struct timed {
  histogram_t alloc, free, nothing; /* nothing: what the clock itself takes */
} timed_t;

typedef struct run {
  timed_t timed;
  sizes_t sizes;
  size_t slots;
  void *block[];
} run_t;

static struct {
  atomic_flag locked;
  timed_t timed;
} shared = {.locked = ATOMIC_FLAG_INIT};

static inline size_t bucket_of(uint64_t ticks)
{
  if (ticks < SUBS)
    return (size_t)ticks;
  unsigned shift = 63 - SUB_LOG2 - (unsigned)__builtin_clzll(ticks);
  return ((size_t)(shift + 1) << SUB_LOG2) + (size_t)((ticks >> shift) & (SUBS - 1));
}

/* The middle of a bucket's range. */
static double bucket_ticks(size_t bucket)
{
  if (bucket < SUBS)
    return (double)bucket;
  size_t shift = (bucket >> SUB_LOG2) - 1;
  return ((double)(SUBS + (bucket & (SUBS - 1))) + 0.5) * (double)((uint64_t)1 << shift);
}

static inline void note(histogram_t *histogram, uint64_t ticks)
{
  histogram->count[bucket_of(ticks)]++;
  if (ticks > histogram->longest)
    histogram->longest = ticks;
}

static void add(histogram_t *sum, const histogram_t *part)
{
  for (size_t i = 0; i < BUCKETS; i++)
    sum->count[i] += part->count[i];
  if (part->longest > sum->longest)
    sum->longest = part->longest;
}

/* `share` of all calls took at most this. */
static double percentile(const histogram_t *histogram, double share)
{
  uint64_t all = 0, below = 0;
  for (size_t i = 0; i < BUCKETS; i++)
    all += histogram->count[i];
  for (size_t i = 0; i < BUCKETS; i++) {
    below += histogram->count[i];
    if ((double)below >= share * (double)all)
      return bucket_ticks(i);
  }
  return 0;
}

static void report(bench_state_t *state, const char *call, const histogram_t *histogram, double ticks_a_ns)
{
  static const struct {
    const char *name;
    double share;
  } wanted[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};
  char name[32];
  for (size_t i = 0; i < COUNT_OF(wanted); i++) {
    snprintf(name, sizeof name, "%s_%s_ns", call, wanted[i].name);
    bench_figure(state, name, percentile(histogram, wanted[i].share) / ticks_a_ns);
  }
  snprintf(name, sizeof name, "%s_max_ns", call);
  bench_figure(state, name, (double)histogram->longest / ticks_a_ns);
}

static void timed_alloc(run_t *run, size_t at, random_t *random)
{
  size_t size = run->sizes.drawn[random_below(random, SIZES_DRAWN)];
  uint64_t start = timer_start();
  void *block = bench_alloc(size);
  note(&run->timed.alloc, timer_stop() - start);
  run->block[at] = taken_whole(block, size);
}

static void timed_free(run_t *run, size_t at)
{
  void *block = run->block[at];
  run->block[at] = NULL;
  uint64_t start = timer_start();
  bench_free(block);
  note(&run->timed.free, timer_stop() - start);
}

static void timed_nothing(run_t *run)
{
  uint64_t start = timer_start();
  note(&run->timed.nothing, timer_stop() - start);
}

/* Phases: fill, turn over, empty, turn over. A slot that does not suit the phase is passed by. */
static void step(run_t *run, uint64_t i, random_t *random)
{
  enum { FILL, EMPTY = 2 };
  unsigned phase = (i >> PHASE_LOG2) & 3;
  size_t at = random_below(random, run->slots);
  bool occupied = run->block[at] != NULL;
  if (occupied && phase != FILL)
    timed_free(run, at);
  if (phase == EMPTY || (phase == FILL && occupied))
    return;
  timed_alloc(run, at, random);
}

static void share(timed_t *timed)
{
  while (atomic_flag_test_and_set_explicit(&shared.locked, memory_order_acquire)) {}
  add(&shared.timed.alloc, &timed->alloc);
  add(&shared.timed.free, &timed->free);
  add(&shared.timed.nothing, &timed->nothing);
  atomic_flag_clear_explicit(&shared.locked, memory_order_release);
}

static void latency(bench_state_t *state)
{
  run_t *run = bench_scratch(state);
  memset(run, 0, sizeof *run);
  run->slots = bench_case_of(state)->count;
  memset(run->block, 0, run->slots * sizeof *run->block);
  sizes_draw(&run->sizes, SIZES_PROGRAM);
  random_t random = random_for(state);
  if (bench_thread(state) == 0)
    memset(&shared.timed, 0, sizeof shared.timed);
  const uint64_t rounds = bench_begin(state);
  const uint64_t ns = timer_nanoseconds(), ticks = timer_start();
  for (uint64_t i = 0; i < rounds; i++) {
    step(run, i, &random);
    timed_nothing(run);
  }
  const double ticks_a_ns = (double)(timer_stop() - ticks) / (double)(timer_nanoseconds() - ns + 1);
  share(&run->timed);
  bench_end(state, rounds);
  for (size_t i = 0; i < run->slots; i++)
    bench_free(run->block[i]);
  bench_live(state, run->slots * run->sizes.mean);
  if (bench_thread(state) == 0) {
    report(state, "alloc", &shared.timed.alloc, ticks_a_ns);
    report(state, "free", &shared.timed.free, ticks_a_ns);
    bench_figure(state, "clock_ns", percentile(&shared.timed.nothing, 0.5) / ticks_a_ns);
  }
}

static const bench_case_t cases[] = {
  {"latency/program", "a step in a live set that fills and empties, half up to 64 bytes, tail to 32 KiB, each call timed",
   latency, .count = 8000, .threads = RUN_THREADS(1) | RUN_THREADS(2), .brief = true},
};

BENCH_SUBJECT(latency, cases);
