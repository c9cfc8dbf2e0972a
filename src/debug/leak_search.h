/* SPDX-License-Identifier: MIT
 *
 * Which live blocks of all heaps a program can still reach. What it takes is mapped for the moment. */
#ifndef HEAP_LOST_H
#define HEAP_LOST_H

#include "debug/sites.h"
#include "heap/heap.h"

typedef struct live {
  uintptr_t start;
  size_t size;
  const heap_t *heap;
  uintptr_t number; /* as walked_t has it */
  site_t site;
  bool of_guest, reached, gone;
} live_t;

typedef struct span {
  uintptr_t start, end;
} span_t;

typedef struct search {
  live_t *blocks;
  size_t room, count;
  uint32_t *to_scan; /* of reached blocks */
  size_t scans;
  span_t *passed; /* by address: what is no root */
  size_t passed_room, passed_count;
  uintptr_t stack; /* an address in this thread's, from where on it is the program's */
  uintptr_t depth; /* how far down the search has used it */
  uintptr_t *buffer;
  span_t block;       /* a long one that is being searched */
  unsigned threads;   /* of the process; 0: not known */
  const heap_t *heap; /* whose blocks are being added */
  bool failed;        /* some memory could not be looked at */
} search_t;

/* Lists the blocks. `stack` of the search was set before, and nothing else. False: there are none, or no memory for the list.
 */
bool leak_search_begin(search_t *s);

/* Searches, and puts the blocks in an order in which those of a heap are beside each other. False: the system does not show the
 * process its memory, and nothing can be said of what is reached. */
bool leak_search_find(search_t *s);

/* In any case. */
void leak_search_end(search_t *s);

#endif
