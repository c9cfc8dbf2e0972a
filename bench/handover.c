/* SPDX-License-Identifier: MIT
 * Producer and consumer: one thread allocates every block, another frees it, through a ring of 1,024 pointers between
 * them. Thread 2k produces for thread 2k + 1. */
#include "bench.h"
#include "sizes.h"

#include <sched.h>
#include <stdatomic.h>

enum { RING = 1024, SPINS = 64 };

typedef struct ring {
  _Alignas(LINE) atomic_size_t pushed; /* written by the producer; publishes the slots below it */
  _Alignas(LINE) atomic_size_t popped; /* written by the consumer; gives the slots below it back */
  _Alignas(LINE) void *slot[RING];
} ring_t;

static ring_t rings[BENCH_MAX_THREADS / 2];

/* The other side may wait for this processor. */
static void pause_at(unsigned *spins)
{
  if (++*spins % SPINS == 0)
    sched_yield();
}

static void ring_push(ring_t *ring, void *block)
{
  size_t at = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
  for (unsigned spins = 0; at - atomic_load_explicit(&ring->popped, memory_order_acquire) == RING;)
    pause_at(&spins);
  ring->slot[at % RING] = block;
  atomic_store_explicit(&ring->pushed, at + 1, memory_order_release);
}

static void *ring_pop(ring_t *ring)
{
  size_t at = atomic_load_explicit(&ring->popped, memory_order_relaxed);
  for (unsigned spins = 0; at == atomic_load_explicit(&ring->pushed, memory_order_acquire);)
    pause_at(&spins);
  void *block = ring->slot[at % RING];
  atomic_store_explicit(&ring->popped, at + 1, memory_order_release);
  return block;
}

static void produce(bench_state_t *state, ring_t *ring, distribution_t distribution)
{
  sizes_t *sizes = bench_scratch(state);
  sizes_draw(sizes, distribution);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    size_t size = sizes->drawn[i % SIZES_DRAWN];
    ring_push(ring, taken_whole(bench_alloc(size), size));
  }
  bench_end(state, rounds);
  bench_live(state, RING * sizes->mean);
}

static void consume(bench_state_t *state, ring_t *ring)
{
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    bench_free(ring_pop(ring));
  bench_end(state, 0);
}

static void small(bench_state_t *state)
{
  ring_t *ring = &rings[bench_thread(state) / 2];
  if (bench_thread(state) % 2 == 0)
    produce(state, ring, SIZES_SMALL);
  else
    consume(state, ring);
}

static void wide(bench_state_t *state)
{
  ring_t *ring = &rings[bench_thread(state) / 2];
  if (bench_thread(state) % 2 == 0)
    produce(state, ring, SIZES_WIDE);
  else
    consume(state, ring);
}

static const bench_case_t cases[] = {
  {"handover/small", "allocated by one thread, freed by another, 8 to 263 bytes", small,
   .threads = RUN_THREADS(2) | RUN_THREADS(4), .brief = true},
  {"handover/wide", "allocated by one thread, freed by another, 16 bytes to 8 KiB", wide, .threads = RUN_THREADS(2)},
};

BENCH_SUBJECT(handover, cases);
