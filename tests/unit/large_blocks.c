/* SPDX-License-Identifier: MIT */
#include "large_blocks.h"
#include "os_fake.h"

void bring_up(void)
{
  os_fake_heal();
  pool_free(pool_alloc(1));
}

pool_stats_t figures(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  return stats;
}
