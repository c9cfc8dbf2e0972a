/* SPDX-License-Identifier: MIT */
#include "runs.h"
#include <sys/mman.h>

int owner;

run_t *take(space_t *space, size_t units, size_t alignment)
{
  run_t *run = space_take(space, units, alignment);
  if (run)
    run_become(run, RUN_LARGE, &owner);
  return run;
}

char *map_somebody(char *at, size_t size)
{
  char *there =
    mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  must(there == at);
  *there = 5;
  return there;
}

void touch(const run_t *run, size_t bytes) { run->start[0] = run->start[bytes - 1] = 1; }
