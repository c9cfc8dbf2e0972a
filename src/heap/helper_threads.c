/* SPDX-License-Identifier: MIT */
#include "heap/helper_threads.h"
#include "os/lock.h"

enum { JOIN_STEP_MS = 5, MANY = HELPERS_FEW + 1 };

bool helpers_may_begin;
uint32_t helpers_due;
static bool have_ended;
static THREAD_LOCAL bool were_alone; /* several threads may fork at once */

unsigned helpers_beside(void)
{
  unsigned all = os_threads();
  return all > 0 && all <= HELPERS_FEW ? all - (unsigned)min_size(all, os_started_threads()) : MANY;
}

/* A handler of signals may end the process, and this very thread may hold what it would wait for. */
void helpers_note_end(void)
{
  have_ended = true;
  if (helpers_beside() == 1)
    lock_may_be_own = true;
}

bool helpers_are_alone(void) { return os_single_threaded() || (have_ended && helpers_beside() == 1); }

void helpers_fork_prepare(bool are_there) { were_alone = are_there && helpers_beside() == 1; }

void helpers_fork_child(unsigned those) { __atomic_store_n(&helpers_due, were_alone ? those : 0, __ATOMIC_RELAXED); }

COLD bool helpers_take_due(helper_t helper)
{
  return __atomic_fetch_and(&helpers_due, ~(uint32_t)helper, __ATOMIC_RELAXED) & helper;
}

bool helpers_join(os_helper_t thread, void (*wake)(void), unsigned most_ms)
{
  bool joined = false;
  for (unsigned waited = 0; !joined && waited < most_ms; waited += JOIN_STEP_MS) {
    wake();
    joined = os_join_thread(thread, JOIN_STEP_MS);
  }
  return joined;
}
