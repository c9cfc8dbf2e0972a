/* SPDX-License-Identifier: MIT
 *
 * What programs have in common that give readers what nobody wrote: the same at each run. */
#ifndef MUTATED_H
#define MUTATED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint64_t any(void)
{
  static uint64_t random = 88172645463325252u;
  random ^= random << 13;
  random ^= random >> 7;
  return random ^= random << 17;
}

static inline void expect(bool holds, const char *what)
{
  if (holds)
    return;
  fprintf(stderr, "%s\n", what);
  abort();
}

#endif
