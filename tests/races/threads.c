/* SPDX-License-Identifier: MIT
 *
 * What a thread does: one step after the other, until another takes over or all stand still. */
#include "../rounds.h"
#include "races.h"

_Thread_local const racer_t *self;

/* ---- steps ---- */

typedef struct choice {
  const char *name;
  unsigned weight;
  void (*step)(racer_t *, kept_t *);
} choice_t;

static const choice_t choices[] = {
  {"allocates", 2800, step_allocate},    {"frees", 2400, step_free},
  {"reallocates", 800, step_reallocate}, {"resizes", 400, step_resize},
  {"hands over", 800, step_hand_over},   {"asks", 700, step_ask},
  {"prints figures", 60, step_figures},  {"trims", 100, step_trim},
  {"sets budgets", 60, step_budget},     {"starves", 8, step_starve},
  {"forbids", 30, step_forbid},          {"uses objects", 600, step_objects},
  {"uses a heap", 120, step_heap},       {"forks", 10, step_fork},
  {"uses embers", 300, step_embers},     {"piles up", 100, step_pile},
};

static void one_step(racer_t *racer)
{
  kept_t *kept = &racer->kept[below(&racer->dice, PLACES)];
  size_t total = 0, n;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
    total += choices[i].weight;
  n = below(&racer->dice, total);
  racer->steps++;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (n < choices[i].weight) {
      atomic_store_explicit(&racer->doing, choices[i].name, memory_order_relaxed);
      choices[i].step(racer, kept);
      break;
    }
    n -= choices[i].weight;
  }
  if (racer->bytes > BYTES_EACH)
    drop(racer, kept);
}

/* Depots are chosen by the processor where the bin has many: a thread is on that of its number or on the next, on any machine.
 */
unsigned __wrap_os_processor(void);
unsigned __wrap_os_processor(void) { return self ? self->number + (unsigned)(pause_dice >> 40) % 2 : 0; }

/* ---- from start to end ---- */

static void *work(void *argument);

bool start_thread(pthread_t *thread, racer_t *racer)
{
  for (int tries = 0; tries < 1000; tries++, sleep_us(1000))
    if (pthread_create(thread, NULL, work, racer) == 0)
      return true;
  return false;
}

/* Another thread takes over and waits until this one has ended. */
static void replace(racer_t *racer)
{
  pthread_t successor;
  racer->before = pthread_self();
  racer->succeeds = true;
  racer->ends++;
  racer->forbidden = false;
  atomic_store(&racer->doing, "ends");
  must(start_thread(&successor, racer));
}

static void *work(void *argument)
{
  racer_t *racer = argument;
  self = racer;
  pause_dice = roll(&racer->dice) | 1;
  if (racer->succeeds)
    must(pthread_join(racer->before, NULL) == 0);
  racer->succeeds = false;
  racer->thread = pthread_self();
  for (;;) {
    while (rounds_working()) {
      one_step(racer);
      if (racer->restarts_left && one_in(&racer->dice, 300)) {
        racer->restarts_left--;
        replace(racer);
        return NULL;
      }
    }
    atomic_store(&racer->doing, "stands still");
    if (!rounds_stand_still())
      return NULL;
  }
}
