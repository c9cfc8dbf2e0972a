/* SPDX-License-Identifier: MIT
 * What the tests of arenas share: arenas made of records alone, and others in the first slots of the window. */
#ifndef ARENAS_H
#define ARENAS_H

#include "space/arena.h"
#include "unit.h"

enum { RUNS = 80 };
extern struct space *const some_space; /* nobody looks into it */

void *memory_for(size_t bytes);
void bring_up(size_t slots);
arena_t *create(size_t slot, size_t units);

#endif
