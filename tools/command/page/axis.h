/* SPDX-License-Identifier: MIT
 *
 * Ticks of an axis from 0 on, at round figures: 1, 2 or 5 times a power of ten, of the unit in which people would give the
 * largest. */
#ifndef AXIS_H
#define AXIS_H

#include <stddef.h>
#include <stdint.h>

typedef struct axis {
  double step, unit; /* from tick to tick, and one of the unit, in what the axis counts */
  size_t count;      /* ticks that are not beyond the largest */
  const char *name;  /* of the unit */
} axis_t;

axis_t axis_of_bytes(double most);
axis_t axis_of_seconds(double most);

/* The text of a tick, by its number. */
enum { AXIS_LABEL = 48 };
const char *axis_label(const axis_t *axis, size_t tick, char room[AXIS_LABEL]);
const char *axis_size(uint64_t power_of_two, char room[AXIS_LABEL]); /* 64 KiB */

#endif
