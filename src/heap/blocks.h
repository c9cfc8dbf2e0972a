/* SPDX-License-Identifier: MIT
 * Requests become blocks; blocks are resized and freed. */
#ifndef HEAP_BLOCKS_H
#define HEAP_BLOCKS_H

#include "heap/locate.h"

/* ---- request ---- */

typedef struct request {
  size_t size, alignment;
  size_t usable;      /* result: bytes of the block */
  block_past_t past;  /* result: the former contents */
  bool grown;         /* result: `from` has become the block */
  bool in_granules;   /* result: the block was cut from granules */
  bool apart;         /* result: the block is apart */
  bool drawn;         /* this request becomes a sample in any case */
  bool together;      /* the block must not be apart */
  bool counted;       /* a profile has counted the request */
  bool in_profile;    /* result: the block has to enter a profile */
  heap_t *heap;       /* result: the block's heap */
  located_t *from;    /* NULL, or a block that may grow into the result in place or by moving its pages */
  const void *caller; /* return address of the program's call; NULL: not known */
  const char *call;
} request_t;

/* Returns the bytes to take for a request. The front of a head includes the alignment. */
static inline size_t size_with_head(const heap_t *heap, const request_t *r)
{
  return heap_is_headed(heap) ? headed_size(r->size, r->alignment) : r->size;
}

/* The plain path: a magazine, a bin, or a large block. Returns NULL if the heap has none without giving something up. */
void *heap_take(heap_t *heap, request_t *r);

/* Takes a free block from an existing slab of a larger class, from class `from` up to blocks of `most` bytes. */
void *heap_borrow(heap_t *heap, unsigned from, size_t most, request_t *r);

/* heap_lengthen() grows a large block in place or by moving its pages. False: nothing changed. heap_note_resized() is called
 * after a block was resized in any other way. */
bool heap_lengthen(located_t *at, size_t size, bool may_move, const void *caller);
void heap_note_resized(const located_t *at, size_t size, const void *caller);

/* ---- exhausted ---- */

/* An exhausted heap itself is tried first, then its callback while it returns true, then the heap that it overflows to. A
 * caller that needs several blocks at once, or can settle for less, takes one attempt at a time. A callback may leave by
 * longjmp() or reset the heap, so only heap_next_attempt() calls it, while the caller holds nothing. */
typedef struct attempt {
  heap_t *first, *heap; /* the heap that was asked; the heap of its overflow chain that is tried now */
  unsigned attempt;     /* number of calls of its callback */
  const char *call;
  const void *caller; /* return address of that call; NULL: not known */
  bool together;      /* the block must not be apart */
} attempt_t;
attempt_t heap_first_attempt(heap_t *heap, const char *call);

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
 * ENOMEM on failure. `call` is named if a checked heap finds that free memory was overwritten, here and below. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call);

/* heap_allocate() for callers whose return address is not that of the program's call, which is `caller`. */
void *heap_allocate_for(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call, const void *caller);

#if CALLER_IS_TOLD
#define heap_allocate(heap, size, alignment, zero, call) \
  heap_allocate_for(heap, size, alignment, zero, call, __builtin_return_address(0))
#endif

/* heap_allocate() for a request that was drawn as a sample: the block lies behind guard pages if that is possible. */
void *heap_allocate_sample(heap_t *heap, size_t size, const char *call, const void *caller);

/* Takes a block from the current heap without its callback. NULL keeps errno and does not count as exhausted. */
void *heap_probe(const attempt_t *from, size_t size, size_t alignment);

/* Takes a block of at least `size` bytes for another to move to, if that is easy: no callback is called, no overflow is tried,
 * and nothing is given back for it. Returns NULL and keeps errno otherwise. */
void *heap_allocate_if_easy(heap_t *heap, size_t size, const char *call, const void *caller);

/* heap_allocate_if_easy() with all attempts. An attempt may free the memory behind `from`, which then grows into the result. */
void *heap_allocate_from(heap_t *heap, size_t size, located_t *from, bool *grown, const char *call, const void *caller);

/* Returns NULL with ENOMEM, or ends the program if abort_on_exhausted is set. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size);

/* ---- free ---- */

/* Frees any block of any heap, or only of `heap` and those that it overflows to. `call` is named if a misuse is found. */
void heap_free(heap_t *heap, void *block, const char *call);

/* heap_free() for callers whose return address is not that of the program's call, which is `caller`. */
void heap_free_for(heap_t *heap, void *block, const char *call, const void *caller);

#if CALLER_IS_TOLD
#define heap_free(heap, block, call) heap_free_for(heap, block, call, __builtin_return_address(0))
#endif

/* heap_free() for a block that was looked up. */
void heap_give_back(const located_t *at, const char *call, const void *caller);

/* Ends the program if the block's size or alignment is known and differs from these. */
void heap_verify_sized(const void *block, size_t size, size_t alignment, const char *call);

/* Returns a block to its bin, run, mapping or granules, past the thread caches. */
void heap_give_uncached(const located_t *at, const char *call);

/* Zeroes `size` bytes of a block, or of the memory that holds it, from `from` on. */
void heap_wipe(const located_t *at, char *from, size_t size);

/* ---- reallocate ---- */

/* pool_realloc() with a block and a size, in the heap that the block is from. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call);
#if CALLER_IS_TOLD
void *heap_reallocate_for(heap_t *heap, void *block, size_t size, const char *call, const void *caller);
#define heap_reallocate(heap, block, size, call) heap_reallocate_for(heap, block, size, call, __builtin_return_address(0))
#endif
BY_REGISTER bool heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

#endif
