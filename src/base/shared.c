/* SPDX-License-Identifier: MIT
 * A compiler makes a call of a loop again, unless each step of it counts. */
#include "base/shared.h"

bool shared_by_loops;

void shared_fill_by_loop(void *start, int byte, size_t size)
{
  for (volatile char *at = start; size; at++, size--)
    *at = (char)byte;
}
