/* SPDX-License-Identifier: MIT */
#ifndef FIND_RUN_H
#define FIND_RUN_H

#include "space/space.h"

static inline void note_run(const run_t *run, void *context) { *(const run_t **)context = run; }

/* Returns the run that holds any address, or NULL. */
static inline run_t *space_find(const void *address)
{
  run_t *run = NULL;
  space_ask(space_arena_around(address), address, note_run, &run);
  return run;
}

#endif
