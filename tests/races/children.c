/* SPDX-License-Identifier: MIT
 *
 * A fork among threads. The child lives on for a while with what its thread had. Another library has handlers too, which
 * allocate. */
#include "races.h"
#include <sys/wait.h>
#include <unistd.h>

atomic_bool is_child;

void around_forks(void)
{
  void *small = pool_alloc(100), *large = pool_alloc(100 << 10);
  void *other = pool_heap_alloc(shared[FREE], 1000);
  pool_free(small);
  pool_free(large);
  pool_free(other);
}

static void *allocate_some(void *unused)
{
  (void)unused;
  for (size_t i = 1; i < 40; i++)
    pool_free(pool_alloc(i * 1000));
  return NULL;
}

/* In a child the others' blocks are there, but not they. */
void live_on(racer_t *racer)
{
  pthread_t thread;
  atomic_store(&is_child, true);
  alarm(STUCK_SECONDS);
  racer->forbidden = false;
  pool_forbid_system_calls(false);
  setrlimit(RLIMIT_AS, &all_addresses); /* a fork copies the limits before the memory that says whether there is one */
  if (atomic_load(&starving) % 2)
    atomic_fetch_add(&starving, 1);
  for (size_t i = 0; i < PLACES; i++)
    if (racer->kept[i].block) {
      verify(&racer->kept[i], racer->kept[i].size);
      ask_own(racer, &racer->kept[i]);
    }
  static void (*const steps[])(racer_t *, kept_t *) = {
    step_allocate, step_free,   step_reallocate, step_resize, step_ask,    step_figures,
    step_trim,     step_budget, step_objects,    step_heap,   step_embers, step_pile,
  };
  for (size_t i = 0; i < 60; i++)
    steps[below(&racer->dice, sizeof steps / sizeof *steps)](racer, &racer->kept[below(&racer->dice, PLACES)]);
  if (!SANITIZED && pthread_create(&thread, NULL, allocate_some, NULL) == 0)
    must(pthread_join(thread, NULL) == 0);
}

void wait_for(pid_t child)
{
  int status;
  while (waitpid(child, &status, 0) < 0)
    must(errno == EINTR);
  must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void step_fork(racer_t *racer, kept_t *kept)
{
  (void)kept;
  pid_t child = fork();
  must(child >= 0 || excused(racer, atomic_load(&starving)) || errno == ENOMEM || errno == EAGAIN);
  if (child == 0) {
    live_on(racer);
    _exit(0);
  }
  if (child < 0)
    return;
  racer->forks++;
  wait_for(child);
}
