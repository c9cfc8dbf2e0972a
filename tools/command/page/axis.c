/* SPDX-License-Identifier: MIT */
#include "page/axis.h"
#include <stdio.h>

/* Labels of times stand side by side, also on a telephone, where six overlap. */
enum { BYTES_PARTS = 6, SECONDS_PARTS = 5 };

/* From `from` on figures are given in it. */
typedef struct unit {
  double size, from;
  const char *name;
} unit_t;

/* 1, 2 or 5 times a power of ten, and at least this. */
static double round_step(double least)
{
  double ten = 1;
  while (ten * 10 <= least)
    ten *= 10;
  while (ten > least)
    ten /= 10;
  for (double times = 1; times < 10; times = times == 2 ? 5 : 2 * times)
    if (times * ten >= least * (1 - 1e-9))
      return times * ten;
  return 10 * ten;
}

/* `units` begin with the smallest, of which there are no parts. */
static axis_t axis_of(double most, double parts, const unit_t *units, size_t count)
{
  size_t unit = count - 1;
  while (unit > 0 && most < units[unit].from)
    unit--;
  double largest = most > 0 ? most / units[unit].size : 1, step = round_step(largest / parts);
  step = unit == 0 && step < 1 ? 1 : step;
  return (axis_t){step * units[unit].size, units[unit].size, (size_t)(largest / step * (1 + 1e-9)) + 1, units[unit].name};
}

axis_t axis_of_bytes(double most)
{
  static const unit_t units[] = {{1, 0, "B"},
                                 {0x1p10, 0x1p10, "KiB"},
                                 {0x1p20, 0x1p20, "MiB"},
                                 {0x1p30, 0x1p30, "GiB"},
                                 {0x1p40, 0x1p40, "TiB"},
                                 {0x1p50, 0x1p50, "PiB"},
                                 {0x1p60, 0x1p60, "EiB"}};
  return axis_of(most, BYTES_PARTS, units, sizeof units / sizeof *units);
}

axis_t axis_of_seconds(double most)
{
  static const unit_t units[] = {{1e-9, 0, "ns"}, {1e-6, .5e-6, "&micro;s"}, {1e-3, .5e-3, "ms"},
                                 {1, .5, "s"},    {60, 180, "min"},          {3600, 10800, "h"}};
  return axis_of(most, SECONDS_PARTS, units, sizeof units / sizeof *units);
}

const char *axis_label(const axis_t *axis, size_t tick, char room[AXIS_LABEL])
{
  if (tick)
    snprintf(room, AXIS_LABEL, "%.10g %s", (double)tick * axis->step / axis->unit, axis->name);
  else
    snprintf(room, AXIS_LABEL, "0");
  return room;
}

const char *axis_size(uint64_t power_of_two, char room[AXIS_LABEL])
{
  axis_t axis = axis_of_bytes((double)power_of_two);
  axis.step = (double)power_of_two;
  return axis_label(&axis, 1, room);
}
