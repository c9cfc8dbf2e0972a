/* SPDX-License-Identifier: MIT
 * What the tests of bins share: a bin of its own in a region. */
#ifndef BINS_H
#define BINS_H

#include "bin/bin.h"
#include "unit.h"

enum { BLOCKS = 4000 };
enum { MY_SHARD = 1, YOUR_SHARD = 2 };

extern bin_t bin;
extern budget_t budget;

void class_new(unsigned c); /* anew in `bin` */

void **fill(void **floor, void *const *blocks, size_t count); /* a magazine from its floor up */
void take_all(void **blocks, size_t count);                   /* so many of them */

#endif
