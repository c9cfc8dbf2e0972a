/* SPDX-License-Identifier: MIT */
#include "size_class.h"

/* clang-format off */
#include "size_class_table.inc"
/* clang-format on */

/* Computes the class that the generated table has, for sizes beyond the table; a test compares the two. */
unsigned size_class_of(size_t size)
{
  if (size <= SIZE_LINEAR)
    return (unsigned)size_class_linear(size + !size);
  unsigned doubling = log2_floor(size - 1);
  unsigned step = (size - 1) >> (doubling - STEPS_LOG2) & (STEPS - 1);
  return CLASS_LINEAR + 1 + (doubling - log2_floor(SIZE_LINEAR)) * STEPS + step;
}
