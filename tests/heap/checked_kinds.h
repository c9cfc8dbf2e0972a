/* SPDX-License-Identifier: MIT
 * Checked heaps in all kinds of memory. The last two hold few blocks back. */
#ifndef CHECKED_KINDS_H
#define CHECKED_KINDS_H

#include "heaps.h"

static _Alignas(16) unsigned char buffer[1 << 20];

static const pool_heap_options_t kinds[] = {
  {.flags = POOL_HEAP_CHECKED},
  {.flags = POOL_HEAP_CHECKED | POOL_HEAP_SINGLE_THREAD},
  {.flags = POOL_HEAP_CHECKED | POOL_HEAP_ZERO_ON_FREE},
  {.flags = POOL_HEAP_CHECKED, .budget = 64 << 20},
  {.flags = POOL_HEAP_CHECKED, .budget = 6 << 20},
  {.flags = POOL_HEAP_CHECKED, .budget = 7 << 20, .reserve = 6 << 20},
  {.flags = POOL_HEAP_CHECKED, .memory = buffer, .memory_size = sizeof buffer},
  {.flags = POOL_HEAP_CHECKED, .budget = 1 << 20},
  {.flags = POOL_HEAP_CHECKED, .memory = buffer, .memory_size = 64 << 10},
  {.flags = POOL_HEAP_CHECKED, .budget = 64 << 10},
};
enum { ROOMY = 8 };

#endif
