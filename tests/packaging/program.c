/* SPDX-License-Identifier: MIT
 * A program of a user: prints the version that it was compiled with and the one that it runs with. */
#include <stdio.h>
#include <tidepool.h>

int main(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "packages"});
  void *block = heap ? pool_heap_alloc(heap, 1000) : NULL, *other = pool_alloc(1000);
  if (!block || !other)
    return 1;
  pool_free(other);
  pool_heap_destroy(heap);
  printf("%s %s\n", TIDEPOOL_VERSION, pool_version());
  return 0;
}
