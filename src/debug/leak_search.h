/* SPDX-License-Identifier: MIT
 * Finds the live blocks of all heaps that a program can still reach. Its memory is mapped temporarily. */
#ifndef LEAK_SEARCH_H
#define LEAK_SEARCH_H

#include "debug/sites.h"
#include "heap/heap.h"

typedef struct live {
  uintptr_t start;
  size_t size;
  const heap_t *heap;
  uintptr_t number; /* as in walked_t */
  site_t site;
  bool of_guest, reached, gone;
} live_t;

typedef struct span {
  uintptr_t start, end;
} span_t;

typedef struct search {
  live_t *blocks;
  size_t room, count;
  uint32_t *to_scan; /* reached blocks to scan */
  size_t scans;
  span_t *passed; /* skipped memory, by address */
  size_t passed_room, passed_count;
  uintptr_t stack; /* an address in this thread's stack; the program's part is above it */
  uintptr_t depth; /* lowest stack address that the search has used */
  uintptr_t *buffer;
  span_t block;       /* the long block that is being searched */
  unsigned threads;   /* of the process; 0: not known */
  const heap_t *heap; /* whose blocks are being added */
  bool failed;        /* some memory could not be read */
} search_t;

/* Lists the blocks. Only `stack` is set before. Returns false if there are none, or no memory for the list. */
bool leak_search_begin(search_t *s);

/* Searches, then sorts the blocks by heap. Returns false if the system does not show the process its memory. */
bool leak_search_find(search_t *s);

void leak_search_end(search_t *s);

#endif
