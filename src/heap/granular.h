/* SPDX-License-Identifier: MIT
 *
 * A small region as granules of 16 bytes, from which blocks of any size are cut (base/granules.h). Bins and slabs need a slab
 * for each size class in use, and a small region has no room for many. Here one index serves all sizes, and the heap's record
 * has no bins.
 *
 * The budget is charged for pages of the region that have a live block: when the first block of a page is taken, and until the
 * last is given back.
 *
 *   G1 what the budget was charged for the region is the size of its used pages
 *   G2 in a checked heap each free granule has the pattern of returned memory (guard.h), unless the system has its page, or it
 *      was never used
 *
 * Everything is under the heap's lock, and G1 and G2 hold whenever it is free. */
#ifndef GRANULAR_H
#define GRANULAR_H

#include "heap/heap.h"

/* Once it is known what the heap is to be: checked, or plain. */
void granular_begin(heap_t *heap);

/* How many granules with their index fit into so many bytes. */
size_t granular_count_for(size_t bytes);

/* `base` is granule 0, aligned to one. */
void granular_init(heap_t *heap, void *index, char *base, size_t count);

/* In the system's memory the granules go back to it by pages, for which there are two bitmaps of granular_pages() bits. What a
 * page holds that is charged to nobody is put down to the process, from the first call to the second. `dirty`: all pages hold
 * something. */
void granular_count_dirty(heap_t *heap, word_t *bitmaps, bool dirty);
void granular_forget_dirty(heap_t *heap);
static inline size_t granular_pages(size_t count) { return round_up((count + GRANULE_PAGE - 1) / GRANULE_PAGE, WORD_BITS); }

/* Does a step of giving pages back that have been without a block for the heap's purge delay, and at most for twice as long.
 * True: it gave some back with a call of the system, and there may be more to do. *left becomes true if pages are left that may
 * go back later. */
bool granular_tick(heap_t *heap, uint64_t now_ms, bool *left);

/* A block of at least `size` bytes, and how many it has; NULL: there is no room, or the budget has none. */
void *granular_take(heap_t *heap, size_t size, size_t alignment, size_t *usable);

/* The same for a heap whose blocks need no more (heap_t.plain_granules), at the first try. */
void *granular_take_plain(heap_t *heap, size_t size);

/* Whether the heap may go on in the process's space when its region is full. */
bool granular_may_leave(const heap_t *heap);

/* Gives a live block back. False: no live block begins there. */
bool granular_give(heap_t *heap, void *block);

/* Gives back what was freed and is kept for the next request of its length. Other calls of the heap do so too that are about
 * more than one block. Questions for figures do not: they change nothing. The pages of kept blocks stay charged, one or two for
 * each of 31 lengths. */
void granular_drain(heap_t *heap);

/* A live block becomes longer or shorter where it is. False: there is no room behind it. */
bool granular_resize(heap_t *heap, const void *block, size_t size);

/* All blocks end. */
void granular_end_blocks(heap_t *heap);

/* Whether the address is in the granules; whether it was ever in a block; and the live block around it, with its size, or NULL.
 * The last under the lock, which a heap of one thread does not have: it may be asked beside its owner. */
bool granular_holds(const heap_t *heap, const void *address);
static inline bool granular_was_taken(const heap_t *heap, const void *address)
{
  return (uintptr_t)address - (uintptr_t)heap->region.base < (size_t)heap->region.granules.taken_end << GRANULE_LOG2;
}
char *granular_around(const heap_t *heap, const void *address, size_t *size);

/* Returns the first live block at or behind `from`, and its size; NULL: there is none. */
char *granular_next(heap_t *heap, const char *from, size_t *size);

/* Gives pages without a block back to the system until at most `keep` bytes of them are left; returns the bytes given. */
size_t granular_purge(heap_t *heap, size_t keep);

/* Returns the largest request that would be served now, and the longest piece that no block has. Nothing changes. Kept blocks
 * count as free, except where a budget has too little room for that piece: then it is exact once the heap was drained. */
size_t granular_largest(heap_t *heap, size_t *longest);

/* Returns about as much, for a question about all heaps. */
size_t granular_largest_beside(heap_t *heap);

/* What live blocks take, and the pages that they are in; what no block has. Kept blocks are free, and their pages are held. It
 * is read without the lock, one word after the other, so while the heap is at work it is close. */
typedef struct granular_figures {
  size_t live_blocks, live_bytes, held_bytes, free_bytes;
} granular_figures_t;
granular_figures_t granular_figures(const heap_t *heap);

/* Returns the bytes that its purges have given back. A guest's has none, and no record of them. */
static inline uint64_t granular_purged(const heap_t *heap)
{
  return heap_is_guest(heap) ? 0 : __atomic_load_n(&heap->region.purged_bytes, __ATOMIC_RELAXED);
}

#endif
