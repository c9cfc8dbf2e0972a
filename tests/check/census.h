/* SPDX-License-Identifier: MIT
 *
 * S2, that a block is in exactly one place, is checked by a census: beside each slab stands a bitmap, every magazine and depot
 * is walked, and each entry met is counted off in the bitmap of its slab. What is counted twice, free in its slab, or at or
 * beyond the fresh mark is a block in two places. Blocks that nothing counts are with callers, out of sight. Runs are counted
 * in the same way by the lists they must be in. */
#ifndef CENSUS_H
#define CENSUS_H

#include "check/expect.h"
#include "heap/heap.h"

/* What was counted of one arena. */
typedef struct census {
  arena_t *arena;
  word_t *blocks; /* a bit for each that there could be */
  word_t *runs;
} census_t;

/* A census covers all heaps, and one space that may be no heap's. */
void census_begin(const space_t *another);
void census_end(void);
void census_each(void (*visit)(const census_t *census, const void *context), const void *context);

/* `name` is the invariant that a run or an entry which cannot be there violates, `twice` what is wrong with a run that was
 * counted. */
void census_run(const space_t *space, const run_t *run, const char *name, const char *twice);
void census_block(const bin_t *bin, const void *block, const char *name);

/* The entries of a magazine from `top` down; returns how many. */
size_t census_entries(const bin_t *bin, void *const *top, const char *name);

#endif
