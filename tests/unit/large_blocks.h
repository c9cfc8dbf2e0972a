/* SPDX-License-Identifier: MIT
 * What the tests of large blocks share. */
#ifndef LARGE_BLOCKS_H
#define LARGE_BLOCKS_H

#include "levels.h"
#include "unit.h"
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

pool_stats_t figures(pool_heap_t *heap);

#endif
