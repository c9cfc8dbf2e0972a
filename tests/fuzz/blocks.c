/* SPDX-License-Identifier: MIT
 *
 * Blocks of all sizes: taken, resized, freed. */
#include "operations.h"
#include <errno.h>

void take(size_t size)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap();
  let_go(slot);
  make_room(size);
  errno = 0;
  keep(slot, heap, heap ? pool_heap_alloc(model.heaps[heap].heap, size) : pool_alloc(size), size, 16);
}

void op_alloc(void) { take(some_size()); }

void take_zeroed(size_t size)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap(), how = byte();
  let_go(slot);
  make_room(size);
  errno = 0;
  pool_heap_t *of = model.heaps[heap].heap;
  char *block = heap ? (how & 1 ? pool_heap_calloc(of, size, 1) : pool_heap_zalloc(of, size))
                     : (how & 1 ? pool_calloc(1, size) : pool_zalloc(size));
  if (block)
    must_be_zero(block, pool_usable_size(block));
  keep(slot, heap, block, size, 16);
}

void op_zeroed(void) { take_zeroed(some_size() & 0x1ffff); }

static void take_aligned(size_t size, size_t alignment)
{
  slot_t *slot = some_slot();
  unsigned heap = some_heap();
  let_go(slot);
  make_room(size);
  errno = 0;
  pool_heap_t *of = model.heaps[heap].heap;
  keep(slot, heap, heap ? pool_heap_aligned_alloc(of, alignment, size) : pool_aligned_alloc(alignment, size), size, alignment);
}

void op_aligned(void)
{
  size_t size = some_size() & 0xfffff;
  take_aligned(size, (size_t)1 << byte() % 22);
}

/* The heap of a block, or one that overflows to it. */
static unsigned heap_above(unsigned heap)
{
  unsigned n = byte() % HEAPS;
  return heap && n && model.heaps[n].heap && overflows_to(n, heap) ? n : heap;
}

/* What was there of a block that ended or shrank is gone. */
static void old_bytes_are_gone(const slot_t *was, const char *block, size_t size)
{
  if (!leaves_nothing(was->heap))
    return;
  if (block != was->block)
    must_be_wiped(was->block, was->usable);
  else if (size < was->usable)
    must_be_wiped(was->block + size, was->usable - size);
}

static void reallocate(slot_t *slot, size_t size)
{
  unsigned how = byte();
  make_room(size);
  if (!slot->block)
    return;
  slot_t was = *slot;
  unsigned asked = how & 1 ? was.heap : heap_above(was.heap);
  verify(slot, slot->block, slot->size);
  if (size == 0) {
    let_go(slot);
    return;
  }
  errno = 0;
  model.busy = slot;
  pool_heap_t *heap = model.heaps[asked].heap;
  char *block = asked != was.heap || how & 2 ? pool_heap_realloc(heap, slot->block, size) : pool_realloc(slot->block, size);
  model.busy = NULL;
  if (!block) {
    must(errno == ENOMEM && (may_fail(was.heap, size) || may_fail(asked, size)));
    verify(slot, slot->block, slot->size);
    return;
  }
  must(block == was.block || size > was.usable || size <= was.usable / 2 || model.heaps[was.heap].checked);
  verify(&was, block, size);
  forget(slot);
  old_bytes_are_gone(&was, block, size);
  keep(slot, asked, block, size, 16);
  if (block != was.block)
    answers_agree(was.block);
}

void op_realloc(void)
{
  slot_t *slot = some_slot();
  reallocate(slot, some_size());
}

static void resize(slot_t *slot, size_t size)
{
  make_room(size);
  if (!slot->block || size == 0)
    return;
  errno = 0;
  slot_t was = *slot;
  bool done = pool_resize_in_place(slot->block, size);
  must(errno == 0);
  verify(slot, slot->block, done ? size : slot->size);
  if (!done) {
    must(pool_usable_size(slot->block) == slot->usable);
    return;
  }
  forget(slot);
  old_bytes_are_gone(&was, was.block, size);
  keep(slot, was.heap, was.block, size, 16);
}

void op_resize(void)
{
  slot_t *slot = some_slot();
  resize(slot, some_size());
}

/* ---- large and huge blocks ---- */

static size_t some_size_above_classes(void) { return byte() % 16 == 0 ? some_huge_size() : some_large_size(); }

static slot_t *some_large_slot(void)
{
  slot_t *slot = some_slot();
  for (size_t i = 0; i < SLOTS; i++) {
    slot_t *other = &model.slots[((size_t)(slot - model.slots) + i) % SLOTS];
    if (other->block && other->size >= LARGE_LEAST / 2)
      return other;
  }
  return slot;
}

void op_large(void) { take(some_large_size()); }
void op_large_zeroed(void) { take_zeroed(some_large_size()); }
void op_huge(void) { take(some_huge_size()); }
void op_huge_zeroed(void) { take_zeroed(some_huge_size()); }

void op_large_aligned(void)
{
  size_t size = some_size_above_classes();
  take_aligned(size, (size_t)1 << (12 + byte() % 12));
}

void op_large_realloc(void)
{
  slot_t *slot = some_large_slot();
  reallocate(slot, some_size_above_classes());
}

void op_large_resize(void)
{
  slot_t *slot = some_large_slot();
  resize(slot, byte() & 1 && slot->size > 2 ? slot->size / 2 + number() % (slot->size / 2) : some_size_above_classes());
}

void op_large_free(void) { let_go(some_large_slot()); }

void op_free(void) { let_go(some_slot()); }

void op_free_many(void)
{
  for (unsigned n = byte() % 64, first = byte(), i = 0; i < n; i++)
    let_go(&model.slots[(first + i) % SLOTS]);
}

void op_batch(void)
{
  void *blocks[150];
  size_t size = some_size() & 0x3fff, count = byte() % 150;
  unsigned first = byte();
  errno = 0;
  must(pool_alloc_batch(size, blocks, count) == count && errno == 0);
  for (size_t i = 0; i < count; i++) {
    slot_t *slot = &model.slots[(first + i) % SLOTS];
    if (i >= 20 || slot->block)
      continue;
    keep(slot, 0, blocks[i], size, 16);
    blocks[i] = NULL;
  }
  for (size_t i = 0; i < count; i++)
    must(!blocks[i] || (pool_in_use(blocks[i]) && !slot_around(blocks[i])));
  pool_free_batch(blocks, count);
  must(errno == 0);
}

void op_verify(void)
{
  const slot_t *slot = some_slot();
  if (slot->block)
    verify(slot, slot->block, slot->size);
}

void op_trim(void)
{
  unsigned heap = some_heap();
  size_t keep_bytes = (size_t)byte() << 14;
  errno = 0;
  if (heap)
    pool_heap_trim(model.heaps[heap].heap, keep_bytes);
  else
    pool_trim(keep_bytes);
  must(errno == 0);
}
