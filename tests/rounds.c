/* SPDX-License-Identifier: MIT */
#include "rounds.h"
#include "dice.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static atomic_bool pausing, ending;
static pthread_barrier_t stand_still, go_on;

uint64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void sleep_us(uint64_t us)
{
  struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

void rounds_begin(unsigned threads)
{
  pthread_barrier_init(&stand_still, NULL, threads + 1);
  pthread_barrier_init(&go_on, NULL, threads + 1);
}

void rounds_run(uint64_t *dice, uint64_t until_ms, unsigned least_ms, unsigned most_ms, void (*look_around)(bool fork_too))
{
  while (now_ms() < until_ms) {
    sleep_us(1000 * (least_ms + below(dice, most_ms - least_ms)));
    atomic_store(&pausing, true);
    pthread_barrier_wait(&stand_still);
    look_around(one_in(dice, 4));
    atomic_store(&pausing, false);
    pthread_barrier_wait(&go_on);
  }
  atomic_store(&ending, true);
  atomic_store(&pausing, true);
  pthread_barrier_wait(&stand_still);
}

bool rounds_working(void) { return !atomic_load_explicit(&pausing, memory_order_relaxed); }

bool rounds_stand_still(void)
{
  pthread_barrier_wait(&stand_still);
  if (atomic_load(&ending))
    return false;
  pthread_barrier_wait(&go_on);
  return true;
}
