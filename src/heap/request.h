/* SPDX-License-Identifier: MIT
 *
 * A request on its way to a block. */
#ifndef REQUEST_H
#define REQUEST_H

#include "heap/locate.h"

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

#endif
