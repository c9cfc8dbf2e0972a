/* SPDX-License-Identifier: MIT
 *
 * What the manager must say, and what is noted when it gives a block and takes one back. */
#include "model.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIVE_MOST = 48 << 20 };

model_t model;

_Noreturn void must_failed(const char *file, int line, const char *condition)
{
  fprintf(stderr, "fuzz_pool: seed %lu: in %s%s%s: %s:%d: not so: %s\n", (unsigned long)fuzz_seed, model.op ? model.op : "-",
          model.is_child ? ", in a child" : "", model.elsewhere ? ", in the second thread" : "", file, line, condition);
  abort();
}

const slot_t *slot_around(const char *address)
{
  for (const slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && address >= slot->block && (size_t)(address - slot->block) < (slot->usable ? slot->usable : 1))
      return slot;
  return NULL;
}

void answers_agree(const char *address)
{
  const slot_t *slot = slot_around(address);
  size_t size = 0;
  char *start = pool_block_start(address, &size);
  must(pool_in_use(address) == (slot != NULL));
  must(start == (slot ? slot->block : NULL));
  must(!slot || size == slot->usable);
  must(!slot || pool_heap_of(address) == model.heaps[slot->heap].heap);
  for (const known_heap_t *known = model.heaps; known < model.heaps + HEAPS; known++)
    if (known->memory && address >= known->memory && (size_t)(address - known->memory) < known->memory_size)
      must(pool_heap_of(address) == known->heap);
}

static unsigned number_of_heap(const pool_heap_t *heap)
{
  unsigned n = 0;
  while (n < HEAPS && model.heaps[n].heap != heap)
    n++;
  must(n < HEAPS);
  return n;
}

slot_t *some_slot(void) { return &model.slots[byte() % SLOTS]; }

/* The default heap where the one that is named does not exist. */
unsigned some_heap(void)
{
  unsigned n = byte() % (2 * HEAPS);
  return n < HEAPS && model.heaps[n].heap ? n : 0;
}

static void no_overlap(const slot_t *slot)
{
  for (const slot_t *other = model.slots; other < model.slots + SLOTS; other++)
    must(!other->block || other == slot || other->block + other->usable <= slot->block ||
         slot->block + slot->usable <= other->block);
}

bool may_fail(unsigned heap, size_t size) { return model.heaps[heap].limited || size > (size_t)1 << 28; }

/* A heap that others overflow to may overflow itself, and outlives them, so there is an end. */
bool overflows_to(unsigned from, unsigned to)
{
  while (from && from != to)
    from = model.heaps[from].overflow;
  return from == to;
}

/* The heap answered a request with `block`. */
void keep(slot_t *slot, unsigned asked, char *block, size_t size, size_t alignment)
{
  if (!block) {
    must(errno == ENOMEM && may_fail(asked, size));
    return;
  }
  must(errno == 0);
  unsigned heap = number_of_heap(pool_heap_of(block));
  *slot = (slot_t){block, size, pool_usable_size(block), ++model.keys, heap};
  must((uintptr_t)block % (alignment > 16 ? alignment : 16) == 0);
  must(slot->usable >= size);
  must(overflows_to(asked, heap));
  no_overlap(slot);
  model.live_bytes += size;
  fill(slot);
  answers_agree(block + (size ? model.keys % size : 0));
}

void forget(slot_t *slot)
{
  model.live_bytes -= slot->size;
  slot->block = NULL;
}

/* A checked heap fills what it takes back with something else. */
bool leaves_nothing(unsigned heap) { return model.heaps[heap].zeroes && !model.heaps[heap].checked; }

void let_go(slot_t *slot)
{
  if (!slot->block)
    return;
  verify(slot, slot->block, slot->size);
  const char *block = slot->block;
  unsigned how = byte();
  size_t size = slot->size;
  size_t usable = slot->usable;
  forget(slot);
  errno = 0;
  if (slot->heap && how & 1)
    pool_heap_free(model.heaps[slot->heap].heap, (void *)(uintptr_t)block);
  else if (how & 2)
    pool_free_sized((void *)(uintptr_t)block, size);
  else
    pool_free((void *)(uintptr_t)block);
  must(errno == 0);
  model.freed[model.freed_next++ % FREED] = block;
  answers_agree(block);
  if (leaves_nothing(slot->heap))
    must_be_wiped(block, usable);
}

void make_room(size_t size)
{
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS && model.live_bytes + size > LIVE_MOST; slot++)
    let_go(slot);
}
