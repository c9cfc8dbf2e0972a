/* SPDX-License-Identifier: MIT
 *
 * Heaps of one's own: a pair in one against the front end, the end of all blocks at once against freeing each, many heaps,
 * and what only tidepool has, a heap that refuses and one for real time. allocators/NAME_heaps.h says what a heap is there;
 * for malloc, which has none, it is malloc and free of each. */
#include "bench.h"
#include BENCH_HEAPS_HEADER
#include "timer.h"
#include <stdlib.h>
#include <string.h>

enum { FILL = 100000, MANY = 1000, SLOTS = 10000 };

static void pair(bench_state_t *state)
{
  const size_t size = bench_case_of(state)->size;
  bench_heap_t heap = bench_heap_make();
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    bench_heap_free(heap, taken(bench_heap_alloc(heap, size)));
  bench_end(state, rounds);
  bench_heap_destroy(heap, NULL, 0);
  bench_live(state, size);
}

static void front(bench_state_t *state)
{
  const size_t size = bench_case_of(state)->size;
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    bench_free(taken(bench_alloc(size)));
  bench_end(state, rounds);
  bench_live(state, size);
}

static void slots(bench_state_t *state)
{
  void **slot = bench_scratch(state);
  const size_t most = bench_case_of(state)->size;
  random_t random = random_for(state);
  bench_heap_t heap = bench_heap_make();
  for (size_t i = 0; i < SLOTS; i++)
    slot[i] = taken(bench_heap_alloc(heap, 1 + random_below(&random, most)));
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    size_t at = random_below(&random, SLOTS);
    bench_heap_free(heap, slot[at]);
    slot[at] = taken(bench_heap_alloc(heap, 1 + random_below(&random, most)));
  }
  bench_end(state, rounds);
  bench_heap_destroy(heap, slot, SLOTS);
  bench_live(state, SLOTS * most / 2);
}

/* ---- the end of all blocks ---- */

typedef bench_heap_t end_fn(bench_heap_t heap, void **blocks);

static bench_heap_t end_by_free(bench_heap_t heap, void **blocks)
{
  for (size_t i = 0; i < FILL; i++)
    bench_heap_free(heap, blocks[i]);
  return heap;
}

static bench_heap_t end_by_reset(bench_heap_t heap, void **blocks) { return bench_heap_reset(heap, blocks, FILL); }

static bench_heap_t end_by_destroy(bench_heap_t heap, void **blocks)
{
  bench_heap_destroy(heap, blocks, FILL);
  return bench_heap_make();
}

/* The time has the filling in it, which is the same for all; end_ns is what the end took, for a block. */
static void fill_and_end(bench_state_t *state, end_fn *end)
{
  void **blocks = bench_scratch(state);
  const size_t size = bench_case_of(state)->size;
  bench_heap_t heap = bench_heap_make();
  uint64_t ending = 0;
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    for (size_t j = 0; j < FILL; j++)
      blocks[j] = taken(bench_heap_alloc(heap, size));
    uint64_t start = timer_nanoseconds();
    heap = end(heap, blocks);
    ending += timer_nanoseconds() - start;
  }
  bench_end(state, rounds * FILL);
  bench_figure(state, "end_ns", (double)ending / (double)(rounds * FILL));
  bench_heap_destroy(heap, NULL, 0);
  bench_live(state, FILL * size);
}

static void fill_and_free(bench_state_t *state) { fill_and_end(state, end_by_free); }
static void fill_and_reset(bench_state_t *state) { fill_and_end(state, end_by_reset); }
static void fill_and_destroy(bench_state_t *state) { fill_and_end(state, end_by_destroy); }

/* ---- many heaps: without heaps it would be malloc(1) ---- */

#ifndef BENCH_BY_HAND
typedef struct one {
  bench_heap_t heap;
  void *block;
} one_t;

static void many(bench_state_t *state)
{
  one_t *all = bench_scratch(state);
  const size_t size = bench_case_of(state)->size, count = bench_case_of(state)->count;
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    for (size_t j = 0; j < count; j++) {
      all[j].heap = bench_heap_make();
      all[j].block = taken(bench_heap_alloc(all[j].heap, size));
    }
    for (size_t j = 0; j < count; j++)
      bench_heap_destroy(all[j].heap, &all[j].block, 1);
  }
  bench_end(state, rounds * count);
  bench_live(state, count * size);
}
#endif

/* ---- what only tidepool has ---- */

#ifdef BENCH_HEAPS_HAVE_BUDGETS
enum { BUDGET = 1 << 20, RESERVE = 16 << 20, TIMED_SLOTS = 2000 };

