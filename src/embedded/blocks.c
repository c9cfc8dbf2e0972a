/* SPDX-License-Identifier: MIT
 *
 * The list of heaps, and what it says about an address; blocks are taken, freed and resized. A heap's memory may be a block of
 * another heap. Its record is then at the beginning of that block, so no two blocks begin at one address. */
#include "base/fill.h"
#include "debug/head.h"
#include "embedded/front.h"
#include "heap/granular.h"
#include "heap/invalid.h"
#include "misuse.h"
#include <errno.h>
#include <string.h>
#include <tidepool/pool.h>
#include <tidepool/version.h>

/* The live block around an address. */
typedef struct found {
  heap_t *heap; /* the heap whose memory contains the address; NULL: none */
  char *start;  /* the memory of the block, with its head if it has one; NULL: no block is there */
  size_t usable;
  char *block; /* as its caller knows it; NULL: unknown */
  size_t size;
  head_state_t state; /* of a heap with heads */
} found_t;

/* ---- heaps ---- */

lock_t heaps_lock;
const heap_dependents_t *heap_dependents;
static heap_t *heaps;

void heaps_enter(heap_t *heap)
{
  LOCKED(&heaps_lock);
  heap->next = heaps;
  heaps = heap;
}

void heaps_leave(heap_t *heap)
{
  LOCKED(&heaps_lock);
  heap_t **at = &heaps;
  while (*at != heap)
    at = &(*at)->next;
  *at = heap->next;
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
  LOCKED(&heaps_lock);
  for (heap_t *other = heaps; other; other = other->next)
    if (other == heap || (!other->lock.solo && descends_from(other, heap)))
      act(other);
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

static bool block_is_live(const found_t *at) { return at->start && (!heap_is_headed(at->heap) || at->state == HEAD_LIVE); }

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

static found_t find_around(const void *address)
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

/* Returns the block that begins there, of the heap or one that it overflows to; of any heap if that is NULL. Ends the program
 * if there is none; `if_freed` is the message for a freed one. The lock keeps the list of heaps. It is free again when a misuse
 * is reported, because that may leave the call. */
static found_t find_block(heap_t *heap, const void *block, const char *call, const char *if_freed)
{
  lock_acquire(&heaps_lock);
  found_t at = begin_in(heap ? heap : heaps, heap, block);
  lock_release(&heaps_lock);
  if (unlikely(!at.start))
    no_block_begins(heap, block, call, if_freed);
  return at;
}

static headed_t headed(const found_t *at, const char *call)
{
  return (headed_t){.start = at->start, .usable = at->usable, .heap = at->heap, .call = call, .in_granules = true};
}

/* ---- allocate ---- */

void *heap_exhausted(heap_t *heap, const char *call, size_t size)
{
  (void)call, (void)size;
  __atomic_fetch_add(&heap->exhausted_count, 1, __ATOMIC_RELAXED);
  errno = ENOMEM;
  return NULL;
}

void *heap_probe(const attempt_t *from, size_t size, size_t alignment)
{
  found_t at = {.heap = from->heap};
  bool has_head = heap_is_headed(at.heap);
  at.start = granular_take(at.heap, has_head ? headed_size(size, alignment) : size, alignment, &at.usable);
  if (!at.start)
    return NULL;
  heap_count_overflowed(from);
  return has_head ? head_open(headed(&at, from->by.call), size, alignment, true) : at.start;
}

void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, origin_t by)
{
  int error = errno; /* the callback may set errno before the request succeeds */
  attempt_t from = heap_first_attempt(heap, by);
  void *block;
  while (!(block = heap_probe(&from, size, alignment)))
    if (!heap_next_attempt(&from, size, size <= PTRDIFF_MAX))
      return heap_exhausted(heap, by.call, size);
  errno = error;
  return zero ? memset(block, 0, heap_is_headed(from.heap) ? size : granules_for(size) << GRANULE_LOG2) : block;
}

/* ---- free ---- */

/* Another context may have freed the block since it was looked up. */
static void free_found(const found_t *at, const char *call)
{
  heap_t *heap = at->heap;
  if (heap_is_headed(heap)) {
    if (unlikely(!head_close(headed(at, call))))
      fatal_misuse(call, at->block, FREED_TWICE);
    head_drop(headed(at, call));
  } else if (heap->flags & POOL_HEAP_ZERO_ON_FREE) {
    memset(at->start, 0, at->size);
  }
  if (unlikely(!granular_give(heap, at->start)))
    fatal_misuse(call, at->block, FREED_TWICE);
}

void heap_free(heap_t *heap, void *block, origin_t by)
{
  found_t at = find_block(heap, block, by.call, FREED_TWICE);
  free_found(&at, by.call);
}

