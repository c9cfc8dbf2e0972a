/* SPDX-License-Identifier: MIT */
#include "addresses.h"
#include "heap/heap.h"

_Alignas(4096) char buffer[6 << 20];

pool_heap_t *new_heap(pool_heap_options_t options)
{
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap && check_everything());
  return heap;
}

pool_heap_t *new_guest(void *memory, size_t size)
{
  return new_heap((pool_heap_options_t){.memory = memory, .memory_size = size});
}

void is_block(pool_heap_t *heap, char *block, size_t size)
{
  size_t usable = pool_usable_size(block), said, step = max_size(usable / 300, 1);
  must(usable >= size);
  for (size_t at = 0; at<usable; at += at + 64> usable || at < 64 ? 1 : step) {
    must(pool_in_use(block + at) && pool_block_start(block + at, &said) == block && said == usable);
    must(pool_heap_of(block + at) == heap);
  }
}

void is_nobodys(const pool_heap_t *heap, const char *address)
{
  size_t said = 5;
  must(!pool_in_use(address) && !pool_block_start(address, &said) && said == 5 && !pool_block_start(address, NULL));
  must(pool_heap_of(address) == heap);
}

void free_default(void *block) { pool_free(block); }
