/* SPDX-License-Identifier: MIT
 *
 *   small_heaps LEAST MOST BYTES REPLACEMENTS [budget]
 *
 * How much of a small memory serves requests of mixed sizes, whether it goes on serving them, and how long that takes. The
 * memory is filled with blocks of LEAST to MOST bytes at random until the first NULL. Then blocks are replaced at random at
 * four fifths of what was live. It says: how much of the memory was filled, in thousandths; how many blocks that were; how many
 * of the replacements were refused; nanoseconds for an allocation and its free, with the loop around them; and nanoseconds of
 * the longest call.
 *
 * SMALL_HEAP_HEADER says what a heap is: allocators/small_*.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include SMALL_HEAP_HEADER
#include "timer.h"

enum { ALIGNMENT = 4096, LEVEL_PERCENT = 80, PASSES = 3 };

typedef struct block {
  void *start;
  size_t size;
} block_t;

static struct {
  block_t *blocks;
  size_t count, live, least, most;
  uint64_t random;
  bool timed;
  uint64_t longest;
} of;

static uint64_t any(void)
{
  of.random ^= of.random << 13;
  of.random ^= of.random >> 7;
  return of.random ^= of.random << 17;
}

static size_t any_size(void) { return of.least + any() % (of.most - of.least + 1); }

static void note(uint64_t began)
{
  uint64_t ticks = timer_stop() - began;
  if (ticks > of.longest)
    of.longest = ticks;
}

/* Each block is touched, as a program would. */
static bool take(size_t size)
{
  uint64_t began = of.timed ? timer_start() : 0;
  char *start = small_heap_alloc(size);
  if (of.timed)
    note(began);
  if (!start)
    return false;
  start[0] = start[size - 1] = 1;
  of.blocks[of.count++] = (block_t){start, size};
  of.live += size;
  return true;
}

static void give(void)
{
  block_t *block = &of.blocks[any() % of.count];
  uint64_t began = of.timed ? timer_start() : 0;
  small_heap_free(block->start);
  if (of.timed)
    note(began);
  of.live -= block->size;
  *block = of.blocks[--of.count];
}

static size_t replace(size_t level, size_t steps)
{
  size_t refused = 0;
  for (size_t i = 0; i < steps; i++) {
    size_t size = any_size();
    while (of.count && of.live + size > level)
      give();
    refused += !take(size);
  }
  return refused;
}

/* The longest call is the shortest of several passes: what is longer than it must be is not the heap's. */
static uint64_t longest_call(size_t level, size_t steps)
{
  uint64_t least = UINT64_MAX, ticks = timer_start(), ns = timer_nanoseconds();
  of.timed = true;
  for (unsigned pass = 0; pass < PASSES; pass++) {
    of.longest = 0;
    replace(level, steps);
    least = of.longest < least ? of.longest : least;
  }
  double ns_a_tick = (double)(timer_nanoseconds() - ns) / (double)(timer_stop() - ticks);
  return (uint64_t)((double)least * ns_a_tick);
}

int main(int count, char **values)
{
  if (count < 5)
    return 2;
  of.least = strtoul(values[1], NULL, 10);
  of.most = strtoul(values[2], NULL, 10);
  size_t bytes = strtoul(values[3], NULL, 10), steps = strtoul(values[4], NULL, 10);
  char *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
  of.blocks = calloc(bytes / 8 + 1, sizeof *of.blocks);
  of.random = 88172645463325252u;
  if (!memory || !of.blocks || !of.least || of.most < of.least)
    return 2;
  memset(memory, 0, bytes);
  if (!small_heap_make(memory, bytes, count > 5 && !strcmp(values[5], "budget")))
    return 3;
  while (take(any_size())) {}
  printf("%zu %zu ", of.live * 1000 / bytes, of.count);
  size_t level = of.live / 100 * LEVEL_PERCENT;
  while (of.live > level)
    give();
  uint64_t began = timer_nanoseconds();
  size_t refused = replace(level, steps);
  double ns = (double)(timer_nanoseconds() - began) / (double)steps;
  printf("%zu %.1f %llu\n", refused, ns, (unsigned long long)longest_call(level, steps / 10 + 1));
  while (of.count)
    give();
  small_heap_end();
  free(of.blocks);
  free(memory);
  return 0;
}