void heap_give_overflowed(heap_t *heap, void *block, const char *call)
{
  if (!heap_overflow(heap))
    return;
  found_t at = find_block(heap, block, call, FREED_TWICE);
  if (at.heap != heap)
    free_found(&at, call);
}

/* ---- resize ---- */

/* A block with a head does not grow in place. */
static bool resize_found(const found_t *at, size_t size)
{
  if (size < at->size && at->heap->flags & POOL_HEAP_ZERO_ON_FREE)
    memset(at->block + size, 0, at->size - size);
  return granular_resize(at->heap, at->start, size) || size < at->size;
}

static void *copy_block_to(void *to, const found_t *at, size_t size, const char *call)
{
  memcpy(to, at->block, min_size(at->size, size));
  free_found(at, call);
  return to;
}

/* The block moves, so that later uses of its address are found. Shrinking must not fail, so it may stay in place. */
static void *reallocate_headed(heap_t *heap, const found_t *at, size_t size, origin_t by)
{
  if (size == at->size)
    return at->block;
  attempt_t from = heap_first_attempt(heap, by);
  void *to = size > at->size ? heap_allocate(heap, size, 1, false, by) : heap_probe(&from, size, 1);
  if (to)
    return copy_block_to(to, at, size, by.call);
  if (size > at->size)
    return NULL;
  head_shorten(headed(at, by.call), size);
  return at->block;
}

/* The callback may free the memory behind the block, so each attempt first tries to grow in place. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, origin_t by)
{
  found_t at = find_block(heap, block, by.call, FREED_BEFORE);
  if (heap_is_headed(at.heap))
    return reallocate_headed(heap, &at, size, by);
  int error = errno;
  attempt_t from = heap_first_attempt(heap, by);
  void *to = NULL;
  while (!resize_found(&at, size) && !(to = heap_probe(&from, size, 1)))
    if (!heap_next_attempt(&from, size, size <= PTRDIFF_MAX))
      return heap_exhausted(heap, by.call, size);
  errno = error;
  return to ? copy_block_to(to, &at, size, by.call) : block;
}

/* ---- all blocks ---- */

/* Blocks with an invalid head are skipped: freeing them reports that. */
bool visit_blocks(heap_t *heap, pool_visit_fn *visit, void *context)
{
  size_t usable = 0;
  for (char *start = NULL; (start = granular_next(heap, start, &usable)) != NULL; start += usable) {
    pool_block_t block = {.start = start, .size = usable};
    if (heap_is_headed(heap)) {
      head_look_t head = head_look(start, usable);
      if (head.state != HEAD_LIVE)
        continue;
      block.start = head.block, block.size = head.size;
    }
    if (!visit(&block, context))
      return false;
  }
  return true;
}

static void verify_free(heap_t *heap, const char *from, const char *to, const char *call)
{
  const char *wrong = dead_find_written(from, (size_t)(to - from));
  if (unlikely(wrong != NULL))
    fatal_damage(call, from, AFTER_FREE, wrong - from, heap, (size_t)(to - from));
}

void verify_blocks(heap_t *heap, const char *call)
{
  found_t at = {.heap = heap};
  char *end = heap->region.base;
  for (; (at.start = granular_next(heap, end, &at.usable)) != NULL; end = at.start + at.usable) {
    verify_free(heap, end, at.start, call);
    head_verify_live(headed(&at, call), true);
  }
  verify_free(heap, end, heap->region.base + ((size_t)heap->region.granules.count << GRANULE_LOG2), call);
}

/* ---- questions about any block of any heap ---- */

const char *pool_version(void) { return TIDEPOOL_VERSION; }

bool pool_resize_in_place(void *block, size_t size)
{
  if (!block)
    return false;
  found_t at = find_block(NULL, block, "pool_resize_in_place", FREED_BEFORE);
  return !heap_is_headed(at.heap) && resize_found(&at, size);
}

size_t pool_usable_size(const void *block)
{
  return block ? find_block(NULL, block, "pool_usable_size", FREED_BEFORE).size : 0;
}

/* Only the requested bytes of a block with a head are the caller's. */
static found_t live_around(const void *address)
{
  found_t at = find_around(address);
  if (!block_is_live(&at) || (size_t)((const char *)address - at.block) >= max_size(at.size, 1))
    at.block = NULL;
  return at;
}

bool pool_in_use(const void *address) { return live_around(address).block; }

void *pool_block_start(const void *address, size_t *size)
{
  found_t at = live_around(address);
  if (size && at.block)
    *size = at.size;
  return at.block;
}

pool_heap_t *pool_heap_of(const void *address) { return find_around(address).heap; }

const char *pool_error(void) { return invalid_text(); }
