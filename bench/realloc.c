/* SPDX-License-Identifier: MIT
 * Growth. A string that gets longer by a little, a vector that doubles, and many vectors at once, where none can simply
 * extend into what lies behind it; a change of size that fits the block; and what an interpreter does that has no other call.
 * One operation is one call of realloc. */
#include "slots.h"

enum { VECTORS = 64, VECTOR_LIMIT = 64 * KIB };

static void *grown(void *block, size_t size)
{
  char *moved = taken(bench_realloc(block, size));
  *(volatile char *)(moved + size - 1) = 1;
  return moved;
}

static void append(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  const uint64_t rounds = bench_begin(state);
  void *block = NULL;
  size_t size = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    size += of->size;
    block = grown(block, size);
    if (size >= of->count) {
      bench_free(block);
      block = NULL;
      size = 0;
    }
  }
  bench_end(state, rounds);
  bench_free(block);
  bench_live(state, of->count);
}

static void doubling(bench_state_t *state)
{
  const bench_case_t *of = bench_case_of(state);
  const uint64_t rounds = bench_begin(state);
  void *block = NULL;
  size_t size = of->size;
  for (uint64_t i = 0; i < rounds; i++) {
    block = taken_whole(bench_realloc(block, size), size);
    size *= 2;
    if (size > of->count) {
      bench_free(block);
      block = NULL;
      size = of->size;
    }
  }
  bench_end(state, rounds);
  bench_free(block);
  bench_live(state, of->count);
}

typedef struct vector {
  void *block;
  size_t size;
} vector_t;

/* By half, as many vectors do; started anew when it reaches the limit. */
static void vector_grow(vector_t *vector)
{
  if (vector->size > VECTOR_LIMIT) {
    bench_free(vector->block);
    *vector = (vector_t){NULL, 0};
  }
  vector->size = vector->size ? vector->size + vector->size / 2 : 16;
  vector->block = grown(vector->block, vector->size);
}

static void vectors(bench_state_t *state)
{
  vector_t *all = bench_scratch(state);
  for (size_t i = 0; i < VECTORS; i++)
    all[i] = (vector_t){NULL, 0};
  random_t random = random_for(state);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    vector_grow(&all[random_below(&random, VECTORS)]);
  bench_end(state, rounds);
  for (size_t i = 0; i < VECTORS; i++)
    bench_free(all[i].block);
  bench_live(state, (size_t)VECTORS * VECTOR_LIMIT / 4);
}

/* Two of three steps make a new block in place of an old one, by realloc(NULL, size); the third changes the size of one. */
static void make_or_change(slots_t *slots, random_t *random, uint64_t rounds)
{
  for (uint64_t i = 0; i < rounds; i++) {
    size_t at = random_below(random, slots->count);
    if (i % 3) {
      bench_free(slots->block[at]);
      slots->block[at] = NULL;
    }
    slots->block[at] = grown(slots->block[at], slots_size(slots, random));
  }
}

static void interpreter(bench_state_t *state) { slots_change(state, SIZES_PROGRAM, make_or_change); }

static void within(bench_state_t *state)
{
  const size_t size = bench_case_of(state)->size;
  void *block = taken(bench_alloc(size));
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    block = grown(block, size - (i & 7));
  bench_end(state, rounds);
  bench_free(block);
  bench_live(state, size);
}

static const bench_case_t cases[] = {
  {"realloc/within", "between 105 and 112 bytes", within, .size = 112, .brief = true},
  {"realloc/append", "16 bytes more, up to 16 KiB", append, .size = 16, .count = 16 * KIB, .brief = true},
  {"realloc/doubling", "doubled, 16 bytes up to 4 MiB", doubling, .size = 16, .count = 4 * MIB},
  {"realloc/vectors", "one of 64 vectors by half, 16 bytes up to 64 KiB", vectors, .brief = true},
  {"realloc/interpreter", "make or change one of 10,000 blocks, half up to 64 bytes, tail to 32 KiB", interpreter,
   .count = 10000, .brief = true},
};

BENCH_SUBJECT(realloc, cases);
