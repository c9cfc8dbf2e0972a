/* SPDX-License-Identifier: MIT
 *
 * The list of heaps, and what it says about an address. A heap's memory may be a block of another heap. Its record is then at
 * the beginning of that block, so no two blocks begin at one address. */
#include "debug/head.h"
#include "embedded/front.h"
#include "heap/granular.h"
#include "misuse.h"

lock_t heaps_lock;
const heap_dependents_t *heap_dependents;
static heap_t *heaps;

void heaps_enter(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  heap->next = heaps;
  heaps = heap;
  lock_release(&heaps_lock);
}

void heaps_leave(heap_t *heap)
{
  lock_acquire(&heaps_lock);
  heap_t **at = &heaps;
  while (*at != heap)
    at = &(*at)->next;
  *at = heap->next;
  lock_release(&heaps_lock);
}

bool heap_is_needed(const heap_t *heap)
{
  lock_acquire(&heaps_lock);
  const heap_t *other = heaps;
  while (other && other->parent != heap && heap_overflow(other) != heap)
    other = other->next;
  lock_release(&heaps_lock);
  return other != NULL;
}

static bool descends_from(const heap_t *heap, const heap_t *ancestor)
{
  while (heap && heap != ancestor)
    heap = heap->parent;
  return heap != NULL;
}

void heaps_each_below(heap_t *heap, void (*act)(heap_t *heap))
{
  lock_acquire(&heaps_lock);
  for (heap_t *other = heaps; other; other = other->next)
    if (other == heap || (!other->lock.solo && descends_from(other, heap)))
      act(other);
  lock_release(&heaps_lock);
}

/* A single-threaded heap has no lock. */
static found_t look_in_heap(heap_t *heap, const void *address)
{
  found_t at = {.heap = heap};
  if (!granular_holds(heap, address))
    return at;
  lock_acquire(&heap->lock);
  at.block = at.start = granular_around(heap, address, &at.usable);
  at.size = at.usable;
  if (at.start && heap_is_headed(heap)) {
    head_look_t head = head_look(at.start, at.usable);
    at.block = head.block, at.size = head.size, at.state = head.state;
  }
  lock_release(&heap->lock);
  return at;
}

bool block_is_live(const found_t *at) { return at->start && (!heap_is_headed(at->heap) || at->state == HEAD_LIVE); }

static bool begins(const found_t *at, const void *block) { return at->block == block && block_is_live(at); }

/* Returns the block that begins there, of a list of heaps; `start` NULL: there is none. Under heaps_lock. */
static found_t begin_in(heap_t *heap, bool is_chain, const void *block)
{
  for (; heap; heap = is_chain ? heap_overflow(heap) : heap->next) {
    found_t at = look_in_heap(heap, block);
    if (begins(&at, block))
      return at;
  }
  return (found_t){0};
}

/* Returns the heap whose memory contains the address, the innermost one. Under heaps_lock. */
static heap_t *heap_around(const void *address)
{
  heap_t *inner = NULL;
  for (heap_t *heap = heaps; heap; heap = heap->next)
    if ((uintptr_t)address - (uintptr_t)heap->region.start < heap->region.size &&
        (!inner || heap->region.size < inner->region.size))
      inner = heap;
  return inner;
}

found_t find_around(const void *address)
{
  lock_acquire(&heaps_lock);
  found_t at = begin_in(heaps, false, address);
  heap_t *heap = at.heap ? NULL : heap_around(address);
  if (heap)
    at = look_in_heap(heap, address);
  lock_release(&heaps_lock);
  return at;
}

/* A block with an invalid head was overwritten in front. */
COLD static _Noreturn void no_block_begins(heap_t *heap, const void *block, const char *call, const char *if_freed)
{
  found_t at = find_around(block);
  bool aligned = (uintptr_t)block % GRANULE == 0, freed = false;
  if (at.heap && begins(&at, block) && heap)
    fatal_misuse(call, block, NOT_OF_HEAP);
  if (at.start && heap_is_headed(at.heap) && !at.state && aligned && (size_t)((const char *)block - at.start) >= HEAD_FRONT)
    head_damaged((headed_t){.start = at.start, .usable = at.usable, .heap = at.heap, .call = call}, block);
  if (at.heap && aligned)
    freed = at.start ? at.state == HEAD_FREED && (!at.block || at.block == block) : granular_was_taken(at.heap, block);
  fatal_misuse(call, block, freed ? if_freed : NOT_A_BLOCK);
}

/* The lock keeps the list of heaps. It is free again when a misuse is reported, because that may leave the call. */
found_t find_block(heap_t *heap, const void *block, const char *call, const char *if_freed)
{
  lock_acquire(&heaps_lock);
  found_t at = begin_in(heap ? heap : heaps, heap, block);
  lock_release(&heaps_lock);
  if (unlikely(!at.start))
    no_block_begins(heap, block, call, if_freed);
  return at;
}
