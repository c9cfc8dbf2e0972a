/* SPDX-License-Identifier: MIT
 *
 * The second thread, which does an operation while the first waits for it. */
#include "operations.h"
#include <pthread.h>
#include <semaphore.h>

static struct {
  pthread_t thread;
  bool runs;
  sem_t asked, done;
  void (*act)(void); /* NULL: end */
} other;

static void *obey(void *unused)
{
  for (;;) {
    sem_wait(&other.asked);
    if (!other.act)
      return unused;
    other.act();
    sem_post(&other.done);
  }
}

static bool any_single(void)
{
  for (const known_heap_t *known = model.heaps; known < model.heaps + HEAPS; known++)
    if (known->single)
      return true;
  return false;
}

static void do_elsewhere(void (*act)(void))
{
  if (!other.runs) {
    must(sem_init(&other.asked, 0, 0) == 0 && sem_init(&other.done, 0, 0) == 0);
    must(pthread_create(&other.thread, NULL, obey, NULL) == 0);
    other.runs = true;
  }
  model.elsewhere = true;
  other.act = act;
  sem_post(&other.asked);
  while (sem_wait(&other.done) != 0) {}
  model.elsewhere = false;
}

void end_other(void)
{
  if (!other.runs)
    return;
  other.act = NULL;
  sem_post(&other.asked);
  must(pthread_join(other.thread, NULL) == 0);
  other.runs = false;
}

void op_thread_end(void)
{
  if (!model.elsewhere && !model.is_child)
    end_other();
}

/* Up to four operations, without a heap that is for the first thread alone. */
static void some_ops(void)
{
  for (unsigned n = 1 + byte() % 4; n > 0; n--)
    one_op();
}

void op_elsewhere(void)
{
  if (fuzz_alone || model.elsewhere || model.is_child || any_single())
    some_ops();
  else
    do_elsewhere(some_ops);
}
