/* SPDX-License-Identifier: MIT */
#include "large_blocks.h"

pool_stats_t figures(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  return stats;
}
