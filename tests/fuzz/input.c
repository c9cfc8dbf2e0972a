/* SPDX-License-Identifier: MIT
 *
 * The input, as bytes, numbers and sizes that are worth trying. */
#include "model.h"

unsigned byte(void) { return model.data < model.end ? *model.data++ : 0; }
size_t number(void) { return byte() | (size_t)byte() << 8; }

/* Mostly small, and often next to a border. */
size_t some_size(void)
{
  size_t n = number(), kind = n & 15;
  n >>= 4;
  if (kind < 8)
    return n & 1023;
  if (kind < 11)
    return n * 3;
  if (kind < 13)
    return ((size_t)1 << (n & 15)) + (n >> 4 & 15) - 8 > (size_t)1 << 20 ? n : ((size_t)1 << (n & 15)) + (n >> 4 & 15);
  if (kind < 15)
    return n * 67;
  return n % 64 == 0 ? ((size_t)257 << 20) + n * 4096 : n * 1031;
}

/* Mostly a few units of 64 KiB and a little more or less. */
size_t some_large_size(void)
{
  size_t n = number(), kind = n & 7, units = n >> 3 & 63, rest = n >> 9;
  if (kind == 0)
    return LARGE_LEAST + (n >> 3) % 2048 * 16;
  if (kind == 1)
    return (1 + units) << 16;
  if (kind == 2)
    return ((1 + units) << 16) + 1 - (rest & 3);
  if (kind == 3)
    return LARGE_LEAST + (n >> 3) * 500;
  return ((1 + units % 8) << 16) - (rest << 9);
}

size_t some_huge_size(void) { return HUGE_LEAST + 1 + number() * 319; }
