/* SPDX-License-Identifier: MIT
 * What the tests of spaces share: runs, and mappings of somebody else. */
#ifndef RUNS_H
#define RUNS_H

#include "levels.h"
#include "space/space.h"
#include "unit.h"

/* A run stands for a large block in these tests. */
extern int owner;

run_t *take(space_t *space, size_t units, size_t alignment);
char *map_somebody(char *at, size_t size);
void touch(const run_t *run, size_t bytes);

#endif
