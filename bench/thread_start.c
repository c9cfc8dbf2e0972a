/* SPDX-License-Identifier: MIT
 * What a thread's first allocations and its exit cost. It leaves half of its blocks to whoever joins it. One operation is
 * one thread; creating and joining it is part of the time. */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct errand {
  void **blocks;
  size_t count;
} errand_t;

static void *run_errand(void *argument)
{
  errand_t *errand = argument;
  for (size_t i = 0; i < errand->count; i++)
    errand->blocks[i] = taken(bench_alloc(16 + 48 * (i % 21)));
  for (size_t i = 0; i < errand->count; i += 2)
    bench_free(errand->blocks[i]);
  return NULL;
}

static void send_off(errand_t *errand)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_errand, errand) != 0) {
    fputs("bench: no more threads\n", stderr);
    _Exit(EXIT_FAILURE);
  }
  pthread_join(thread, NULL);
  for (size_t i = 1; i < errand->count; i += 2)
    bench_free(errand->blocks[i]);
}

static void thread_start(bench_state_t *state)
{
  errand_t errand = {bench_scratch(state), bench_case_of(state)->count};
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    send_off(&errand);
  bench_end(state, rounds);
  bench_live(state, errand.count * 496);
}

static const bench_case_t cases[] = {
  {"thread_start/1", "a thread that allocates and frees one block", thread_start, .count = 1, .brief = true},
  {"thread_start/1k", "a thread that allocates 1,000 blocks up to 976 bytes and frees half", thread_start, .count = 1000,
   .brief = true},
};

BENCH_SUBJECT(thread_start, cases);
