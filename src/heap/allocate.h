/* SPDX-License-Identifier: MIT
 *
 * A request becomes a block; and what is tried, in which order, when a heap is exhausted. */
#ifndef ALLOCATE_H
#define ALLOCATE_H

#include "heap/locate.h"

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. In a
 * checked heap the block may turn out to have been written to while it was free: `call` is what finds that, here and below. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call);

/* The same where the address that it returns to is not that of the program's call: that is `caller`. */
void *heap_allocate_for(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call, const void *caller);

/* The same as heap_allocate() of a request for which a sample was drawn: the block is walled, if that can be had. */
void *heap_allocate_sample(heap_t *heap, size_t size, const char *call);

/* What is tried when a heap is exhausted: the heap itself, its callback for as long as that says "again", then the same of the
 * heap it overflows to. heap_allocate() goes through all of it. A caller that needs several blocks at once, or may do with
 * less, goes a step at a time. A callback may leave by longjmp(), or reset the heap. So heap_next_resort() alone calls it,
 * when the caller has nothing in hand. */
typedef struct resort {
  heap_t *first, *heap; /* the heap that was asked; the one of its chain of overflows whose turn it is */
  unsigned attempt;     /* of its callback */
  const char *call;
  const void *caller; /* where that returns to; NULL: not known */
  bool together;      /* no block of its heap that is apart will do */
} resort_t;
resort_t heap_first_resort(heap_t *heap, const char *call);

/* Takes a block from the heap whose turn it is, without a callback. NULL: it has none, which does not count as exhausted; errno
 * stays. */
void *heap_probe(const resort_t *from, size_t size, size_t alignment);

/* Goes on to the next resort. True: probe again. False: nothing is left to try, and the caller says heap_exhausted(). Without
 * `may_ask` no callback is called. */
bool heap_next_resort(resort_t *from, size_t size, bool may_ask);

/* Takes a block of at least `size` bytes for another to move to, but only if that is easy: no callback is called, no overflow
 * asked, and nothing is given back for it. NULL leaves errno as it was. */
void *heap_allocate_if_easy(heap_t *heap, size_t size, const char *call, const void *caller);

/* The same with all resorts. What makes room for another block may make it behind `from`, which then has grown and is the
 * answer. */
void *heap_allocate_from(heap_t *heap, size_t size, located_t *from, bool *grown, const char *call);

/* A large block grows where it is, or by moving its pages. False: nothing changed. */
bool heap_lengthen(located_t *at, size_t size, bool may_move);

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size);

#endif
