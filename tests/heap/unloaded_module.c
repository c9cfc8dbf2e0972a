/* SPDX-License-Identifier: MIT
 * A plug-in with a libtidepool of its own inside, which the loader unloads. */
#include <string.h>
#include <tidepool.h>

void module_use(void);

/* Blocks stay in the thread's magazines, which are emptied when it ends. */
void module_use(void)
{
  void *blocks[100];
  for (size_t i = 0; i < 100; i++)
    memset(blocks[i] = pool_alloc(i * 8 + 1), 1, i * 8 + 1);
  for (size_t i = 0; i < 100; i++)
    pool_free(blocks[i]);
}
