/* SPDX-License-Identifier: MIT
 *
 * Requests become blocks, blocks change their size and are freed. */
#ifndef HEAP_BLOCKS_H
#define HEAP_BLOCKS_H

#include "heap/locate.h"

/* ---- request ----
 *
 * A request on its way to a block. */

typedef struct request {
  size_t size, alignment;
  size_t usable;      /* answer: bytes of the block */
  block_past_t past;  /* answer: what they hold */
  bool grown;         /* answer: that from has become the block */
  bool in_granules;   /* answer: it was cut from them */
  bool apart;         /* answer: it is a block apart */
  bool drawn;         /* it gets a sample, whatever else is drawn */
  bool together;      /* it may not be apart */
  bool counted;       /* by a profile; */
  bool in_profile;    /* answer: that it is to enter */
  heap_t *heap;       /* answer: whose block it is */
  located_t *from;    /* NULL, or a block that may become it where it is, or by moving its pages */
  const void *caller; /* where the program's call returns to; NULL: it is not known */
  const char *call;
} request_t;

/* The guard of a block that has one has the alignment in it. */
static inline size_t size_with_head(const heap_t *heap, const request_t *r)
{
  return heap_is_headed(heap) ? headed_size(r->size, r->alignment) : r->size;
}

/* The plain way, in allocate.c: a magazine, a bin, or a large block. NULL: the heap has none without giving something up. */
void *heap_take(heap_t *heap, request_t *r);

/* A block of a larger class, from `from` on and of up to `most` bytes, if one is free in a slab that is there already. */
void *heap_borrow(heap_t *heap, unsigned from, size_t most, request_t *r);

/* A large block grows where it is, or by moving its pages. False: nothing changed. The second is called when one has become
 * another size in some other way. */
bool heap_lengthen(located_t *at, size_t size, bool may_move, const void *caller);
void heap_note_resized(const located_t *at, size_t size, const void *caller);

/* ---- exhausted ----
 *
 * What is tried, in which order, when a heap is exhausted. */

/* What is tried when a heap is exhausted: the heap itself, its callback for as long as that says "again", then the same of the
 * heap it overflows to. heap_allocate() goes through all of it. A caller that needs several blocks at once, or may do with
 * less, goes a step at a time. A callback may leave by longjmp(), or reset the heap. So heap_next_attempt() alone calls it,
 * when the caller has nothing in hand. */
typedef struct resort {
  heap_t *first, *heap; /* the heap that was asked; the one of its chain of overflows whose turn it is */
  unsigned attempt;     /* of its callback */
  const char *call;
  const void *caller; /* where that returns to; NULL: not known */
  bool together;      /* no block of its heap that is apart will do */
} attempt_t;
attempt_t heap_first_resort(heap_t *heap, const char *call);

/* Goes on to the next resort. True: probe again. False: nothing is left to try, and the caller says heap_exhausted(). Without
 * `may_ask` no callback is called. */
bool heap_next_attempt(attempt_t *from, size_t size, bool may_ask);

/* Tries the heap whose turn it is: the plain way, then what it has to give up. */
void *heap_take_at(const attempt_t *from, request_t *r);

/* Every heap of the chain that did not serve the request itself counts it as overflowed. */
void heap_count_overflowed(const attempt_t *from);

/* All resorts, after the plain way has failed. */
COLD void *heap_take_hard(heap_t *heap, request_t *r);

/* ---- allocate ----
 *
 * A request becomes a block. */

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. In a
 * checked heap the block may turn out to have been written to while it was free: `call` is what finds that, here and below. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call);

/* The same where the address that it returns to is not that of the program's call: that is `caller`. */
void *heap_allocate_for(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call, const void *caller);

#if CALLER_IS_TOLD
#define heap_allocate(heap, size, alignment, zero, call) \
  heap_allocate_for(heap, size, alignment, zero, call, __builtin_return_address(0))
#endif

/* The same as heap_allocate() of a request for which a sample was drawn: the block is walled, if that can be had. */
void *heap_allocate_sample(heap_t *heap, size_t size, const char *call, const void *caller);

/* Takes a block from the heap whose turn it is, without a callback. NULL: it has none, which does not count as exhausted; errno
 * stays. */
void *heap_probe(const attempt_t *from, size_t size, size_t alignment);

/* Takes a block of at least `size` bytes for another to move to, but only if that is easy: no callback is called, no overflow
 * asked, and nothing is given back for it. NULL leaves errno as it was. */
void *heap_allocate_if_easy(heap_t *heap, size_t size, const char *call, const void *caller);

/* The same with all resorts. What makes room for another block may make it behind `from`, which then has grown and is the
 * answer. */
void *heap_allocate_from(heap_t *heap, size_t size, located_t *from, bool *grown, const char *call, const void *caller);

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size);

/* ---- free ----
 *
 * A block comes back. */

/* Takes back any block of any heap; `call` is what a misuse is put down to. With a heap: a block of it, or of one that it
 * overflows to. */
void heap_free(heap_t *heap, void *block, const char *call);

/* The same where the address that it returns to is not that of the program's call: that is `caller`. */
void heap_free_for(heap_t *heap, void *block, const char *call, const void *caller);

#if CALLER_IS_TOLD
#define heap_free(heap, block, call) heap_free_for(heap, block, call, __builtin_return_address(0))
#endif

/* The same of a block that was looked up. */
void heap_give_back(const located_t *at, const char *call, const void *caller);

/* Ends the program if the caller takes the block for one of another size or alignment than it asked for, where that is known.
 */
void heap_verify_sized(const void *block, size_t size, size_t alignment, const char *call);

/* A block is returned to where it is from, past the caches of threads. */
void heap_give_uncached(const located_t *at, const char *call);

/* Zeroes `size` bytes of a block, or of what holds it, from `from` on. */
void heap_wipe(const located_t *at, char *from, size_t size);

/* ---- reallocate ----
 *
 * A block changes its size. */

/* As pool_realloc with a block and a size, in the heap the block came from. */
void *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call);
#if CALLER_IS_TOLD
void *heap_reallocate_for(heap_t *heap, void *block, size_t size, const char *call, const void *caller);
#define heap_reallocate(heap, block, size, call) heap_reallocate_for(heap, block, size, call, __builtin_return_address(0))
#endif
BY_REGISTER bool heap_resize_in_place(void *block, size_t size, const char *call);
size_t heap_usable_size(const void *block, const char *call);

#endif
