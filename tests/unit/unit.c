/* SPDX-License-Identifier: MIT */
#include "unit.h"
#include "../dice.h"
#include <pthread.h>
#include <unistd.h>

bool is_long(void) { return getenv("ALL_CASES") != NULL; }

void must_failed(const char *file, int line, const char *condition)
{
  fprintf(stderr, "%s:%d: must(%s)\n", file, line, condition);
  _exit(1);
}

void in_thread(void *(*work)(void *), void *argument)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, work, argument) == 0);
  must(pthread_join(thread, NULL) == 0);
}

/* ---- patterns ---- */

enum { DENSE = 4096, PAGE_LEAST = 4096 };

/* Odd in pages, so that no page is passed over for ever. */
static size_t stride_of(size_t size)
{
  return size <= MIB ? PAGE_LEAST : size <= 64 * MIB ? 65536 + PAGE_LEAST : MIB + PAGE_LEAST;
}

static size_t step_at(size_t i, size_t size)
{
  return i < DENSE || i + DENSE >= size ? 1 : min_size(stride_of(size), size - DENSE - i);
}

void pattern_write(void *block, size_t size, uint64_t key)
{
  for (size_t i = 0; i < size; i += step_at(i, size))
    ((unsigned char *)block)[i] = byte_of(key, i);
}

bool pattern_kept(const void *block, size_t size, size_t written, uint64_t key)
{
  for (size_t i = 0; i < size; i += step_at(i, written))
    if (((const unsigned char *)block)[i] != byte_of(key, i))
      return false;
  return true;
}

bool pattern_holds(const void *block, size_t size, uint64_t key) { return pattern_kept(block, size, size, key); }

bool all_zero(const void *block, size_t size)
{
  const unsigned char *bytes = block;
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

uint64_t dice_roll(dice_t *dice) { return roll(&dice->state); }
