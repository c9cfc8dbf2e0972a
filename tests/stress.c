/* SPDX-License-Identifier: MIT
 *
 * usage: stress SEED SECONDS [THREADS]
 *
 * Threads allocate, free, resize and hand over blocks of all sizes, whose contents say whose they are, in the default heap, in
 * heaps that all share and in heaps that one makes and another ends; they end and are replaced, and fork children that go on
 * allocating. Now and then all stand still, and the invariants are checked (where they are built in). Ends with 0 and one line
 * of figures, or with abort() at the first thing wrong. The seed decides what each thread does, not when. */
#include "stress.h"
#include "rounds.h"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- failing ---- */

static uint64_t seed;

_Noreturn void must_failed(const char *file, int line, const char *condition)
{
  char text[400];
  size_t length =
    (size_t)snprintf(text, sizeof text, "stress: seed %lu: %s:%d: not so: %s\n", (unsigned long)seed, file, line, condition);
  if (write(STDERR_FILENO, text, length < sizeof text ? length : sizeof text - 1) < 0)
    abort();
  abort();
}

static worker_t workers[THREADS_MOST];
static unsigned worker_count = 4;
_Atomic(char *) board[BOARD];

/* ---- children ---- */

static void live_on(worker_t *worker)
{
  for (size_t i = 0; i < PLACES; i++)
    if (worker->kept[i].block)
      verify(&worker->kept[i], worker->kept[i].size);
  for (size_t i = 0; i < 300; i++) {
    kept_t *kept = &worker->kept[below(&worker->dice, PLACES)];
    if (one_in(&worker->dice, 3))
      step_reallocate(worker, kept);
    else
      step_allocate(worker, kept);
    if (one_in(&worker->dice, 2))
      drop(worker, kept);
  }
}

static void wait_for_child(pid_t child)
{
  uint64_t limit = now_ms() + STUCK_SECONDS * 1000;
  int status = 0;
  pid_t got;
  while ((got = waitpid(child, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
    if (now_ms() > limit)
      kill(child, SIGABRT);
    must(now_ms() <= limit);
    sleep_us(1000);
  }
  must(got == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void step_fork(worker_t *worker, kept_t *kept)
{
  (void)kept;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    live_on(worker);
    pool_trim(0);
    _exit(0);
  }
  worker->forks++;
  wait_for_child(child);
}

/* ---- threads ---- */

typedef struct choice {
  unsigned weight;
  void (*step)(worker_t *, kept_t *);
} choice_t;

static const choice_t choices[] = {
  {4000, step_allocate}, {500, step_zeroed}, {200, step_aligned},    {600, step_reallocate},
  {200, step_resize},    {200, step_batch},  {1500, step_hand_over}, {100, step_ask},
  {6, step_figures},     {1, step_huge},     {15, step_heap},
};

static void one_step(worker_t *worker)
{
  kept_t *kept = &worker->kept[below(&worker->dice, PLACES)];
  size_t n = below(&worker->dice, 10000);
  worker->steps++;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (n < choices[i].weight) {
      choices[i].step(worker, kept);
      break;
    }
    n -= choices[i].weight;
  }
  if (n >= 8000 || worker->bytes > BYTES_EACH)
    drop(worker, kept);
}

static void *work(void *argument);

/* Another thread takes the worker over and waits until this one has ended. */
static void replace(worker_t *worker)
{
  pthread_t successor;
  worker->before = pthread_self();
  worker->succeeds = true;
  worker->ends++;
  must(pthread_create(&successor, NULL, work, worker) == 0);
}

static void *work(void *argument)
{
  worker_t *worker = argument;
  if (worker->succeeds)
    must(pthread_join(worker->before, NULL) == 0);
  worker->succeeds = false;
  worker->thread = pthread_self();
  for (;;) {
    while (rounds_working()) {
      one_step(worker);
      if (worker->steps % 4096 == 0 && one_in(&worker->dice, 4))
        step_fork(worker, NULL);
      if (worker->restarts_left && one_in(&worker->dice, 2000)) {
        worker->restarts_left--;
        replace(worker);
        return NULL;
      }
    }
    if (!rounds_stand_still())
      return NULL;
  }
}

/* ---- rounds ---- */

/* Everybody stands still. */
static void look_around(bool fork_too)
{
  must(check_everything());
  for (unsigned i = 0; i < worker_count; i++)
    workers[i].restarts_left = 3;
  if (!fork_too)
    return;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    must(check_everything());
    live_on(&workers[0]);
    must(check_everything());
    _exit(0);
  }
  wait_for_child(child);
}

static void start_workers(void)
{
  for (unsigned i = 0; i < worker_count; i++) {
    workers[i].number = i;
    workers[i].dice = mix(seed) + i;
    must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
  }
}

static void join_workers(void)
{
  for (unsigned i = 0; i < worker_count; i++)
    must(pthread_join(workers[i].thread, NULL) == 0);
}

static void free_everything(void)
{
  pool_stats_t stats;
  must(check_everything());
  for (unsigned i = 0; i < worker_count; i++)
    for (size_t j = 0; j < PLACES; j++)
      drop(&workers[i], &workers[i].kept[j]);
  for (size_t i = 0; i < BOARD; i++)
    pool_free(board[i]);
  destroy_heaps();
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.live_bytes == 0);
  pool_trim(0);
  must(check_everything());
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.cached_bytes == 0 && stats.idle_bytes == 0);
}

static void print_figures(void)
{
  uint64_t steps = 0, forks = 0, ends = 0;
  for (unsigned i = 0; i < worker_count; i++) {
    steps += workers[i].steps;
    forks += workers[i].forks;
    ends += workers[i].ends;
  }
  printf("stress: seed %lu: %lu steps, %lu threads replaced, %lu forks\n", (unsigned long)seed, (unsigned long)steps,
         (unsigned long)ends, (unsigned long)forks);
}

int main(int count, char **words)
{
  if (count < 3 || count > 4) {
    fprintf(stderr, "usage: stress SEED SECONDS [THREADS]\n");
    return 2;
  }
  seed = strtoull(words[1], NULL, 0);
  worker_count = count > 3 ? (unsigned)strtoul(words[3], NULL, 0) : worker_count;
  if (worker_count < 1 || worker_count > THREADS_MOST) {
    fprintf(stderr, "stress: from 1 to %d threads\n", THREADS_MOST);
    return 2;
  }
  uint64_t dice = mix(seed + 1), until = now_ms() + (uint64_t)(strtod(words[2], NULL) * 1000);
  rounds_begin(worker_count);
  create_shared_heaps();
  start_workers();
  rounds_run(&dice, until, ROUND_LEAST_MS, ROUND_MOST_MS, look_around);
  join_workers();
  free_everything();
  print_figures();
  return 0;
}
