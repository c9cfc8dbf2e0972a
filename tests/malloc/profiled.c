/* SPDX-License-Identifier: MIT
 * Allocates as many blocks as each of its functions says, and frees half of them. At the end it sends itself a signal, if it is
 * told which, and says what is in the file then. */
#include "ours.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { THOUSAND = 1000 };

#define OPAQUE __attribute__((noinline, noclone))
static volatile int calls;

/* Each has a size of its own, and keeps every second block. */
#define SITE(name, size) \
  OPAQUE static void *name(void) \
  { \
    void *block = malloc(size); \
    calls++; \
    return block; \
  }
SITE(of_16, 16)
SITE(of_48, 48)
SITE(of_200, 200)
SITE(of_700, 700)

static void run(void *(*site)(void), int thousands)
{
  for (long i = 0; i < (long)thousands * THOUSAND; i += 2) {
    void *freed = site();
    if (!site())
      abort();
    free(freed);
  }
}

int main(int argument_count, char **arguments)
{
  if (argument_count < 2)
    return 2;
  int thousands = atoi(arguments[1]);
  run(of_16, thousands * 5);
  run(of_48, thousands * 3);
  run(of_200, thousands);
  run(of_700, thousands);
  if (argument_count > 2) {
    raise(atoi(arguments[2]));
    _Exit(0);
  }
  return 0;
}
