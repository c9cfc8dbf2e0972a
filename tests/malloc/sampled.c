/* SPDX-License-Identifier: MIT
 * A short program with a bug in one of the blocks it takes, or in none: sampled.py runs it many times.
 *
 * usage: sampled none | overrun | use-after-free */
#include "ours.h"
#include <stdlib.h>
#include <string.h>

/* Each is fetched by itself, and a write just past its end meets nothing in a run. */
enum { BLOCKS = 10, WITH_BUG = 4, SIZE = 40000 };

int main(int argc, char **argv)
{
  volatile char *blocks[BLOCKS];
  if (argc != 2)
    return 2;
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(SIZE);
    __asm__ volatile("" : "+r"(blocks[i])); /* or the compiler warns of the bugs */
    if (!blocks[i])
      return 3;
    memset((void *)(size_t)blocks[i], i, SIZE);
    if (i < WITH_BUG && !strcmp(argv[1], "overrun"))
      blocks[i][SIZE] = 1;
  }
  for (int i = 0; i < BLOCKS; i++) {
    free((void *)(size_t)blocks[i]);
    if (i < WITH_BUG && !strcmp(argv[1], "use-after-free"))
      blocks[i][0] = 1;
  }
  return 0;
}
