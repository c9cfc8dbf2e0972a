/* SPDX-License-Identifier: MIT
 *
 * Stacks by the heap that they allocated in: the heap stands as if it were their outermost function. Those of malloc() and of
 * the default heap stay as they are. */
#ifndef SPLIT_H
#define SPLIT_H

#include "callers.h"
#include "recording/heap_names.h"

typedef struct split {
  callers_t *callers;
  const heap_names_t *heaps;
  uint32_t *of_heap;  /* of each heap the number of the name that stands in stacks; 0: it has none yet */
  struct pair *pairs; /* a table of open addresses, at most half full */
  size_t pair_count, size;
  size_t stack_most; /* no number of a stack reaches it; 0: any may be */
} split_t;

/* After callers_name(). */
void split_begin(split_t *split, callers_t *callers, const heap_names_t *heaps, size_t stack_most);

/* The number of the stack that is `site` in the heap. */
uint32_t split_stack(split_t *split, uint32_t site, uint32_t heap);
void split_end(split_t *split);

#endif
