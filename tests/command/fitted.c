/* SPDX-License-Identifier: MIT
 * The classes that tidepool fit finds, compared with the best of all that there are, for sizes at random.
 *
 * usage: fitted ROUNDS */
#include "../../tools/command/command.h"
#include "../../tools/command/fit/fit.h"
#include "../dice.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZES = 9 };

/* What main.c has. */
void command_fail(int status, const char *format, ...)
{
  fprintf(stderr, "%s\n", format);
  exit(status);
}

static uint64_t dice = 1;
static uint32_t draw(uint32_t n) { return (uint32_t)below(&dice, n); }

static double left_over(const sizes_t *sizes, const classes_t *classes)
{
  double sum = 0;
  size_t c = 0;
  for (size_t step = 1; step <= sizes->steps; step++) {
    while (c < classes->count && classes->of[c] < step * FIT_STEP)
      c++;
    if (sizes->held[step] > 0 && c == classes->count)
      return INFINITY;
    if (sizes->held[step] > 0)
      sum += sizes->held[step] * (double)(classes->of[c] - step * FIT_STEP);
  }
  return sum;
}

/* Every choice of `most` of the sizes that there are. */
static double best_of_all(const sizes_t *sizes, const size_t *steps, size_t count, size_t most)
{
  double best = INFINITY;
  for (unsigned chosen = 1; chosen < 1u << count; chosen++) {
    classes_t classes = {.count = 0};
    if ((size_t)__builtin_popcount(chosen) > most)
      continue;
    for (size_t i = 0; i < count; i++)
      if (chosen >> i & 1)
        classes.of[classes.count++] = steps[i] * FIT_STEP;
    best = fmin(best, left_over(sizes, &classes));
  }
  return best;
}

static bool is_best(void)
{
  static double held[4097];
  size_t steps[SIZES], count = 0, most = 1 + draw(SIZES + 2);
  sizes_t sizes = {.held = held, .steps = 4096, .duration = 1};
  for (size_t step = 1; step <= 4096; step++)
    held[step] = 0;
  for (size_t step = 1 + draw(30); count < SIZES && step <= 4096; step += 1 + draw(1u << draw(10))) {
    held[step] = 1 + draw(1000000);
    steps[count++] = step;
  }
  classes_t classes;
  sizes_fit(&sizes, most, &classes);
  for (size_t i = 1; i < classes.count; i++)
    if (classes.of[i] <= classes.of[i - 1])
      return false;
  double found = left_over(&sizes, &classes), best = best_of_all(&sizes, steps, count, most);
  return classes.count <= most && fabs(found - best) <= best * 1e-9;
}

/* Blocks of two sizes, one of them live for three times as long. */
static bool is_measured(void)
{
  act_t acts[] = {{.ns = 0, .size = 1, .op = RECORDING_ALLOC, .slot = 0},
                  {.ns = 100, .size = 33, .op = RECORDING_ALLOC, .slot = 1},
                  {.ns = 300, .op = RECORDING_FREE, .slot = 0},
                  {.ns = 200 + 300, .size = 200, .op = RECORDING_REALLOC, .slot = 1},
                  {.ns = 1000, .op = RECORDING_FREE, .slot = 1}};
  trace_t trace = {.acts = acts, .count = 5, .slots = 2};
  sizes_t sizes;
  sizes_measure(&sizes, &trace);
  bool right = sizes.held[1] == 301 && sizes.held[3] == 401 && sizes.held[13] == 501 && sizes.duration == 1001;
  sizes_free(&sizes);
  return right;
}

int main(int argc, char **argv)
{
  int rounds = argc > 1 ? atoi(argv[1]) : 0;
  if (!is_measured())
    return 1;
  for (int i = 0; i < rounds; i++)
    if (!is_best()) {
      printf("round %d: others leave less over\n", i);
      return 2;
    }
  return 0;
}
