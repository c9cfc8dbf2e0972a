/* SPDX-License-Identifier: MIT
 *
 * Questions about addresses and sizes. */
#include "operations.h"
#include <errno.h>

void op_ask_inside(void)
{
  const slot_t *slot = some_slot();
  size_t at = number() * 37;
  if (slot->block && slot->usable)
    answers_agree(slot->block + at % slot->usable);
  if (slot->block)
    answers_agree(slot->block + slot->usable);
}

void op_ask_freed(void)
{
  const char *freed = model.freed[byte() % FREED];
  if (freed)
    answers_agree(freed + byte() % 16);
}

void op_ask_anything(void)
{
  uint64_t address = 0;
  for (unsigned i = 0; i < 8; i++)
    address = address << 8 | byte();
  answers_agree((const char *)(uintptr_t)(address >> byte() % 64));
}

/* Around a block's ends, and in the memory of heaps, their own records among it. */
void op_ask_near(void)
{
  const slot_t *slot = some_slot();
  unsigned n = byte() % HEAPS, at = byte();
  const known_heap_t *known = &model.heaps[n];
  ptrdiff_t by = (ptrdiff_t)((size_t)1 << at % 21);
  if (slot->block) {
    answers_agree(slot->block - by);
    answers_agree(slot->block - 1);
    answers_agree(slot->block + slot->usable + by);
  }
  answers_agree((const char *)((uintptr_t)known->heap + at));
  if (known->memory)
    answers_agree(known->memory + number() * 157 % known->memory_size);
}

void op_good_size(void)
{
  size_t size = some_size();
  must(pool_good_size(size) >= size && pool_good_size(pool_good_size(size)) == pool_good_size(size));
}

void op_impossible(void)
{
  unsigned heap = some_heap();
  size_t size = SIZE_MAX - (number() << 4);
  __asm__("" : "+r"(size));
  errno = 0;
  void *block = heap ? pool_heap_alloc(model.heaps[heap].heap, size) : byte() & 1 ? pool_alloc(size) : pool_calloc(size, 3);
  must(!block && errno == ENOMEM);
}
