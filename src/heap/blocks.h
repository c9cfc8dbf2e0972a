/* SPDX-License-Identifier: MIT
 * Requests become blocks; blocks are resized and freed. */
#ifndef HEAP_BLOCKS_H
#define HEAP_BLOCKS_H

#include "heap/locate.h"

/* ---- request ---- */

/* Returns the bytes to take for a request. The front of a head includes the alignment. */
static inline size_t size_with_head(const heap_t *heap, const request_t *r)
{
  return heap_is_headed(heap) ? headed_size(r->size, r->alignment) : r->size;
}

/* Takes the memory for a block, as the heap serves requests. */
static inline void *heap_take(heap_t *heap, request_t *r)
{
  heap_take_fn *otherwise = heap_take_otherwise(heap);
  return unlikely(otherwise != NULL) ? otherwise(heap, r) : heap_take_plain(heap, r);
}

/* Takes a free block from an existing slab of a larger class, from class `from` up to blocks of `most` bytes. */
void *heap_borrow(heap_t *heap, unsigned from, size_t most, request_t *r);

/* ---- exhausted ---- */

/* An exhausted heap itself is tried first, then its callback while it returns true, then the heap that it overflows to. A
 * caller that needs several blocks at once, or can settle for less, takes one attempt at a time. A callback may leave by
 * longjmp() or reset the heap, so only heap_next_attempt() calls it, while the caller holds nothing. */
typedef struct attempt {
  heap_t *first, *heap; /* the heap that was asked; the heap of its overflow chain that is tried now */
  unsigned attempt;     /* number of calls of its callback */
  origin_t by;
  bool together; /* the block must not be standalone */
} attempt_t;
attempt_t heap_first_attempt(heap_t *heap, origin_t by);

/* Advances to the next attempt. Returns true if the caller should probe again. Returns false if nothing is left to try: the
 * caller then calls heap_exhausted(). A callback is called only if `may_ask`. */
bool heap_next_attempt(attempt_t *from, size_t size, bool may_ask);

/* Tries the current heap: the plain path, then what the heap can give up. */
void *heap_take_at(const attempt_t *from, request_t *r);

/* Counts the request as overflowed in every heap of the chain that could not serve it. */
void heap_count_overflowed(const attempt_t *from);

/* Makes all attempts after the plain path has failed. */
COLD void *heap_take_hard(heap_t *heap, request_t *r);

/* ---- allocate ---- */

/* Returns a block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if `zero`. NULL with
 * ENOMEM on failure. The call is named if a checked heap finds that free memory was overwritten, here and below. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, origin_t by);

/* heap_allocate() for any request. An attempt may free the memory behind `from`, which then grows into the result. */
void *heap_serve(heap_t *heap, request_t *r);

/* heap_serve() if that is easy: no callback is called, no overflow is tried, and nothing is given up. NULL keeps errno. */
void *heap_serve_if_easy(heap_t *heap, request_t *r);

/* Takes a block from the current heap without its callback. NULL keeps errno and does not count as exhausted. */
void *heap_probe(const attempt_t *from, size_t size, size_t alignment);

/* Returns NULL with ENOMEM, or ends the program if abort_on_exhausted is set. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size);

/* ---- free ---- */

/* Frees any block of any heap, or only of `heap` and those that it overflows to. The call is named if a misuse is found. */
void heap_free(heap_t *heap, void *block, origin_t by);

/* Frees a block of `heap` if the overflow heap served it: it would not end with the heap. */
void heap_give_overflowed(heap_t *heap, void *block, const char *call);

/* heap_free() for a block that was looked up. */
void heap_give_back(const located_t *at, origin_t by);

/* Ends the program if the block's size or alignment is known and differs from these. */
void heap_verify_sized(const void *block, size_t size, size_t alignment, const char *call);

/* Returns a block to its bin, run, mapping or granules, past the thread caches. */
void heap_give_uncached(const located_t *at, const char *call);

/* Zeroes `size` bytes of a block, or of the memory that holds it, from `from` on. */
void heap_wipe(const located_t *at, char *from, size_t size);

/* ---- resize ---- */

/* Changes the size of a block in place, or by moving its pages if `may_move` and it grows. Returns false if nothing changed. A
 * block never fails to shrink, but one of a slab, or in its place, keeps its bytes. */
bool heap_resize(located_t *at, size_t size, bool may_move, origin_t by);

/* pool_realloc() with a block and a size, in the heap that the block is from. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, origin_t by);
BY_REGISTER bool heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

#endif
