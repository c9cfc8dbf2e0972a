/* SPDX-License-Identifier: MIT
 *
 * A region of up to 8 MiB is cut into granules of 16 bytes, and blocks of any size are cut from them (base/granules.h). Bins
 * and slabs need a slab for each size class in use, and a small region has no room for many. One index serves all sizes here,
 * and the record of a heap in a caller's memory has no bins. Own size classes only round sizes up.
 *
 * The budget is charged for the pages of the region that hold a live block, from the first block of a page to the last. A
 * reserve is charged as a whole when it is created.
 *
 *   G1 the budget's charge for the region is the size of its used pages, unless the region is prepaid
 *   G2 in a checked heap each free granule has the pattern of freed memory (base/fill.h), unless its page was returned to
 *      the system or never used
 *
 * The heap's lock protects everything. G1 and G2 hold whenever it is free. */
#ifndef GRANULAR_H
#define GRANULAR_H

#include "heap/heap.h"

/* Called once the heap is known to be checked or plain. */
void granular_begin(heap_t *heap);

static inline size_t granular_count_for(size_t bytes) { return granules_count_for(bytes, GRANULE_LOG2); }

/* The index is zeroed. `base` is the address of granule 0, a multiple of a granule. */
void granular_init(heap_t *heap, void *index, char *base, size_t count);

/* Granules in the system's memory are returned to it by pages. Two zeroed bitmaps of granular_pages() bits track these. Pages
 * that hold something and are charged to nobody count for the process between these two calls. `dirty`: all pages hold old
 * data. */
void granular_count_dirty(heap_t *heap, word_t *bitmaps, bool dirty);
void granular_forget_dirty(heap_t *heap);
static inline size_t granular_pages(size_t count) { return round_up((count + GRANULE_PAGE - 1) / GRANULE_PAGE, WORD_BITS); }

/* Does one step of returning pages that have been without a block for one to two purge delays. Returns true if the step
 * returned memory: more may be due. Sets *left if pages remain that may be returned later. */
bool granular_tick(heap_t *heap, uint64_t now_ms, bool *left);

/* Takes a block of at least `size` bytes; *usable is its size. Returns NULL if there is no room, or none in the budget. */
void *granular_take(heap_t *heap, size_t size, size_t alignment, size_t *usable);

/* granular_take() at the first try, for heaps whose blocks need no more (HEAP_PLAIN_GRANULES). */
void *granular_take_plain(heap_t *heap, size_t size);

bool granular_may_leave(const heap_t *heap);

/* Frees a live block. Returns false if no live block begins there. */
bool granular_give(heap_t *heap, void *block);

/* Frees the blocks that are kept for the next request of their length. Other calls that concern more than one block do that
 * too, but not questions for figures. The pages of kept blocks stay charged: one or two for each of 31 lengths. */
void granular_drain(heap_t *heap);

bool granular_resize(heap_t *heap, const void *block, size_t size);

void granular_end_blocks(heap_t *heap);

/* granular_was_taken(): the address was ever in a block. granular_around() returns the live block around it, with its size, or
 * NULL. A single-threaded heap has no lock for that: its owner may be at work. */
static inline bool granular_holds(const heap_t *heap, const void *address)
{
  return (uintptr_t)address - (uintptr_t)heap->region.base < (size_t)heap->region.granules.count << GRANULE_LOG2;
}
static inline bool granular_was_taken(const heap_t *heap, const void *address)
{
  return (uintptr_t)address - (uintptr_t)heap->region.base < (size_t)heap->region.granules.taken_end << GRANULE_LOG2;
}
char *granular_around(const heap_t *heap, const void *address, size_t *size);

/* Returns the first live block at or behind `from`, and its size. NULL: there is none. */
char *granular_next(heap_t *heap, const char *from, size_t *size);

/* Returns pages without a block to the system until at most `keep` bytes of them are left, and the bytes returned. */
size_t granular_purge(heap_t *heap, size_t keep);

/* Returns how many bytes of unused pages the heap can pay for. */
static inline size_t granular_room(heap_t *heap)
{
  return region_is_prepaid(&heap->region) ? SIZE_MAX : budget_room(&heap->budget);
}

/* Returns the largest request that would succeed now, and the longest free piece. Changes nothing. Kept blocks count as free
 * unless the budget is too small for that piece: the result is then exact only after a drain. */
size_t granular_largest(heap_t *heap, size_t *longest);

/* Bytes of live blocks, of their pages, and of free granules. Kept blocks are free, but their pages are held. The words are
 * read one after the other without the lock, so the figures are approximate while the heap is at work. */
typedef struct granular_figures {
  size_t live_blocks, live_bytes, held_bytes, free_bytes;
} granular_figures_t;
granular_figures_t granular_figures(const heap_t *heap);

/* Returns the bytes of all heaps of granules that are free, hold something and are charged to no budget. */
size_t granular_unpaid_bytes(void);

#endif
