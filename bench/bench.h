/* SPDX-License-Identifier: MIT
 *
 * What a subject includes. Every subject is compiled once for each allocator, which it knows only as bench_alloc,
 * bench_calloc, bench_realloc, bench_aligned_alloc and bench_free.
 *
 * What is fair about it: the loops are the same text with the same compiler flags, and a call is the same instruction for
 * all of them, an indirect call through one word of memory that the loader has filled (-fno-plt; loaded.h). No compiler
 * knows any of the functions (-fno-builtin), so none can leave a pair out. Nobody has to know a size at free. */
#ifndef BENCH_H
#define BENCH_H

#include ALLOCATOR_HEADER
#include "shim.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* A subject's file ends with this; subjects.h lists it. */
#define BENCH_SUBJECT(name, table) const bench_subject_t name##_subject = {table, COUNT_OF(table)}

enum { KIB = 1024, MIB = 1024 * KIB, PAGE = 4096, LINE = 64 };

/* Memory of the harness for one thread, resident before the baseline is taken: not the allocator's, so not counted. */
enum { SCRATCH_SIZE = 2 * MIB };
void *bench_scratch(const bench_state_t *state);

_Noreturn void bench_out_of_memory(void);

/* A block is written to, as any user would: at its start, */
static inline void *taken(void *block)
{
  if (__builtin_expect(!block, 0))
    bench_out_of_memory();
  *(volatile char *)block = 1;
  return block;
}

/* or in every page, where the price of fresh pages is the point. The steps are a line less than a page: at steps of a page
 * all writes would fall into one set of the cache, for those allocators that return whole pages. */
static inline void *taken_whole(void *block, size_t size)
{
  volatile char *at = taken(block);
  for (size_t offset = PAGE - LINE; offset < size; offset += PAGE - LINE)
    at[offset] = 1;
  return block;
}

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The same numbers for every allocator, and different ones in each thread. A linear congruential generator (Knuth, MMIX):
 * two instructions, so that the loop measures the allocator. */
typedef struct random {
  uint64_t state;
} random_t;

static inline random_t random_for(const bench_state_t *state)
{
  return (random_t){0x9e3779b97f4a7c15u * (bench_thread(state) + 1)};
}

/* Less than `bound`. */
static inline size_t random_below(random_t *random, size_t bound)
{
  random->state = random->state * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(((random->state >> 32) * bound) >> 32);
}

#endif
