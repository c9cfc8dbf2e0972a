/* SPDX-License-Identifier: MIT
 * A server's life after Larson and Krishnan ("Memory allocation for long-running server applications", ISMM 1998): a worker
 * replaces blocks at random in the slots it was given, ends, and leaves them to a new worker. So blocks outlive the thread
 * that allocated them, and threads come and go. */
#include "slots.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS_A_WORKER = 50000 };

typedef struct shift {
  slots_t *slots;
  random_t random;
  uint64_t rounds;
} shift_t;

static void *work(void *argument)
{
  shift_t *shift = argument;
  slots_replace(shift->slots, &shift->random, shift->rounds);
  return NULL;
}

static void hand_to_new_worker(shift_t *shift)
{
  pthread_t worker;
  if (pthread_create(&worker, NULL, work, shift) != 0) {
    fputs("bench: no more threads\n", stderr);
    _Exit(EXIT_FAILURE);
  }
  pthread_join(worker, NULL);
}

static void churn(bench_state_t *state)
{
  random_t random = random_for(state);
  slots_t *slots = slots_fill(state, bench_case_of(state)->count, SIZES_SMALL, &random);
  shift_t shift = {slots, random, 0};
  const uint64_t rounds = bench_begin(state);
  for (uint64_t done = 0; done < rounds; done += shift.rounds) {
    shift.rounds = smaller(rounds - done, ROUNDS_A_WORKER);
    hand_to_new_worker(&shift);
  }
  bench_end(state, rounds);
  slots_empty(slots);
  bench_live(state, slots_live(slots));
}

static const bench_case_t cases[] = {
  {"churn/workers", "replace one of 5,000 blocks in every thread, which a new worker takes over every 50,000", churn,
   .count = 5000, .threads = RUN_THREADS_1_TO_4, .brief = true},
};

BENCH_SUBJECT(churn, cases);
