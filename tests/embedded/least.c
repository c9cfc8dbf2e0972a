/* SPDX-License-Identifier: MIT
 * Programs whose text docs/embedded.md states: a heap, and with WITH_OBJECT_POOL an object pool in it. */
#include <tidepool/embedded.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>

static _Alignas(64) unsigned char memory[32 << 10];

int main(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "net", .memory = memory, .memory_size = sizeof memory});
  void *block = pool_heap_realloc(heap, pool_heap_alloc(heap, 100), 200);
  pool_heap_free(heap, block);
  bool works = block;
#ifdef WITH_OBJECT_POOL
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.name = "messages", .object_size = 64, .capacity = 64, .heap = heap});
  void *object = object_pool_get(pool);
  object_pool_put(pool, object);
  works = works && object;
#endif
  pool_heap_reset(heap);
  return works ? 0 : 1;
}
