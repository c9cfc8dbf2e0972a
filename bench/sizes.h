/* SPDX-License-Identifier: MIT
 * Request sizes drawn beforehand, so that drawing one in a loop is one load. */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include <stddef.h>
#include <stdint.h>

typedef enum distribution {
  SIZES_SMALL,   /* 8 to 263 bytes, each as likely */
  SIZES_WIDE,    /* 16 bytes to 8 KiB, each octave as likely */
  SIZES_PROGRAM, /* a long tail: half up to 64 bytes, nine in ten up to 512, the rest up to 32 KiB */
} distribution_t;

enum { SIZES_DRAWN = 4096 };

typedef struct sizes {
  uint32_t drawn[SIZES_DRAWN];
  size_t mean;
} sizes_t;

void sizes_draw(sizes_t *sizes, distribution_t distribution);

#endif
