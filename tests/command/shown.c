/* SPDX-License-Identifier: MIT
 * Allocates at places that are known: some blocks stay, some are there at the peak alone, and many go at once. */
#include <stdlib.h>
#include <string.h>

#define OPAQUE __attribute__((noinline, noclone, noipa))

static void *volatile kept;

OPAQUE static void leak_some(void)
{
  for (int i = 0; i < 100; i++)
    kept = malloc(1000);
}

OPAQUE static void *take_large(void)
{
  char *block = malloc(5000000);
  memset(block, 1, 100);
  return block;
}

OPAQUE static void have_a_peak(void)
{
  void *first = take_large(), *second = take_large();
  kept = realloc(malloc(10), 2000);
  free((void *)kept);
  free(first);
  free(second);
}

OPAQUE static void churn(void)
{
  for (int i = 0; i < 20000; i++)
    free(malloc(16 + (size_t)i % 2));
}

/* With another argument it leaks more. */
int main(int argc, char **argv)
{
  churn();
  leak_some();
  if (argc > 1 && !strcmp(argv[1], "more"))
    leak_some();
  have_a_peak();
  churn();
  return 0;
}
