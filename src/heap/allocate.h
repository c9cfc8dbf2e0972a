/* SPDX-License-Identifier: MIT
 *
 * A request becomes a block. */
#ifndef ALLOCATE_H
#define ALLOCATE_H

#include "heap/locate.h"

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two; 1: any), zeroed if asked. NULL + ENOMEM. */
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero);

/* For whoever needs several blocks at once, or may do with less: the same order of resorts as that of one allocation (the heap itself,
 * its callback as long as that helps, the heap it overflows to), a step at a time. A callback may leave, or reset the heap: it is called
 * by heap_next_resort() alone, with nothing of the caller's in hand. */
typedef struct resort {
  heap_t  *first, *heap;        /* the heap that was asked; where it is the turn of one that it overflows to, that one */
  unsigned attempt;             /* of its callback */
} resort_t;
resort_t heap_first_resort(heap_t *heap);

/* What the heap whose turn it is has itself; calls nobody. NULL: nothing, which does not count as exhausted; errno stays. */
void *heap_probe(const resort_t *from, size_t size, size_t alignment);

/* True: probe again. Without `may_ask` no callback is called. False: nothing is left to try; heap_exhausted() is for the caller to say. */
bool heap_next_resort(resort_t *from, size_t size, bool may_ask);

/* For a block that changes its size: one of at least `size` bytes for it to move to, only if that costs nobody anything (no callback,
 * no overflow, nothing given back for it; errno stays). */
void *heap_allocate_if_easy(heap_t *heap, size_t size);

/* Or with all resorts; what makes room for another block may make it behind `from`, which then has grown and is the answer. */
void *heap_allocate_from(heap_t *heap, size_t size, located_t *from, bool *grown);

/* A large block grows where it is, or by moving its pages. False: nothing changed. */
bool heap_lengthen(located_t *at, size_t size, bool may_move);

/* NULL, with ENOMEM, or the end of the program where abort_on_exhausted says so. */
void *heap_exhausted(heap_t *heap);

#endif
