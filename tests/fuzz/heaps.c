/* SPDX-License-Identifier: MIT
 *
 * Heaps of all kinds: made, reset, ended, and their budgets. */
#include "operations.h"
#include <errno.h>

enum {
  MEMORY_BYTES = 96 << 10,
  LARGE_MEMORY_BYTES = 9 << 20 /* units of 64 KiB */
};

static char memories[HEAPS][MEMORY_BYTES], large_memory[LARGE_MEMORY_BYTES];

static const size_t own_classes[] = {32, 64, 112, 512, 4096, 40960};

/* Gives back a block of the heap that asks, if it has one. */
static bool give_something(pool_heap_t *heap, size_t bytes, unsigned attempt, void *context)
{
  (void)bytes, (void)attempt, (void)context;
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot != model.busy && model.heaps[slot->heap].heap == heap) {
      let_go(slot);
      return true;
    }
  return false;
}

static void choose_place(pool_heap_options_t *options, unsigned n, unsigned kind)
{
  switch (kind) {
  case 0:
  case 1:
    break;
  case 2:
    options->budget = (64 + (size_t)byte() * 16) << 10;
    break;
  case 3:
    options->budget = (size_t)(1 + byte() % 32) << 20;
    break;
  case 4:
    options->reserve = (size_t)(1 + byte() % 8) << 19;
    break;
  case 5:
    options->reserve = (size_t)(9 + byte() % 8) << 20;
    break;
  case 6:
    options->memory = memories[n] + byte() % 64;
    options->memory_size = MEMORY_BYTES - 64 - byte() * 256;
    break;
  case 7:
    options->memory = large_memory;
    options->memory_size = LARGE_MEMORY_BYTES - number();
    break;
  case 8:
    options->reserve = (size_t)1 << 20;
    options->budget = (size_t)3 << 20;
    break;
  default:
    options->size_classes = own_classes;
    options->size_class_count = 6;
    break;
  }
}

static bool large_memory_is_used(void)
{
  for (const known_heap_t *known = model.heaps; known < model.heaps + HEAPS; known++)
    if (known->memory == large_memory)
      return true;
  return false;
}

void op_heap_create(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1), kind = byte(), flags = byte(), parent = some_heap(), overflow = some_heap();
  if (model.heaps[n].heap || (kind % 10 == 7 && large_memory_is_used()))
    return;
  pool_heap_options_t options = {0};
  choose_place(&options, n, kind % 10);
  if (flags & 64 && (options.memory || options.reserve || (options.budget && options.budget <= 8 << 20)))
    options.purge_delay_ms = POOL_PURGE_NEVER;
  options.flags = (flags % 8 == 0 ? POOL_HEAP_CHECKED : 0) | (flags % 3 == 0 ? POOL_HEAP_ZERO_ON_FREE : 0);
  if (flags % 11 == 0 && !model.elsewhere)
    options.flags |= POOL_HEAP_SINGLE_THREAD;
  if (kind & 16 && parent)
    options.parent = model.heaps[parent].heap;
  if (kind & 32 && overflow)
    options.overflow = model.heaps[overflow].heap;
  if (kind & 64)
    options.on_exhausted = give_something;
  errno = 0;
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap ? errno == 0 : options.parent || options.memory || options.budget);
  if (heap)
    model.heaps[n] = (known_heap_t){
      .heap = heap,
      .limited = options.budget || options.memory || options.parent,
      .checked = options.flags & POOL_HEAP_CHECKED,
      .single = options.flags & POOL_HEAP_SINGLE_THREAD,
      .zeroes = options.flags & POOL_HEAP_ZERO_ON_FREE,
      .memory = options.memory,
      .memory_size = options.memory_size,
      .parent = options.parent ? parent : 0,
      .overflow = options.overflow ? overflow : 0,
    };
}

typedef struct ended {
  const char *block;
  size_t usable;
} ended_t;
static ended_t ended[SLOTS];

static size_t forget_blocks_of(unsigned heap)
{
  size_t count = 0;
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    if (slot->block && slot->heap == heap) {
      verify(slot, slot->block, slot->size);
      ended[count++] = (ended_t){slot->block, slot->usable};
      forget(slot);
    }
  return count;
}

static void ended_are_wiped(size_t count)
{
  for (size_t i = 0; i < count; i++)
    must_be_wiped(ended[i].block, ended[i].usable);
}

/* Heaps that lean on this one must go first. */
void destroy(unsigned n)
{
  if (!model.heaps[n].heap)
    return;
  for (unsigned i = 1; i < HEAPS; i++)
    if (model.heaps[i].heap && (model.heaps[i].parent == n || model.heaps[i].overflow == n))
      destroy(i);
  size_t count = forget_blocks_of(n);
  bool wiped = leaves_nothing(n);
  errno = 0;
  pool_heap_destroy(model.heaps[n].heap);
  must(errno == 0);
  model.heaps[n] = (known_heap_t){0};
  if (wiped)
    ended_are_wiped(count);
}

void op_heap_destroy(void) { destroy(1 + byte() % (HEAPS - 1)); }

void op_heap_reset(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1);
  if (!model.heaps[n].heap)
    return;
  size_t count = forget_blocks_of(n);
  pool_heap_reset(model.heaps[n].heap);
  if (leaves_nothing(n))
    ended_are_wiped(count);
  pool_stats_t stats;
  must(pool_heap_stats(model.heaps[n].heap, &stats) && stats.live_blocks == 0);
}

void op_heap_set_budget(void)
{
  unsigned n = 1 + byte() % (HEAPS - 1);
  size_t budget = (size_t)number() << 10;
  pool_stats_t stats;
  if (!model.heaps[n].heap)
    return;
  bool done = pool_heap_set_budget(model.heaps[n].heap, budget);
  must(pool_heap_stats(model.heaps[n].heap, &stats));
  must(done ? stats.budget == budget : stats.held_bytes > budget);
  model.heaps[n].limited = true;
}
