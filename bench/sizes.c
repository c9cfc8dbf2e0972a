/* SPDX-License-Identifier: MIT */
#include "sizes.h"
#include "bench.h"

/* From 2^first up to 2^last, each octave as likely. */
static size_t octaves(random_t *random, size_t first, size_t last)
{
  size_t least = (size_t)1 << (first + random_below(random, last - first));
  return least + random_below(random, least);
}

static size_t program(random_t *random)
{
  size_t tenth = random_below(random, 10);
  if (tenth < 5)
    return 8 + random_below(random, 57);
  return tenth < 9 ? octaves(random, 6, 9) : octaves(random, 9, 15);
}

static size_t draw(random_t *random, distribution_t distribution)
{
  switch (distribution) {
  case SIZES_SMALL:
    return 8 + random_below(random, 256);
  case SIZES_WIDE:
    return octaves(random, 4, 13);
  case SIZES_PROGRAM:
    break;
  }
  return program(random);
}

void sizes_draw(sizes_t *sizes, distribution_t distribution)
{
  random_t random = {1};
  size_t sum = 0;
  for (size_t i = 0; i < SIZES_DRAWN; i++) {
    sizes->drawn[i] = (uint32_t)draw(&random, distribution);
    sum += sizes->drawn[i];
  }
  sizes->mean = sum / SIZES_DRAWN;
}
