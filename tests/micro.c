/* SPDX-License-Identifier: MIT
 *
 * Patterns of allocation whose instructions instructions.py counts. Only malloc and its family are called, so that any
 * allocator can be measured (with ANY_MALLOC=1); the patterns and their names are those of the figures in the documentation.
 *
 * usage: micro PATTERN COUNT...    (COUNT: how often a block is allocated and freed; holes100k: a tenth as often) */
#include "malloc/ours.h"

#include "micro.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1000, REMOTE_BATCH = 4000, SLOTS = 4096 };

static void *slots[SLOTS];

/* A load, an addition and a store, which are part of the figures. */
static volatile uintptr_t sink;
static void use(void *block) { sink += (uintptr_t)block; }

static void pairs(size_t size, long count)
{
  while (count-- > 0) {
    void *block = malloc(size);
    use(block);
    free(block);
  }
}

static void fill(long count, size_t size)
{
  for (long i = 0; i < count; i++)
    slots[i] = malloc(size);
}

static void fifo(size_t size, long count)
{
  for (; count > 0; count -= BATCH) {
    fill(BATCH, size);
    for (long i = 0; i < BATCH; i++)
      free(slots[i]);
  }
}

static void lifo(size_t size, long count)
{
  for (; count > 0; count -= BATCH) {
    fill(BATCH, size);
    for (long i = BATCH; i-- > 0;)
      free(slots[i]);
  }
}

/* Each turn replaces the block in a random slot by one of random size: 8 and up to `sizes` - 1 bytes more. */
static void mixed(size_t sizes, long count)
{
  uint32_t random = 12345;
  while (count-- > 0) {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    void **slot = &slots[random % SLOTS];
    free(*slot);
    *slot = malloc(8 + (random >> 12) % sizes);
  }
}

static void zeroed(size_t size, long count)
{
  while (count-- > 0) {
    void *block = calloc(1, size);
    use(block);
    free(block);
  }
}

/* What of a zeroed block is the C library's part, which depends on the processor. */
static void zeroes(size_t size, long count)
{
  while (count-- > 0)
    use(memset(slots, 0, size));
}

/* As containers of vectors and of what threads share ask for. */
static void aligned(size_t size, long count)
{
  while (count-- > 0) {
    void *block = aligned_alloc(64, size);
    use(block);
    free(block);
  }
}

/* As programs do that know no other call. */
static void by_realloc(size_t size, long count)
{
  while (count-- > 0) {
    void *block = realloc(NULL, size);
    use(block);
    free(block);
  }
}

/* Grows within the block. */
static void resized(size_t size, long count)
{
  while (count-- > 0) {
    void *block = realloc(malloc(size), size + 4);
    use(block);
    free(block);
  }
}

/* Grows through six classes, as a buffer does that is filled; each call moves the block. */
static void regrown(size_t size, long count)
{
  while (count-- > 0) {
    void *block = NULL;
    for (size_t now = size; now <= 64 * size; now *= 2)
      block = realloc(block, now);
    use(block);
    free(block);
  }
}

static void *free_remote_batch(void *unused)
{
  for (long i = 0; i < REMOTE_BATCH; i++)
    free(slots[i]);
  return unused;
}

static void remote(size_t size, long count)
{
  for (; count > 0; count -= REMOTE_BATCH) {
    pthread_t thread;
    fill(REMOTE_BATCH, size);
    if (pthread_create(&thread, NULL, free_remote_batch, NULL) != 0)
      exit(1);
    pthread_join(thread, NULL);
  }
}

/* Every other of many blocks goes: a block that needs more room than each of the holes has is looked for above them all. */
static void over_holes(size_t size, long count)
{
  enum { HOLES = 2000 };
  static void *held[2 * HOLES];
  for (size_t i = 0; i < 2 * HOLES; i++)
    held[i] = malloc(size / 2 + 1);
  for (size_t i = 0; i < 2 * HOLES; i += 2)
    free(held[i]);
  for (; count > 0; count -= BATCH) {
    fill(BATCH / 10, size);
    for (long i = 0; i < BATCH / 10; i++)
      free(slots[i]);
  }
}

static const struct {
  const char *name;
  void (*run)(size_t size, long count);
  size_t size;
} patterns[] = {
  {"pair16", pairs, 16},        {"pair200", pairs, 200},    {"pair2000", pairs, 2000},   {"pair20000", pairs, 20000},
  {"fifo64", fifo, 64},         {"lifo64", lifo, 64},       {"mixed256", mixed, 256},    {"mixed8k", mixed, 8192},
  {"calloc64", zeroed, 64},     {"realloc", resized, 100},  {"regrow16", regrown, 16},   {"remote64", remote, 64},
  {"aligned192", aligned, 192}, {"null40", by_realloc, 40}, {"pair100k", pairs, 100000}, {"holes100k", over_holes, 100000},
  {"memset64", zeroes, 64},
};

static bool run_pattern(const char *name, long count)
{
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    if (strcmp(name, patterns[i].name) == 0) {
      patterns[i].run(patterns[i].size, count);
      return true;
    }
  return false;
}

int main(int argc, char **argv) { return run_patterns(argc, argv); }
