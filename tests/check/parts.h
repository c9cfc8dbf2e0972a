/* SPDX-License-Identifier: MIT
 *
 * What the parts of the checks do for each other. */
#ifndef CHECK_PARTS_H
#define CHECK_PARTS_H

#include "check/census.h"

/* Returns the run at `unit` or the next one above; NULL: there are no more. It is written anew, so that an error of arena.c is
 * not believed. */
static inline run_t *run_from(const arena_t *arena, size_t unit)
{
  while (unit < arena->used_end && !bit_test(arena->start, unit))
    unit++;
  return unit < arena->used_end ? &arena->runs[unit] : NULL;
}

static inline size_t unit_behind(const arena_t *arena, const run_t *run) { return (size_t)(run - arena->runs) + run->units; }

/* These are called during a census. */
void check_bin_lists(bin_t *bin);
void check_empties(void *const *magazine);
void check_magazines_of_heap(const heap_t *heap);
void check_heap_lists(heap_t *heap);

/* These need none. They check all threads, and all mappings that were left. */
void check_threads(void);
void check_left(void);

#endif
