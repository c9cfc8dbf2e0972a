/* SPDX-License-Identifier: MIT
 *
 * google-benchmark for C. It decides how often a case runs, starts its threads, takes the time and writes the JSON; the
 * case itself, with its loop, is C. The two meet at bench_begin() and bench_end(), once each for a run, so that nothing
 * of C++ is between the iterations, and no exception passes through a C frame. */
#ifndef BENCH_SHIM_H
#define BENCH_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_state bench_state_t;
typedef void bench_body_fn(bench_state_t *state);

typedef struct bench_case {
  const char *name; /* "subject/case": lower-case letters, digits, underscores */
  const char *what; /* one operation of it, in words */
  bench_body_fn *body;
  size_t size; /* these two are for the body to interpret */
  size_t count;
  unsigned threads; /* RUN_THREADS(n) | ...: one run for each n, by the clock. 0: one thread, by processor time */
  bool brief;       /* part of the five-minute selection */
} bench_case_t;

#define RUN_THREADS(n)     (1u << (n))
#define RUN_THREADS_1_TO_4 (RUN_THREADS(1) | RUN_THREADS(2) | RUN_THREADS(3) | RUN_THREADS(4))

#ifndef BENCH_THREADS
#define BENCH_THREADS 4
#endif
enum { BENCH_MAX_THREADS = BENCH_THREADS };

typedef struct bench_subject {
  const bench_case_t *cases;
  size_t count;
} bench_subject_t;

/* For the body of a case, which every thread of a run enters. */
const bench_case_t *bench_case_of(const bench_state_t *state);
unsigned bench_thread(const bench_state_t *state); /* from 0 */
unsigned bench_threads(const bench_state_t *state);
uint64_t bench_begin(bench_state_t *state); /* starts the time, all threads at once; returns the iterations to do */
void bench_end(bench_state_t *state, uint64_t operations); /* stops it. `operations` of this thread; time is reported for one */
void bench_live(bench_state_t *state, size_t bytes);       /* most bytes this thread had live at once, as requested */
void bench_figure(bench_state_t *state, const char *name, double value); /* one more figure; those of several threads add up */

/* Runs what the arguments say; returns the exit status. */
int bench_run(int argc, char **argv, const char *allocator, const bench_subject_t *const *subjects, size_t subject_count);

#ifdef __cplusplus
}
#endif

#endif
