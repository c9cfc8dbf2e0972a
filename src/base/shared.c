/* SPDX-License-Identifier: MIT
 *
 * The pointer is volatile, because compilers turn a plain loop into a call of memset(). */
#include "base/shared.h"

bool shared_by_loops;

void shared_fill_by_loop(void *start, int byte, size_t size)
{
  for (volatile char *at = start; size; at++, size--)
    *at = (char)byte;
}
