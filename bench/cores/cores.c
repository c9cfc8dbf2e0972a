/* SPDX-License-Identifier: MIT
 *
 * Runs a case of the benchmarks in as many threads as wanted, without google-benchmark, and says what many_cores.py has to
 * know: how long it took and, where the library counts them, which locks its threads took.
 *
 * usage: cores CASE THREADS SECONDS     of processor time; one line of JSON, or more with locks
 *        cores --machine                what the machine takes for a cache line, a sleeper, and two threads at once
 *
 * The body of a case runs with more and more rounds, until it takes at least half of the processor time that is wanted, and has
 * so many rounds that those with which it begins do not count: there each thread touches new memory and fills its magazines. */
#undef pthread_create
#include "cores.h"
#include "bench.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_ROUNDS = 2000, LEAST_ROUNDS = 64000, GROWTH = 8, STACK_BYTES = 256 * KIB };

extern const bench_subject_t slots_subject, churn_subject, handover_subject, object_pools_subject;
static const bench_subject_t *const subjects[] = {&slots_subject, &churn_subject, &handover_subject, &object_pools_subject};

struct bench_state {
  const bench_case_t *of;
  unsigned thread, threads;
  uint64_t rounds, operations, begin_ns, end_ns;
  uint64_t begin_processor_ns, end_processor_ns; /* the process's */
  char *scratch;
  recorded_t *recorded;
  pthread_t id;
};

static struct bench_state states[BENCH_MAX_THREADS];
static pthread_barrier_t together;

