/* SPDX-License-Identifier: MIT
 *
 * What is tried, in which order, when a heap is exhausted. */
#ifndef EXHAUSTED_H
#define EXHAUSTED_H

#include "heap/request.h"

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

#endif