static void exhausted(bench_state_t *state)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = BUDGET});
  const size_t size = bench_case_of(state)->size;
  size_t live = 0;
  while (pool_heap_alloc(heap, size))
    live += size;
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    if (pool_heap_alloc(heap, size))
      bench_out_of_memory();
  bench_end(state, rounds);
  pool_heap_destroy(heap);
  bench_live(state, live);
}

/* Of all calls, and of each 1,000: most of those are not interrupted by anything. */
enum { STRETCH = 1000, STRETCHES_MOST = 100000 };
typedef struct longest {
  uint64_t alloc, free, stretch;
  size_t stretches;
  uint32_t of_stretch[STRETCHES_MOST];
} longest_t;

static void note(longest_t *longest, uint64_t freeing, uint64_t allocating, uint64_t i)
{
  longest->free = larger(longest->free, freeing);
  longest->alloc = larger(longest->alloc, allocating);
  longest->stretch = larger(longest->stretch, larger(freeing, allocating));
  if (i % STRETCH == STRETCH - 1 && longest->stretches < STRETCHES_MOST) {
    longest->of_stretch[longest->stretches++] = (uint32_t)longest->stretch;
    longest->stretch = 0;
  }
}

static int by_value(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static double usual(longest_t *longest)
{
  qsort(longest->of_stretch, longest->stretches, sizeof *longest->of_stretch, by_value);
  return longest->stretches ? longest->of_stretch[longest->stretches / 2] : (double)longest->stretch;
}

/* Untouched by the system, as far as a program can be: prefaulted, locked, one thread. */
static void real_time(bench_state_t *state)
{
  void **slot = bench_scratch(state);
  const size_t most = bench_case_of(state)->size;
  random_t random = random_for(state);
  static longest_t longest;
  memset(&longest, 0, sizeof longest);
  unsigned flags = POOL_HEAP_PREFAULT | POOL_HEAP_SINGLE_THREAD;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = RESERVE, .flags = flags | POOL_HEAP_LOCK_MEMORY});
  if (!heap)
    heap = pool_heap_create(&(pool_heap_options_t){.reserve = RESERVE, .flags = flags});
  if (!heap)
    bench_out_of_memory();
  for (size_t i = 0; i < TIMED_SLOTS; i++)
    slot[i] = taken(pool_heap_alloc(heap, 1 + random_below(&random, most)));
  bool before = pool_forbid_system_calls(true);
  const uint64_t rounds = bench_begin(state);
  const uint64_t ns = timer_nanoseconds(), ticks = timer_start();
  for (uint64_t i = 0; i < rounds; i++) {
    size_t at = random_below(&random, TIMED_SLOTS), size = 1 + random_below(&random, most);
    uint64_t t0 = timer_start();
    pool_heap_free(heap, slot[at]);
    uint64_t t1 = timer_stop();
    slot[at] = pool_heap_alloc(heap, size);
    uint64_t t2 = timer_stop();
    taken(slot[at]);
    note(&longest, t1 - t0, t2 - t1, i);
  }
  const double ticks_a_ns = (double)(timer_stop() - ticks) / (double)(timer_nanoseconds() - ns + 1);
  bench_end(state, rounds);
  pool_forbid_system_calls(before);
  bench_figure(state, "longest_alloc_ns", (double)longest.alloc / ticks_a_ns);
  bench_figure(state, "longest_free_ns", (double)longest.free / ticks_a_ns);
  bench_figure(state, "usual_longest_ns", usual(&longest) / ticks_a_ns);
  pool_heap_destroy(heap);
  bench_live(state, TIMED_SLOTS * most / 2);
}
#endif

static const bench_case_t cases[] = {
  {"heaps/pair", "allocate and free 64 bytes in a heap", pair, .size = 64, .brief = true},
  {"heaps/front", "the same without a heap", front, .size = 64},
  {"heaps/slots", "replace one of 10,000 blocks of a heap, up to 1 KiB", slots, .size = 1024, .brief = true},
  {"heaps/free", "fill a heap with 100,000 blocks of 48 bytes and free each: a block", fill_and_free, .size = 48},
  {"heaps/reset", "the same, and all are gone at once by a reset", fill_and_reset, .size = 48, .brief = true},
  {"heaps/destroy", "the same, with the heap", fill_and_destroy, .size = 48},
#ifndef BENCH_BY_HAND
  {"heaps/many", "make 1,000 heaps with a block of 64 bytes each, and end them: a heap", many, .size = 64, .count = MANY,
   .brief = true},
#endif
#ifdef BENCH_HEAPS_HAVE_BUDGETS
  {"heaps/exhausted", "an allocation that a full heap refuses", exhausted, .size = 64},
  {"heaps/real_time", "replace one of 2,000 blocks of a prefaulted, locked heap, up to 4 KiB, each call timed", real_time,
   .size = 4096},
#endif
};

BENCH_SUBJECT(heaps, cases);
