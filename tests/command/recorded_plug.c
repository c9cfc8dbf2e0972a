/* SPDX-License-Identifier: MIT
 * A library that is loaded at run time. NAME is the function that allocates. */
#include <stdlib.h>

void *NAME(void);
__attribute__((noinline)) void *NAME(void) { return malloc(100); }

void allocate(int count);
void allocate(int count)
{
  static void *volatile kept;
  for (int i = 0; i < count; i++)
    kept = NAME();
  (void)kept;
}
