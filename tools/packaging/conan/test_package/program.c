/* SPDX-License-Identifier: MIT
 * Prints the version that it was compiled with and the one that it runs with. */
#include <stdio.h>
#include <tidepool.h>

int main(void)
{
  void *block = pool_alloc(1000);
  pool_free(block);
  printf("%s %s\n", TIDEPOOL_VERSION, pool_version());
  return !block;
}
