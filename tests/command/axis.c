/* SPDX-License-Identifier: MIT
 * Whatever the largest figure is, ticks of an axis are round, few, and reach as far as it. */
#include "page/axis.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool is_so, double most, const char *what)
{
  if (is_so)
    return;
  fprintf(stderr, "axis: up to %.17g: %s\n", most, what);
  exit(1);
}

/* 1, 2 or 5 and noughts, with a point or without. */
static bool is_round(const char *label)
{
  const char *at = label + strspn(label, "0.");
  return *at && strchr("125", *at) && at[1 + strspn(at + 1, "0")] == ' ';
}

static void check(axis_t axis, double most, size_t ticks_most)
{
  char room[AXIS_LABEL];
  expect(axis.count >= 1 && axis.count <= ticks_most, most, "too many ticks");
  expect(!strcmp(axis_label(&axis, 0, room), "0"), most, "it does not begin at 0");
  expect(axis.step * (double)(axis.count - 1) <= most * (1 + 1e-6) || most <= 0, most, "a tick is beyond it");
  expect(axis.step * (double)axis.count > most * (1 - 1e-6), most, "a tick is missing");
  expect(is_round(axis_label(&axis, 1, room)), most, room);
  expect(axis.count >= 3 || most < 3, most, "too few ticks");
}

static void check_label(axis_t axis, size_t tick, const char *wanted)
{
  char room[AXIS_LABEL];
  expect(!strcmp(axis_label(&axis, tick, room), wanted), (double)tick, room);
}

int main(void)
{
  for (double most = 1; most < 1.8e19; most = most * 1.013 + 1)
    check(axis_of_bytes(most), most, 7);
  for (double most = 1e-9; most < 1e7; most *= 1.013)
    check(axis_of_seconds(most), most, 6);
  check_label(axis_of_bytes(5.62 * 1048576), 5, "5 MiB");
  check_label(axis_of_bytes(1.5 * 1048576), 3, "1.5 MiB");
  check_label(axis_of_seconds(3.64), 3, "3 s");
  check_label(axis_of_seconds(.32), 2, "200 ms");
  check_label(axis_of_seconds(1000), 2, "10 min");
  check_label(axis_of_bytes(0), 0, "0");
  char room[AXIS_LABEL];
  expect(!strcmp(axis_size(65536, room), "64 KiB") && !strcmp(axis_size(16, room), "16 B"), 0, room);
  return 0;
}
