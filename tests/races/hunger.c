/* SPDX-License-Identifier: MIT
 *
 * Memory that runs out: while the process may have no more addresses, or a thread may not ask the system, anything may fail. */
#include "../rounds.h"
#include "races.h"
#include <stdio.h>
#include <unistd.h>

atomic_uint starving;
struct rlimit all_addresses;

bool excused(const racer_t *racer, unsigned at_first)
{
  return racer->forbidden || at_first % 2 || atomic_load(&starving) != at_first;
}

static size_t addresses_in_use(void)
{
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%zu", &pages) != 1)
    pages = 0;
  if (file)
    fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void starve(racer_t *racer)
{
  unsigned now = atomic_load(&starving);
  size_t used = addresses_in_use();
  if (SANITIZED || !used || now % 2 || !atomic_compare_exchange_strong(&starving, &now, now + 1))
    return;
  struct rlimit few = {used + below(&racer->dice, 1 << 20), all_addresses.rlim_max};
  setrlimit(RLIMIT_AS, &few);
  sleep_us(below(&racer->dice, 3000));
  setrlimit(RLIMIT_AS, &all_addresses);
  atomic_fetch_add(&starving, 1);
}

void step_starve(racer_t *racer, kept_t *kept)
{
  (void)kept;
  starve(racer);
}

/* For some steps of this thread, what would need the system fails. */
void step_forbid(racer_t *racer, kept_t *kept)
{
  (void)kept;
  must(pool_forbid_system_calls(!racer->forbidden) == racer->forbidden);
  racer->forbidden = !racer->forbidden;
}
