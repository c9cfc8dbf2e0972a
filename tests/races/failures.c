/* SPDX-License-Identifier: MIT
 *
 * What is said of a run that fails or hangs: the seed, where, and what each thread was doing. Only what a signal handler may
 * call. */
#include "races.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void say(const char *what)
{
  char text[400];
  const char *where = atomic_load(&is_child) ? ", in a child" : "";
  size_t length = (size_t)snprintf(text, sizeof text, "races: seed %lu%s: %s\n", (unsigned long)seed, where, what);
  if (write(STDERR_FILENO, text, length < sizeof text ? length : sizeof text - 1) < 0)
    abort();
}

static void say_what_all_do(void)
{
  char text[80];
  for (unsigned i = 0; i < racer_count; i++) {
    const char *doing = atomic_load(&racers[i].doing), *which = self == &racers[i] ? " (this one)" : "";
    unsigned long steps = (unsigned long)racers[i].steps;
    snprintf(text, sizeof text, "thread %u%s: %s, step %lu", i, which, doing ? doing : "nothing", steps);
    say(text);
  }
}

_Noreturn void must_failed(const char *file, int line, const char *condition)
{
  char text[300];
  snprintf(text, sizeof text, "%s:%d: not so: %s", file, line, condition);
  say(text);
  abort(); /* on_signal() says the rest */
}

static void on_signal(int signal_number)
{
  say(signal_number == SIGALRM ? "stuck" : signal_number == SIGABRT ? "ended" : "memory fault");
  say_what_all_do();
  signal(SIGABRT, SIG_DFL);
  abort();
}

void watch(int signal_number)
{
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigaction(signal_number, &action, NULL);
}
