/* SPDX-License-Identifier: MIT
 *
 * What the probes tell, which test_probes.py has gdb stop at. The program prints what they must say. */
#include <stdint.h>
#include <stdio.h>
#include <tidepool.h>
#include <tidepool/profile.h>

static void *kept[4];

static void use_heap(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "of probes", .budget = 1 << 20});
  printf("heap_create %#jx \"of probes\" 1048576\n", (uintmax_t)(uintptr_t)heap);
  if (pool_heap_alloc(heap, 3 << 20))
    return;
  printf("heap_exhausted %#jx \"of probes\" 3145728\n", (uintmax_t)(uintptr_t)heap);
  pool_heap_reset(heap);
  printf("heap_reset %#jx \"of probes\"\n", (uintmax_t)(uintptr_t)heap);
  pool_heap_destroy(heap);
  printf("heap_destroy %#jx \"of probes\"\n", (uintmax_t)(uintptr_t)heap);
}

static void use_pool(void)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.name = "small", .object_size = 16, .capacity = 1});
  kept[0] = object_pool_get(pool);
  kept[1] = object_pool_get(pool);
  printf("object_pool_full %#jx \"small\"\n", (uintmax_t)(uintptr_t)pool);
  object_pool_put(pool, kept[0]);
  object_pool_destroy(pool);
}

/* With one byte in one each block is a sample, and stands for itself. */
static void use_profile(void)
{
  static const size_t sizes[] = {100, 100000, 10 << 20};
  if (!pool_profile_start(1))
    return;
  for (int i = 0; i < 3; i++) {
    kept[i] = pool_alloc(sizes[i]);
    printf("alloc %#jx %zu %zu\n", (uintmax_t)(uintptr_t)kept[i], sizes[i], sizes[i]);
  }
  for (int i = 0; i < 3; i++) {
    pool_free(kept[i]);
    printf("free %#jx\n", (uintmax_t)(uintptr_t)kept[i]);
  }
  pool_profile_stop();
}

int main(void)
{
  use_heap();
  use_pool();
  use_profile();
  return 0;
}