static uint64_t clock_ns(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static uint64_t processor_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static _Noreturn void fail(const char *what)
{
  fprintf(stderr, "cores: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

static void *map(size_t bytes)
{
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail("memory");
  return memory;
}

/* ---- what a subject calls ---- */

const bench_case_t *bench_case_of(const bench_state_t *state) { return state->of; }
unsigned bench_thread(const bench_state_t *state) { return state->thread; }
unsigned bench_threads(const bench_state_t *state) { return state->threads; }
void *bench_scratch(const bench_state_t *state) { return state->scratch; }
void bench_live(bench_state_t *state, size_t bytes) { (void)state, (void)bytes; }
void bench_figure(bench_state_t *state, const char *name, double value) { (void)state, (void)name, (void)value; }

_Noreturn void bench_out_of_memory(void)
{
  fputs("cores: out of memory\n", stderr);
  exit(EXIT_FAILURE);
}

/* Threads begin at once, when all have set up. */
uint64_t bench_begin(bench_state_t *state)
{
  pthread_barrier_wait(&together);
  if (state->recorded)
    record_start(state->recorded);
  state->begin_processor_ns = processor_ns();
  state->begin_ns = now_ns();
  return state->rounds;
}

/* What comes after the time is not done before all have ended: it would slow down those that still run. */
void bench_end(bench_state_t *state, uint64_t operations)
{
  state->end_ns = now_ns();
  state->end_processor_ns = processor_ns();
  if (state->recorded)
    record_stop();
  state->operations = operations;
  pthread_barrier_wait(&together);
}

/* ---- threads that subjects start ---- */

typedef struct begin {
  void *(*body)(void *);
  void *argument;
  recorded_t *recorded;
  unsigned thread;
} begin_t;

/* It counts to its end, in which its magazines go back. */
static void *begin_counting(void *argument)
{
  begin_t begin = *(begin_t *)argument;
  free(argument);
  record_thread(begin.thread);
  if (begin.recorded)
    record_start(begin.recorded);
  return begin.body(begin.argument);
}

int cores_thread(pthread_t *id, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
  begin_t *begin = malloc(sizeof *begin);
  if (!begin)
    fail("memory");
  *begin = (begin_t){.body = body, .argument = argument};
  begin->recorded = record_current(&begin->thread);
  return pthread_create(id, attributes, begin_counting, begin);
}

/* ---- runs ---- */

static void *enter(void *argument)
{
  struct bench_state *state = argument;
  record_thread(state->thread);
  state->of->body(state);
  return NULL;
}

/* Returns how long it took, from the first that began to the last that ended, and the processor time meanwhile. */
static double run(const bench_case_t *of, unsigned threads, uint64_t rounds, double *processor)
{
  pthread_attr_t small;
  pthread_barrier_init(&together, NULL, threads);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, STACK_BYTES);
  for (unsigned i = 0; i < threads; i++) {
    struct bench_state *state = &states[i];
    recorded_t *recorded = state->recorded;
    char *scratch = state->scratch ? state->scratch : map(SCRATCH_SIZE);
    *state = (struct bench_state){.of = of, .thread = i, .threads = threads, .rounds = rounds, .scratch = scratch};
    if (recorded_bytes())
      state->recorded = recorded ? memset(recorded, 0, recorded_bytes()) : map(recorded_bytes());
    if (pthread_create(&state->id, &small, enter, state) != 0)
      fail("no more threads");
  }
  uint64_t begin = UINT64_MAX, end = 0, processor_begin = UINT64_MAX, processor_end = 0;
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(states[i].id, NULL);
    processor_begin = smaller(states[i].begin_processor_ns, processor_begin);
    processor_end = larger(states[i].end_processor_ns, processor_end);
    begin = smaller(states[i].begin_ns, begin);
    end = larger(states[i].end_ns, end);
  }
  pthread_barrier_destroy(&together);
  pthread_attr_destroy(&small);
  *processor = (double)(processor_end - processor_begin) / 1e9;
  return (double)(end - begin) / 1e9;
}

static const bench_case_t *find(const char *name)
{
  for (size_t s = 0; s < COUNT_OF(subjects); s++)
    for (size_t c = 0; c < subjects[s]->count; c++)
      if (strcmp(subjects[s]->cases[c].name, name) == 0)
        return &subjects[s]->cases[c];
  return NULL;
}

static int run_case(const char *name, unsigned threads, double seconds)
{
  const bench_case_t *of = find(name);
  if (!of || threads < 1 || threads > BENCH_MAX_THREADS || !(seconds > 0)) {
    fprintf(stderr, "cores: no such case, or not 1 to %d threads: %s %u\n", BENCH_MAX_THREADS, name, threads);
    return EXIT_FAILURE;
  }
  record_init(threads);
  uint64_t rounds = FIRST_ROUNDS, operations = 0;
  double took, processor;
  while (took = run(of, threads, rounds, &processor), processor < seconds / 2 || rounds < LEAST_ROUNDS)
    rounds *= (uint64_t)larger(2, smaller(GROWTH, (size_t)(seconds / processor)));
  for (unsigned i = 0; i < threads; i++)
    operations += states[i].operations;
  printf(
    "{\"case\": \"%s\", \"threads\": %u, \"operations\": %llu, \"seconds\": %.6f, \"processor_seconds\": %.6f, \"locks\": [",
    name, threads, (unsigned long long)operations, took, processor);
  bool none = true;
  for (unsigned i = 0; i < threads; i++)
    if (states[i].recorded)
      none = record_print(states[i].recorded, i, none);
  puts("]}");
  return EXIT_SUCCESS;
}

/* ---- the machine ---- */

enum { TURNS = 200000, WAKES = 300, LOOPS = 100000000 };

static _Alignas(2 * LINE) uint32_t turn;
static _Alignas(2 * LINE) uint32_t asleep;
static uint64_t woken_ns;

static void *take_turns(void *unused)
{
  (void)unused;
  for (uint32_t i = 1; i < 2 * TURNS; i += 2) {
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != i)
      ;
    __atomic_store_n(&turn, i + 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void *sleep_often(void *unused)
{
  (void)unused;
  for (int i = 0; i < WAKES; i++) {
    __atomic_store_n(&asleep, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&asleep, __ATOMIC_ACQUIRE) == 1)
      syscall(SYS_futex, &asleep, FUTEX_WAIT_PRIVATE, 1, NULL);
    __atomic_store_n(&woken_ns, now_ns(), __ATOMIC_RELEASE);
  }
  return NULL;
}

/* Each on a processor of its own, if there are two. */
static void *count_down(void *processor)
{
  cpu_set_t usable, own;
  sched_getaffinity(0, sizeof usable, &usable);
  int at = 0;
  for (size_t left = (size_t)processor; at < CPU_SETSIZE - 1 && (!CPU_ISSET(at, &usable) || left--); at++) {}
  CPU_ZERO(&own);
  CPU_SET(at, &own);
  sched_setaffinity(0, sizeof own, &own);
  for (long i = LOOPS; i > 0; i--)
    __asm__ volatile("");
  return NULL;
}

static pthread_t start(void *(*body)(void *), size_t argument)
{
  pthread_t id;
  if (pthread_create(&id, NULL, body, (void *)argument) != 0)
    fail("no more threads");
  return id;
}

/* A line goes there and back in each turn. The least of some rounds: a round in which a thread had no processor says nothing.
 */
static double line_ns(void)
{
  enum { ROUND = 1000 };
  pthread_t other = start(take_turns, 0);
  uint64_t least = UINT64_MAX, began = now_ns();
  for (uint32_t i = 0; i < 2 * TURNS; i += 2) {
    __atomic_store_n(&turn, i + 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != i + 2)
      ;
    if (i % ROUND == ROUND - 2) {
      uint64_t now = now_ns();
      least = now - began < least ? now - began : least;
      began = now;
    }
  }
  pthread_join(other, NULL);
  return (double)least / ROUND;
}

static int compare(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

/* What it costs to wake a sleeper, and how long it takes until it runs: the middle of some. */
static void measure_wakes(double *cost, double *latency)
{
  static double costs[WAKES], latencies[WAKES];
  pthread_t other = start(sleep_often, 0);
  for (int i = 0; i < WAKES; i++) {
    while (__atomic_load_n(&asleep, __ATOMIC_ACQUIRE) != 1)
      sched_yield();
    usleep(100); /* it has called the system by then */
    __atomic_store_n(&woken_ns, 0, __ATOMIC_RELEASE);
    uint64_t begin = now_ns(), woken;
    __atomic_store_n(&asleep, 0, __ATOMIC_RELEASE);
    syscall(SYS_futex, &asleep, FUTEX_WAKE_PRIVATE, 1);
    costs[i] = (double)(now_ns() - begin);
    while ((woken = __atomic_load_n(&woken_ns, __ATOMIC_ACQUIRE)) == 0)
      ;
    latencies[i] = (double)(woken - begin);
  }
  pthread_join(other, NULL);
  qsort(costs, WAKES, sizeof *costs, compare);
  qsort(latencies, WAKES, sizeof *latencies, compare);
  *cost = costs[WAKES / 2];
  *latency = latencies[WAKES / 2];
}

/* How many times one thread's work two threads do in the same time, with nothing in common: 2 on two cores of their own. */
static double two_at_once(void)
{
  double best[2] = {1e30, 1e30};
  for (int i = 0; i < 5; i++)
    for (int two = 0; two < 2; two++) {
      uint64_t begin = now_ns();
      pthread_t other = start(count_down, 0), another = two ? start(count_down, 1) : other;
      pthread_join(other, NULL);
      if (two)
        pthread_join(another, NULL);
      double took = (double)(now_ns() - begin);
      best[two] = took < best[two] ? took : best[two];
    }
  return 2 * best[0] / best[1];
}

static int measure_machine(void)
{
  double cost, latency, line = line_ns();
  measure_wakes(&cost, &latency);
  printf("{\"line_ns\": %.1f, \"wake_ns\": %.0f, \"wake_latency_ns\": %.0f, \"two_at_once\": %.2f}\n", line, cost, latency,
         two_at_once());
  return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
  if (argc == 2 && strcmp(argv[1], "--machine") == 0)
    return measure_machine();
  if (argc != 4) {
    fputs("usage: cores CASE THREADS SECONDS | --machine\n", stderr);
    return 2;
  }
  return run_case(argv[1], (unsigned)strtoul(argv[2], NULL, 10), strtod(argv[3], NULL));
}
